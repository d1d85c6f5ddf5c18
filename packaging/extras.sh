#!/usr/bin/env bash
# The packages that need tools of their own, which are installed into a folder: packaging/extras.sh FOLDER TOOLS
# A Python wheel (maturin) and a bill of materials in CycloneDX (cargo-cyclonedx). What cannot be made is said.
set -uo pipefail
cd "$(dirname "$0")/.."
out=$(realpath "$1")
tools=$2
if [ ! -x "$tools/python/bin/maturin" ]; then
  { python3 -m venv "$tools/python" && "$tools/python/bin/pip" install --quiet --disable-pip-version-check 'maturin>=1.7,<2'; } >&2
fi
# the build is the one of `make build`: nothing is compiled again
STOOK_COMMIT=$(git describe --always --dirty --abbrev=12 2>/dev/null) || true
export STOOK_COMMIT
if ! (cd packaging/python && "$tools/python/bin/maturin" build --quiet --release --out "$out"); then
  echo "left out: the Python wheel (maturin failed)" >&2
fi
if [ ! -x "$tools/bin/cargo-cyclonedx" ]; then
  cargo install --quiet --locked --root "$tools" cargo-cyclonedx
fi
if "$tools/bin/cargo-cyclonedx" cyclonedx --quiet --format json --manifest-path crates/cli/Cargo.toml --override-filename stook-bom; then
  mv crates/cli/stook-bom.json "$out/"
fi
# one is written beside each member of the workspace
find crates benches tests -maxdepth 2 -name 'stook-bom.json' -delete
(cd "$out" && sha256sum -- stook* >SHA256SUMS)
