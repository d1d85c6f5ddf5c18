"""Serves records by OAI-PMH with pyoai, on a port that it prints.

    oai_server.py RECORDS

Records are b0, b1, ...; every seventh is deleted. Pages have ten records.
"""

import cgi
import sys
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, parse_qsl, urlsplit

from oaipmh import common, metadata, server

# pyoai calls a function that newer versions of Python have elsewhere
cgi.parse_qs = parse_qs
count = int(sys.argv[1])
CHANGED = datetime(2024, 3, 1)


def header(number):
    return common.Header(None, f"oai:x:b{number}", CHANGED, ["all"], number % 7 == 3)


def record(number):
    titles = {"title": [f"Title {number} & more"], "identifier": [f"b{number}"]}
    for name in "creator subject description publisher contributor type format source language relation coverage rights date".split():
        titles[name] = []
    deleted = number % 7 == 3
    return header(number), None if deleted else common.Metadata(None, titles), None


class Repository:
    def identify(self):
        return common.Identify("Books", "http://localhost", "2.0", ["a@example.org"], CHANGED, "persistent", "YYYY-MM-DDThh:mm:ssZ", ["identity"])

    def wanted(self, from_, until):
        inside = (from_ is None or from_ <= CHANGED) and (until is None or until >= CHANGED)
        return range(count) if inside else range(0)

    def listRecords(self, metadataPrefix, set=None, from_=None, until=None, cursor=0, batch_size=10):
        return [record(number) for number in self.wanted(from_, until)][cursor : cursor + batch_size]

    def listIdentifiers(self, metadataPrefix, set=None, from_=None, until=None, cursor=0, batch_size=10):
        return [header(number) for number in self.wanted(from_, until)][cursor : cursor + batch_size]


registry = metadata.MetadataRegistry()
registry.registerWriter("oai_dc", server.oai_dc_writer)
pages = server.BatchingServer(Repository(), metadata_registry=registry, resumption_batch_size=10)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = pages.handleRequest(dict(parse_qsl(urlsplit(self.path).query)))
        body = body if isinstance(body, bytes) else body.encode()
        self.send_response(200)
        self.send_header("content-type", "text/xml")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


listening = HTTPServer(("127.0.0.1", 0), Handler)
print(listening.server_port, flush=True)
listening.serve_forever()
