"""Recognises names by a reconciliation service with the client `reconciler`.

reconcile.py URL TYPE PROPERTY < lines of JSON, each with a name and the value of the property
Prints a line of JSON for the best candidate of each name: name, id, score, match.
"""

import json
import sys

import pandas
import reconciler


def main() -> None:
    url, type_id, name = sys.argv[1:4]
    rows = pandas.DataFrame([json.loads(line) for line in sys.stdin], columns=["name", "value"])
    found = reconciler.reconcile(rows["name"], type_id=type_id, property_mapping={name: rows["value"]}, reconciliation_endpoint=url)
    for row in found.to_dict("records"):
        shown = {"name": row["input_value"], "id": row["id"], "score": row["score"], "match": bool(row["match"]), "type": row["type_id"]}
        print(json.dumps(shown))


main()
