#!/usr/bin/env bash
# The program without the parts that can be left out of it, and with each of them alone: it must build without a warning and pass the
# end-to-end tests of what it has. The whole program makes their samples.
set -euo pipefail
cd "$(dirname "$0")/.."
target="${CARGO_TARGET_DIR:-target}"
# built beside the tests, as tests/run.sh does it
whole=$(cargo test --workspace --quiet --no-run --message-format=json-render-diagnostics |
  sed -n 's/.*"kind":\["bin"\].*"name":"stook".*"test":false.*"executable":"\([^"]*\)".*/\1/p')
mkdir -p "$target/features/"{whole,none,arrow,lab,pages,postgres}
cp "$whole" "$target/features/whole/stook"

# try FEATURES TEST...: what runs end to end with a program of these features
try() {
  local servers features="$1" program="$target/features/${1:-none}/stook" log="$target/features/log" test selected=()
  shift
  echo "the program with ${features:-none of the features}"
  cargo build --quiet --package stook-cli --no-default-features --features "$features" >"$log" 2>&1 || { cat "$log"; exit 1; }
  if grep '^warning' "$log"; then exit 1; fi
  cp "$target/debug/stook" "$program"
  for test in "$@"; do selected+=(--test "$test"); done
  case "$features" in postgres) servers="${STOOK_TEST_POSTGRES:-}" ;; *) servers=none ;; esac
  case "$features" in lab) STOOK_LAB_BIN="$program" ;; *) STOOK_LAB_BIN="$target/features/whole/stook" ;; esac
  export STOOK_LAB_BIN
  STOOK_BIN="$program" STOOK_TEST_POSTGRES="$servers" cargo test --workspace --quiet "${selected[@]}" >"$log" 2>&1 || { cat "$log"; exit 1; }
  grep '^test result' "$log"
}

try "" folders outcomes collect tables work
try arrow tables
try lab lab
try pages pages
try postgres tables work
