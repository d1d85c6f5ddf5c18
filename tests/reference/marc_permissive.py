"""Read a file of damaged binary MARC records as pymarc does at its most permissive, one JSON line for each.

The file has, for each record, its length as four bytes and then its bytes.
"""

import json
import logging
import sys
import warnings

from marc_dump import error_line, record_line
from pymarc import MARCReader


def dump(path):
    with open(path, "rb") as file:
        while prefix := file.read(4):
            record = file.read(int.from_bytes(prefix, "big"))
            try:
                reader = MARCReader(
                    record,
                    to_unicode=True,
                    permissive=True,
                    utf8_handling="replace",
                    hide_utf8_warnings=True,
                )
                found = next(reader)
            except (StopIteration, ValueError) as error:
                print(error_line(error))
                continue
            print(error_line(reader.current_exception) if found is None else record_line(found))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: marc_permissive.py FILE")
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    dump(sys.argv[1])
