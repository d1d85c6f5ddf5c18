#!/usr/bin/env bash
# All tests, what was left out of them and why, and as the last line how many there were:
#   N passed, N failed, N skipped
# A test that could not run, or only in part, counts as skipped. With STOOK_TEST_REQUIRE=1 one for which something is missing that
# can be installed fails instead. Arguments choose what is tested, as those of `cargo test` do: -p stook-lab, --test words.
# Two test programs run at once, as most wait for a server or a browser some of the time; each is shown as a whole when it ends.
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- --workspace
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export STOOK_TEST_SKIPPED="$folder/skipped" FOLDER="$folder"
: >"$STOOK_TEST_SKIPPED"
code=0

# the folder of each package, and its test programs
cargo test --quiet --no-run --message-format=json-render-diagnostics "$@" >"$folder/built" || code=1
sed -n 's/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"test":true.*"executable":"\([^"]*\)".*/\1\t\2/p' "$folder/built" >"$folder/programs"
# built beside the tests, so that those who run it need not build it again
program=$(sed -n 's/.*"kind":\["bin"\].*"name":"stook".*"test":false.*"executable":"\([^"]*\)".*/\1/p' "$folder/built")
if [ -n "$program" ]; then export STOOK_BIN="$program"; fi

run_program() {
  name=$(basename "$2")
  (cd "$1" && CARGO_MANIFEST_DIR="$1" "$2" --quiet) >"$FOLDER/$name.out" 2>&1
  ended=$?
  # shown under a lock, so that lines of two programs do not mix
  flock "$FOLDER/skipped.lock" bash -c 'printf "\n%s\n" "$1"; cat "$2"' - "${name%-*}" "$FOLDER/$name.out"
  rm "$FOLDER/$name.out"
  return "$ended"
}
export -f run_program
{
  tr '\t\n' '\0\0' <"$folder/programs" | xargs -0 -P 2 -n 2 bash -c 'run_program "$@" || exit 1' - || code=1
  if [ "$*" = --workspace ]; then cargo test --quiet --no-fail-fast --doc --workspace 2>&1 || code=1; fi
  exit "$code"
} | tee "$folder/log"
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
