#!/bin/sh
# Fills three catalogues with samples, serves them, and writes their main pages as pictures into the folder $1.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
examples=$here/../../examples
mkdir -p "$1"
out=$(cd "$1" && pwd)
folder=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
for name in authorities machines sentinel guarded; do
  mkdir "$folder/$name"
  cp "$examples/$(echo "$name" | sed s/guarded/authorities/)/catalogue.yaml" "$folder/$name/"
done
of() { name=$1; shift; "$STOOK" -C "$folder/$name" "$@" >/dev/null; }
"$STOOK" sample authorities --records 20000 -o names.mrc >/dev/null
"$STOOK" sample machines --records 500 -o "machines-data" >/dev/null
"$STOOK" sample sentinel --days 2 -o "sentinel-data" >/dev/null
of authorities import names.mrc --profile upsert
of machines tag create --file "machines-data/tags.ndjson"
of machines import "machines-data/machines.ndjson" --source enlist
for source in sentinel-data/*/; do of sentinel import "$source"* --source "$(basename "$source")"; done
for role in read write; do of guarded token create --role "$role" --name "the $role desk"; done
admin=$("$STOOK" -C "$folder/guarded" token create --role admin --name "head of records")
mkdir runs
for name in authorities machines sentinel guarded; do
  "$STOOK" -C "$folder/$name" serve --listen 127.0.0.1:0 --runs "$folder/runs" 2>"$folder/$name.log" &
  pids="$pids $!"
done
url() { until grep -q http:// "$folder/$1.log"; do sleep 0.1; done; sed -n 's/.*\(http:\/\/[0-9.:]*\).*/\1/p' "$folder/$1.log" | head -1; }
for run in before after; do
  "$STOOK" lab load "$(url authorities)/v1/main/query?q=authority&limit=20" --rate 200 --for 5s -o "runs/$run.json" >/dev/null
done
chromium=$(command -v chromium || command -v google-chrome)
STOOK_TEST_CHROMIUM=$chromium node "$here/screenshots.mjs" "$(url authorities)" "$(url machines)" "$(url sentinel)" "$(url guarded)" "$out" "$admin"
