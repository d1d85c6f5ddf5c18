"""Harvests a repository of OAI-PMH with sickle, and checks every response.

    oai_harvest.py URL PREFIX [FROM [UNTIL [SET]]]

Prints a line of JSON for each record: identifier, datestamp, whether it is deleted, and the text of its title; finally the time of the first response. With
STOOK_TEST_OAI_XSD, the path of OAI-PMH.xsd, every response is validated by it.
"""

import json
import os
import sys

from lxml import etree
from sickle import Sickle
from sickle.oaiexceptions import NoRecordsMatch

OAI = "{http://www.openarchives.org/OAI/2.0/}"
DC = "{http://purl.org/dc/elements/1.1/}"
MARC = "{http://www.loc.gov/MARC21/slim}"
ELEMENTS = "title creator subject description publisher contributor date type format identifier source language relation coverage rights".split()
XSD = os.environ.get("STOOK_TEST_OAI_XSD")
SCHEMA = etree.XMLSchema(etree.parse(XSD)) if XSD else None
FIRST = []


def check(response):
    tree = etree.fromstring(response.content)
    if SCHEMA is not None:
        SCHEMA.assertValid(tree)
    names = [child.tag for child in tree]
    assert names[:2] == [OAI + "responseDate", OAI + "request"] and len(names) > 2, names
    FIRST.append(tree.findtext(OAI + "responseDate"))
    for record in tree.iter(OAI + "record"):
        header = record.find(OAI + "header")
        assert [child.tag for child in header] == [OAI + "identifier", OAI + "datestamp", OAI + "setSpec"], etree.tostring(header)
        metadata = record.find(OAI + "metadata")
        assert (metadata is None) == (header.get("status") == "deleted"), etree.tostring(record)
        if metadata is not None:
            assert len(metadata) == 1
            for element in metadata[0]:
                name = element.tag.split("}")[1]
                assert element.tag == DC + name and name in ELEMENTS or element.tag.startswith(MARC), element.tag


class Checked(Sickle):
    def harvest(self, **arguments):
        response = super().harvest(**arguments)
        check(response.http_response)
        return response


def title(record):
    if record.deleted:
        return None
    found = record.xml.find(".//" + DC + "title")
    if found is None:
        found = record.xml.find(".//" + MARC + "datafield[@tag='245']/" + MARC + "subfield")
    return found.text if found is not None else None


url, prefix, *rest = sys.argv[1:]
names = dict(zip(["from", "until", "set"], [value or None for value in rest]))
sickle = Checked(url)
try:
    identify = sickle.Identify()
    list(sickle.ListMetadataFormats())
    list(sickle.ListSets())
    FIRST.clear()
    for record in sickle.ListRecords(metadataPrefix=prefix, **{name: value for name, value in names.items() if value}):
        header = record.header
        print(json.dumps({"id": header.identifier, "at": header.datestamp, "deleted": header.deleted, "title": title(record)}))
except NoRecordsMatch:
    pass
print(json.dumps({"date": FIRST[0], "pages": len(FIRST), "name": identify.repositoryName}))
