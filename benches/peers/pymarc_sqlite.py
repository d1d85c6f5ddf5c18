"""Load MARC authorities into SQLite with pymarc, the script the bench compares with."""

import json
import sqlite3
import sys
import time

from pymarc import MARCReader

BATCH = 1000

KINDS = {
    "100": "personalName",
    "110": "corporateName",
    "111": "meetingName",
    "130": "uniformTitle",
    "150": "topicalTerm",
    "151": "geographicName",
}

SCHEMA = """
CREATE TABLE IF NOT EXISTS authority (
    lccn TEXT PRIMARY KEY,
    control_number TEXT,
    kind TEXT NOT NULL,
    heading TEXT,
    see_from TEXT NOT NULL,
    changed TEXT,
    record BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS authority_heading ON authority (heading);
CREATE INDEX IF NOT EXISTS authority_kind ON authority (kind);
"""

INSERT = "INSERT OR IGNORE INTO authority VALUES (?, ?, ?, ?, ?, ?, ?)"


def heading_of(field):
    return " ".join(subfield.value for subfield in field.subfields)


def timestamp(text):
    """Turn 005 (yyyymmddhhmmss.f) into an ISO timestamp, or None if malformed."""
    if text is None or len(text) < 14 or not text[:14].isdigit():
        return None
    date = f"{text[0:4]}-{text[4:6]}-{text[6:8]}"
    return f"{date}T{text[8:10]}:{text[10:12]}:{text[12:]}"


def row(record, raw):
    lccn = control_number = changed = heading = None
    kind = "other"
    see_from = []
    for field in record.fields:
        tag = field.tag
        if tag == "001":
            control_number = field.data
        elif tag == "005":
            changed = timestamp(field.data)
        elif tag == "010" and lccn is None:
            lccn = field.get("a")
        elif tag[0] == "1" and heading is None:
            kind = KINDS.get(tag, "other")
            heading = heading_of(field)
        elif tag[0] == "4":
            see_from.append(heading_of(field))
    see_from = json.dumps(see_from, ensure_ascii=False)
    return lccn, control_number, kind, heading, see_from, changed, raw


def load(marc_path, db_path, synchronous):
    """Load the file and return the number of records read from it."""
    db = sqlite3.connect(db_path)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA synchronous = {synchronous}")
    db.executescript(SCHEMA)
    count = 0
    with open(marc_path, "rb") as file:
        reader = MARCReader(file)
        for record in reader:
            if record is None:
                continue
            db.execute(INSERT, row(record, reader.current_chunk))
            count += 1
            if count % BATCH == 0:
                db.commit()
    db.commit()
    db.close()
    return count


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[3] not in ("FULL", "NORMAL"):
        sys.exit("usage: pymarc_sqlite.py FILE DB FULL|NORMAL")
    start = time.perf_counter()
    records = load(sys.argv[1], sys.argv[2], sys.argv[3])
    seconds = time.perf_counter() - start
    print(json.dumps({"records": records, "seconds": round(seconds, 6)}))
