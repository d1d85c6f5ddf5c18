"""Print each record of a MARCXML file as pymarc reads it, like marc_dump.py."""

import sys
from xml.sax import SAXException

from pymarc import parse_xml_to_array
from pymarc.exceptions import PymarcException

from marc_dump import error_line, record_line


def dump(path):
    try:
        with open(path, "rb") as file:
            records = parse_xml_to_array(file)
    except (SAXException, PymarcException, KeyError) as error:
        # pymarc hands back nothing at all from a file with one bad record.
        print(error_line(error))
        return
    for record in records:
        print(record_line(record))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: xml_marc.py FILE.xml")
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    dump(sys.argv[1])
