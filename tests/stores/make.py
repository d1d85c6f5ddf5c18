"""Makes a store with an earlier program, and writes it as SQL with what that program says of it.

    python3 make.py PROGRAM FORMAT                       a file: sqlite-FORMAT.sql and .json
    python3 make.py PROGRAM FORMAT postgres://URL        a server: postgres-FORMAT.sql and .json
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
SCHEMA = "stored"
DELIVERIES = [("rooms", "rooms.csv"), ("shelf", "first.csv"), ("prices", "prices.csv"), ("shelf", "second.csv")]


def main():
    program, version = sys.argv[1:3]
    url = sys.argv[3] if len(sys.argv) > 3 else None
    name = f"{'postgres' if url else 'sqlite'}-{version}"
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{HERE}/catalogue.yaml") as definition, open(f"{folder}/catalogue.yaml", "w") as copy:
            copy.write(definition.read())
        store = f"{url}?schema={SCHEMA}" if url else f"{folder}/stook.sqlite"
        environment = {**os.environ, "NO_COLOR": "1", "STOOK_STORE": store}

        def run(*arguments, code=0):
            done = subprocess.run([program, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
            assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
            return done.stdout

        for file in os.listdir(f"{HERE}/deliveries"):
            shutil.copy(f"{HERE}/deliveries/{file}", folder)
        run("prepare")
        for source, file in DELIVERIES:
            # a book of the second file has the shelfmark of another one
            run("import", file, "--source", source, code=2 if file == "second.csv" else 0)
        run("tag", "create", "shown", "--comment", "in the window")
        run("tag", "add", "shown", "b01", "b02")
        run("tag", "create", "cheap", "--query", "price<8")
        run("token", "create", "--role", "read", "--name", "reports")
        secret = run("token", "create", "--role", "write", "--name", "desk").strip()
        run("token", "create", "--role", "admin", "--name", "gone")
        run("token", "revoke", "3")
        served = subprocess.Popen([program, "serve", "--listen", "127.0.0.1:0", "--workers", "0"], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
        address = next(line for line in served.stderr if "http://" in line).split("http://")[1].split()[0]
        time.sleep(1.5)
        lend = urllib.request.Request(f"http://{address}/v1/main/book/b04/lend", b"{}", {"authorization": f"Bearer {secret}", "content-type": "application/json"})
        urllib.request.urlopen(lend).read()
        served.terminate()
        served.wait()
        run("import", "waiting.csv", "--source", "shelf", "--detach")
        expected = {
            "exports": {collection: run("export", collection, "--format", "ndjson").splitlines() for collection in ("book", "room")},
            "explained": {key: run("get", "book", key, "--explain") for key in ("b01", "b02", "b04")},
            "jobs": [{name: job[name] for name in ("id", "state", "source", "counts")} for job in json.loads(run("jobs", "--json"))],
            "journals": {str(job): run("journal", str(job), "--json").splitlines() for job in range(1, 5)},
            "tokens": [{name: token[name] for name in ("id", "role", "name")} for token in json.loads(run("token", "ls", "--json"))],
            "found": {query: sorted(run("query", query, "--format", "csv").splitlines()) for query in (
                "book title='TITLE 2 éd' | grep id", "book words=new | grep id", "book tag=shown | grep id", "book tag=cheap | grep id", "book status=lent | grep id")},
            "secret": secret,
        }
        with open(f"{HERE}/{name}.json", "w") as out:
            out.write(json.dumps(expected, indent=1, ensure_ascii=False).replace(folder, "/deliveries") + "\n")
        if url:
            dumped = subprocess.run(["pg_dump", "--inserts", "--no-owner", "--no-privileges", f"--schema={SCHEMA}", url], capture_output=True, text=True, check=True).stdout
            # what only some servers know, and what only psql does
            kept = [line for line in dumped.splitlines() if line.strip() and not line.startswith(("SET ", "--", "\\"))]
        else:
            kept = subprocess.run(["sqlite3", store, ".dump"], capture_output=True, text=True, check=True).stdout.splitlines()
        # folders and files of this machine are no part of a store
        with open(f"{HERE}/{name}.sql", "w") as out:
            out.write("\n".join(kept).replace(folder, "/deliveries") + "\n")


main()
