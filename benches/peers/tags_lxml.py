"""Tags as a loop in Python over lxml evaluates them: prints processor seconds, one JSON object.

    tags_lxml.py one DOCUMENTS XPATH        parse each document, evaluate one definition
    tags_lxml.py many DOCUMENTS XPATHS      documents parsed before, all definitions of a file evaluated

DOCUMENTS is a file of JSON lines with XML in `lshw`; XPATHS a file with one definition a line.
"""

import json
import sys
import time

from lxml import etree

mode, file, definitions = sys.argv[1:]
NAMESPACES = {"lshw": "lshw", "lldp": "lldp"}
documents = []
with open(file) as lines:
    for line in lines:
        text = json.loads(line)["lshw"]
        if text:
            documents.append(text.encode())


def parse(document):
    try:
        return etree.fromstring(document)
    except etree.XMLSyntaxError:
        return None


matched = 0
if mode == "one":
    xpath = etree.XPath(f"boolean({definitions})", namespaces=NAMESPACES)
    started = time.process_time()
    for document in documents:
        root = parse(document)
        if root is not None:
            matched += xpath(root)
else:
    with open(definitions) as lines:
        xpaths = [etree.XPath(f"boolean({line.strip()})", namespaces=NAMESPACES) for line in lines]
    roots = [root for root in map(parse, documents[:500]) if root is not None]
    documents = roots
    started = time.process_time()
    for root in roots:
        for xpath in xpaths:
            matched += xpath(root)
seconds = time.process_time() - started
print(json.dumps({"documents": len(documents), "seconds": seconds, "matched": matched}))
