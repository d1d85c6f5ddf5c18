#!/bin/sh
# Fills three catalogues with samples, serves them, and writes their main pages as pictures into the folder $1.
set -eu
out=$1
examples=$(dirname "$0")/../../examples
folder=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$folder"' EXIT
mkdir -p "$out"
for name in authorities machines sentinel; do
  mkdir "$folder/$name"
  cp "$examples/$name/catalogue.yaml" "$folder/$name/"
done
in() { name=$1; shift; "$STOOK" -C "$folder/$name" "$@" >/dev/null; }
"$STOOK" sample authorities --records 20000 -o "$folder/names.mrc" >/dev/null
"$STOOK" sample machines --records 500 -o "$folder/machines-data" >/dev/null
"$STOOK" sample sentinel --days 2 -o "$folder/sentinel-data" >/dev/null
in authorities import "$folder/names.mrc" --profile upsert
in machines tag create --file "$folder/machines-data/tags.ndjson"
in machines import "$folder/machines-data/machines.ndjson" --source enlist
in sentinel import "$folder"/sentinel-data/plan/*.csv --source plan
for source in prip lta dd; do in sentinel import "$folder"/sentinel-data/$source/*.json --source $source; done
in sentinel import "$folder/sentinel-data/probes.ndjson" --source probe
for name in authorities machines sentinel; do
  "$STOOK" -C "$folder/$name" serve --listen 127.0.0.1:0 2>"$folder/$name.log" &
  pids="$pids $!"
done
url() { until grep -q http:// "$folder/$1.log"; do sleep 0.1; done; sed -n 's/.*\(http:\/\/[0-9.:]*\).*/\1/p' "$folder/$1.log" | head -1; }
chromium=$(command -v chromium || command -v google-chrome)
STOOK_TEST_CHROMIUM=$chromium node "$(dirname "$0")/screenshots.mjs" "$(url authorities)" "$(url machines)" "$(url sentinel)" "$out"
