#!/usr/bin/env bash
# The program without the parts that can be left out of it, and with each of them alone, must compile without a warning. Without all of them
# it must also pass the end-to-end tests of what it has; the whole program makes their samples.
set -euo pipefail
cd "$(dirname "$0")/.."
target="${CARGO_TARGET_DIR:-target}"
folder="$target/features"
mkdir -p "$folder"

# quietly COMMAND...: what it prints is shown if it fails or warns
quietly() {
  "$@" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
  if grep -q '^warning' "$folder/log"; then cat "$folder/log"; exit 1; fi
}

for features in "" arrow lab pages postgres; do
  echo "the program with ${features:-none of the features}"
  quietly cargo check --quiet --package stook-cli --no-default-features --features "$features"
done

# built beside the tests, as tests/run.sh does it
whole=$(cargo test --workspace --quiet --no-run --message-format=json-render-diagnostics |
  sed -n 's/.*"kind":\["bin"\].*"name":"stook".*"test":false.*"executable":"\([^"]*\)".*/\1/p')
cp "$whole" "$folder/whole"
quietly cargo build --quiet --package stook-cli --no-default-features
cp "$target/debug/stook" "$folder/none"
STOOK_BIN="$folder/none" STOOK_LAB_BIN="$folder/whole" STOOK_TEST_POSTGRES=none \
  cargo test --workspace --quiet --test end_to_end -- folders:: outcomes:: collect:: tables:: work::
