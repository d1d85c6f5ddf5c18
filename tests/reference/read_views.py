"""Reads the views of golden records with other programs: the file with Python's own SQLite and with DuckDB, a server with DuckDB."""

import importlib
import json
import sqlite3
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import duckdb

store = sys.argv[1]
connection = duckdb.connect()


def load(extension):
    """Loads an extension from its Python package; DuckDB would look for it on the network."""
    module = importlib.import_module(f"duckdb_extension_{extension}")
    version = connection.execute("PRAGMA version").fetchone()[0]
    file = Path(module.__file__).parent / "extensions" / version / f"{extension}.duckdb_extension"
    connection.execute(f"LOAD '{file}'")


if store.startswith("postgres"):
    parts = urlsplit(store)
    schema = parse_qs(parts.query)["schema"][0]
    load("postgres_scanner")
    address = f"{parts.scheme}://{parts.netloc}{parts.path}"
    connection.execute(f"ATTACH '{address}' AS store (TYPE postgres, READ_ONLY)")
    view = f"store.{schema}.golden_thing"
    texts = "texts"
else:
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as plain:
        assert plain.execute("SELECT count(*) FROM golden_thing").fetchone() == (4,)
        for row in plain.execute("SELECT * FROM golden_thing"):
            assert len(row) > 20
    load("sqlite_scanner")
    connection.execute(f"ATTACH '{store}' AS store (TYPE sqlite, READ_ONLY)")
    # DuckDB would take the SQL of an attached view for its own; SQLite executes this
    view = "sqlite_query('store', 'SELECT * FROM golden_thing')"
    texts = "CAST(CAST(texts AS JSON) AS VARCHAR[])"

keys = [row[0] for row in connection.execute(f"SELECT key FROM {view} ORDER BY key").fetchall()]
at, texts = connection.execute(f'SELECT CAST("at" AS TIMESTAMP), {texts} FROM {view} WHERE key = $1', ['full']).fetchone()
print(json.dumps({"keys": keys, "at": at.isoformat(), "texts": texts}))
