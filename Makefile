# The whole vocabulary of the workbench: fmt lint deny features test bench seeds screenshots demo docs packages test-packages (and bench-GROUP).
# Build output lives outside the clone, so that clean clones rebuild little.
CACHE ?= $(HOME)/.cache/stook
export CARGO_TARGET_DIR ?= $(CACHE)/target
VENV := $(CACHE)/venv
export STOOK_TEST_PYTHON ?= $(VENV)/bin/python
STOOK := $(CARGO_TARGET_DIR)/release/stook
BENCH := $(CARGO_TARGET_DIR)/release/stook-bench
DEMO := $(CACHE)/demo

.PHONY: help fmt lint deny features test packages test-packages docs screenshots seeds bench bench-datasets bench-import bench-lab bench-machines bench-pages bench-postgres bench-sentinel bench-serve browser demo build peer reference postgres shells clean-root

help:
	@echo "make fmt | lint | deny | features | test | bench | bench-datasets | bench-import | bench-lab | bench-machines | bench-pages | bench-postgres | bench-sentinel | bench-serve | seeds | screenshots | demo | docs | packages | test-packages"

# `stook --version` names the commit
build: export STOOK_COMMIT := $(shell git describe --always --dirty --abbrev=12 2>/dev/null)
build:
	cargo build --release --quiet --package stook-cli

# A Debian package, a tar file, an OCI image, a Python wheel, and a bill of materials: OUT=FOLDER
packages: OUT := $(CACHE)/packages
packages: build
	@rm -rf $(OUT) && packaging/build.sh $(STOOK) $(OUT)
	@packaging/extras.sh $(OUT) $(CACHE)/tools
	@ls -sh $(OUT)

# Tries them in a clean root of Debian
test-packages: packages clean-root
	@tests/packages.sh $(CACHE)/packages $(STOOK_TEST_ROOT)

fmt:
	cargo fmt --all

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D rustdoc::broken_intra_doc_links -A rustdoc::private_intra_doc_links" cargo doc --workspace --no-deps --document-private-items --quiet

	@if command -v cargo-deny >/dev/null; then cargo deny --offline check licenses bans sources; else echo "skipped: no cargo-deny (make deny installs it): licences and sources of dependencies are not checked"; fi

# Licences, sources and known faults of dependencies, as deny.toml allows them. cargo-deny is installed where that is possible.
deny:
	@command -v cargo-deny >/dev/null || cargo install --locked --quiet cargo-deny || echo "skipped: cargo-deny cannot be installed"
	@if command -v cargo-deny >/dev/null; then cargo deny check; fi

# The binary without the parts that can be left out of it, and with each of these parts alone: built without warnings, and tested.
features: reference postgres browser shells
	@tests/features.sh

# What tests need is installed where that is possible (packages of Debian: as root). Without it those tests say "skipped" and the rest
# runs; with STOOK_TEST_REQUIRE=1 they fail.
INSTALL := apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o Acquire::Retries=3 -o Dpkg::Options::=--force-confold
MAY_INSTALL = [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null

# Reference implementations that tests and benches compare with.
reference:
	@python3 -c 'import ensurepip, venv' 2>/dev/null || { $(MAY_INSTALL) && { $(INSTALL) python3 python3-venv; } >/dev/null 2>&1; } || true
	@if [ -x $(STOOK_TEST_PYTHON) ] && $(STOOK_TEST_PYTHON) -c 'import pymarc, lxml, jsonschema, yaml, schemathesis, shapely, pyproj, pyarrow, pandas, mcp, reconciler, duckdb, duckdb_extension_sqlite_scanner, duckdb_extension_postgres_scanner' 2>/dev/null; then :; else \
	  { python3 -m venv $(VENV) && $(VENV)/bin/pip install --quiet --disable-pip-version-check -r tests/reference/requirements.txt; } \
	  || echo "skipped: no Python packages of reference implementations; tests that need them will say so"; fi

# A browser for the tests of pages, and what drives and judges it.
export STOOK_TEST_BROWSER ?= $(CACHE)/browser
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { $(MAY_INSTALL) && { $(INSTALL) chromium; } >/dev/null 2>&1; } \
	  || echo "skipped: no chromium (Debian: apt install chromium); tests in a browser will say so"
	@{ command -v node && command -v npm; } >/dev/null || { $(MAY_INSTALL) && { $(INSTALL) nodejs npm; } >/dev/null 2>&1; } || true
	@[ -d $(STOOK_TEST_BROWSER)/node_modules/axe-core ] || { command -v npm >/dev/null && mkdir -p $(STOOK_TEST_BROWSER) && cp tests/browser/package.json $(STOOK_TEST_BROWSER)/ \
	  && npm install --prefix $(STOOK_TEST_BROWSER) --silent --no-audit --no-fund >/dev/null 2>&1; } || echo "skipped: no playwright-core and axe-core (npm); tests in a browser will say so"

# Shells that read the completions made for them, a client that searches published records, and what the documentation's examples use.
shells:
	@{ command -v zsh && command -v fish; } >/dev/null || { $(MAY_INSTALL) && { $(INSTALL) zsh fish; } >/dev/null 2>&1; } \
	  || echo "skipped: no zsh, or no fish (Debian: apt install zsh fish); tests of completions will say so"
	@command -v yaz-client >/dev/null || { $(MAY_INSTALL) && { $(INSTALL) yaz; } >/dev/null 2>&1; } \
	  || echo "skipped: no yaz-client (Debian: apt install yaz); the test that needs it will say so"
	@command -v curl >/dev/null || { $(MAY_INSTALL) && { $(INSTALL) curl; } >/dev/null 2>&1; } \
	  || echo "no curl (Debian: apt install curl): the documentation's examples need it"

# A private server is started from the installed programs, and a pooler before it; they are installed where that is possible, without a cluster.
postgres:
	@[ -x /usr/sbin/pgbouncer ] || { $(MAY_INSTALL) && { $(INSTALL) pgbouncer; } >/dev/null 2>&1; } || echo "skipped: no PgBouncer (Debian: apt install pgbouncer); the test that needs it will say so"
	@if [ -n "$$STOOK_TEST_POSTGRES" ] || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null; then :; \
	elif $(MAY_INSTALL); then \
	  { mkdir -p /etc/postgresql-common && echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf && $(INSTALL) postgresql; } >/dev/null 2>&1 \
	  || echo "skipped: PostgreSQL could not be installed; tests that need it will say so"; \
	else echo "skipped: PostgreSQL is not installed (Debian: apt install postgresql); tests that need it will say so"; fi

# A clean root of Debian with systemd, in which packages are tried, from the same archives as this system.
export STOOK_TEST_ROOT ?= $(CACHE)/clean-root
clean-root:
	@[ -e $(STOOK_TEST_ROOT)/etc/debian_version ] || { $(MAY_INSTALL) && { $(INSTALL) mmdebstrap binutils; } >/dev/null 2>&1 \
	  && cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | mmdebstrap --quiet --variant=minbase --include=systemd,adduser,util-linux bookworm $(STOOK_TEST_ROOT) -; } \
	  || { rm -rf $(STOOK_TEST_ROOT); echo "skipped: no clean root of Debian (as root: apt install mmdebstrap); tests of packages will say so"; }

# The last line says how many passed, failed, and were skipped.
test: reference postgres browser shells clean-root lint
	@tests/run.sh

# WRITE=docs/figures.md: each group that has run whole replaces its section of that file
WRITTEN := $(if $(WRITE),--write $(WRITE))
bench: bench-datasets bench-import bench-lab bench-machines bench-pages bench-postgres bench-sentinel bench-serve

bench-import: reference build
	cargo build --release --quiet --package stook-benches
	@command -v yaz-marcdump >/dev/null || echo "note: install yaz for the figure beside yaz-marcdump"
	$(BENCH) import $(WRITTEN)

bench-datasets: build
	cargo build --release --quiet --package stook-benches
	@command -v wrk >/dev/null || echo "note: install wrk for the warm figures"
	$(BENCH) datasets $(WRITTEN)

# STOOK_PEER_OHA says where oha is (cargo install oha --locked), if it is not in the path
bench-lab: build
	cargo build --release --quiet --package stook-benches
	$(BENCH) lab $(WRITTEN)

bench-machines: reference postgres build
	cargo build --release --quiet --package stook-benches
	$(BENCH) machines $(WRITTEN)

bench-pages: build
	cargo build --release --quiet --package stook-benches
	$(BENCH) pages $(WRITTEN)

bench-postgres: postgres build
	cargo build --release --quiet --package stook-benches
	$(BENCH) postgres $(WRITTEN)

bench-sentinel: postgres build
	cargo build --release --quiet --package stook-benches
	$(BENCH) sentinel $(WRITTEN)

# The five reports repeated; pages and pictures in docs/measurements. PARTS="imports tags" for some of them.
seeds: postgres build
	cargo build --release --quiet --package stook-benches
	$(BENCH) seeds docs/measurements $(PARTS)

# What a team would write in Python, to be measured beside ours.
PEER := $(CACHE)/peer
export STOOK_PEER_PYTHON ?= $(PEER)/bin/python
peer:
	@if [ -x $(STOOK_PEER_PYTHON) ] && $(STOOK_PEER_PYTHON) -c 'import flask, sqlalchemy, gunicorn, gevent' 2>/dev/null; then :; else \
	  { python3 -m venv $(PEER) && $(PEER)/bin/pip install --quiet --disable-pip-version-check -r benches/peers/register.txt; } \
	  || echo "skipped: no Python packages of the peer; figures beside it are left out"; fi

bench-serve: postgres peer build
	cargo build --release --quiet --package stook-benches
	@command -v wrk >/dev/null || echo "note: install wrk for these figures"
	$(BENCH) serve $(WRITTEN)

# The documentation as a folder of static files, the same pages that `stook serve` shows: OUT=FOLDER
OUT ?= $(CACHE)/docs
docs:
	@cargo run --quiet --package stook-docs --example write -- $(OUT)

# The main pages, light and dark, in docs/pages.
screenshots: browser build
	STOOK=$(STOOK) STOOK_TEST_BROWSER=$(STOOK_TEST_BROWSER) tests/browser/screenshots.sh docs/pages

# Runs a command and shows it as a person would type it.
define stook
	@printf '\n$$ stook %s\n' '$(subst ','"'"',$(1))'
	@cd $(DEMO) && $(STOOK) $(1)
endef

demo: build
	@rm -rf $(DEMO) && mkdir -p $(DEMO) && cp examples/authorities/catalogue.yaml $(DEMO)/
	@echo "A library's catalogue in $(DEMO)"
	$(call stook,sample authorities --records 20000 --seed 1 -o names.mrc)
	$(call stook,import names.mrc --profile upsert)
	$(call stook,import names.mrc --profile upsert)
	$(call stook,query "authority heading=Ma* kind=personal | grep heading$(,) changed | sort changed-" --limit 5)
	$(call stook,query "authority | count(lccn)$(,) max(changed)")
	$(call stook,get authority "n  00000042 " --explain)
	@printf '\nGo on in %s with %s\n' '$(DEMO)' '$(STOOK) --help'
	$(call stook,serve)

, := ,
