#!/usr/bin/env bash
# All tests, what was left out of them and why, and as the last line how many there were:
#   N passed, N failed, N skipped
# A test that could not run, or only in part, counts as skipped. With STOOK_TEST_REQUIRE=1 one for which something is missing that
# can be installed fails instead. With arguments, which go to `cargo test`, it runs what they select (-p stook-lab).
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- --workspace
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export STOOK_TEST_SKIPPED="$folder/skipped"
: >"$STOOK_TEST_SKIPPED"
# tests often wait for a process or a disk
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$(($(nproc) + 1))}"
# the program is built beside the tests; those that run it need not build it again, which would compile all crates with other features
program=$(cargo test --quiet --no-run --message-format=json-render-diagnostics "$@" |
  sed -n 's/.*"kind":\["bin"\].*"name":"stook".*"test":false.*"executable":"\([^"]*\)".*/\1/p')
if [ -n "$program" ]; then export STOOK_BIN="$program"; fi
cargo test --quiet --no-fail-fast "$@" 2>&1 | tee "$folder/log"
code=${PIPESTATUS[0]}

# test result: ok. 12 passed; 0 failed; 1 ignored; ...
count() {
  sed -n "s/^test result: .* \([0-9][0-9]*\) $1;.*/\1/p" "$folder/log" | awk '{ sum += $1 } END { print sum + 0 }'
}
passed=$(count passed)
failed=$(count failed)
ignored=$(count ignored)
# a test may say it several times
left_out=$(cut -f 1 "$STOOK_TEST_SKIPPED" | sort -u | wc -l)
if [ "$left_out" -gt 0 ]; then
  printf '\nskipped, at least in part:\n'
  cut -f 2 "$STOOK_TEST_SKIPPED" | sort | uniq -c | sort -rn
fi
# what does not compile, or ends without a result, has failed as well
if [ "$code" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
# a test that said so before it failed is among those that failed
passed=$((passed > left_out ? passed - left_out : 0))
printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$((left_out + ignored))"
exit "$code"
