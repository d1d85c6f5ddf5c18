"""Print each record of a MARC-in-JSON file as pymarc reads it, like marc_dump.py."""

import sys

from pymarc import JSONReader

from marc_dump import error_line, record_line


def dump(path):
    try:
        with open(path, encoding="utf-8") as file:
            reader = iter(JSONReader(file))
    except ValueError as error:
        print(error_line(error))
        return
    while True:
        try:
            line = record_line(next(reader))
        except StopIteration:
            return
        except Exception as error:
            # pymarc checks nothing itself, so a bad record fails in many ways.
            line = error_line(error)
        print(line)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: json_marc.py FILE.json")
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    dump(sys.argv[1])
