renice -n -5 $$ >/dev/null
CARGO_INCREMENTAL=0 cargo test --workspace --no-run --test pages --test program --test elements --test order 2>&1 | tail -8
run() { (cd "$1"; shift; f=$1; shift; RUST_BACKTRACE=0 $f "$@" 2>&1 | grep -v '^$' | tail -25 | cut -c1-600); }
export STOOK_BIN=$CARGO_TARGET_DIR/debug/stook
for t in $(ls -t $CARGO_TARGET_DIR/debug/deps/pages-* | grep -v '\.d$' | head -2); do run /work/main/tests $t steward; done
for t in elements order; do run /work/main/crates/engine $(ls -t $CARGO_TARGET_DIR/debug/deps/$t-* | grep -v '\.d$' | head -1); done
