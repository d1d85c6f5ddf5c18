"""Print each record of a binary MARC 21 file as pymarc reads it, one JSON line each."""

import json
import sys

from pymarc import MARCReader


def record_line(record):
    """Return one record as the JSON line that all the reference dumps share."""
    fields = []
    for field in record.fields:
        if field.control_field:
            fields.append([field.tag, field.data])
        else:
            subfields = [[s.code, s.value] for s in field.subfields]
            fields.append([field.tag, *field.indicators, subfields])
    line = {"leader": str(record.leader), "fields": fields}
    return json.dumps(line, ensure_ascii=False)


def error_line(error):
    """Return the JSON line for a record that pymarc rejects."""
    text = f"{type(error).__name__}: {error}"
    return json.dumps({"error": text}, ensure_ascii=False)


def dump(path):
    with open(path, "rb") as file:
        reader = MARCReader(file, to_unicode=True, force_utf8=False, permissive=True)
        while True:
            try:
                record = next(reader)
            except StopIteration:
                return
            except ValueError as error:
                # A record length below 5 makes the reader itself fail.
                print(error_line(error))
                return
            if record is None:
                print(error_line(reader.current_exception))
            else:
                print(record_line(record))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: marc_dump.py FILE")
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    dump(sys.argv[1])
