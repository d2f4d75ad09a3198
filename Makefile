# What people do with this project. `make help` lists it.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Queries are checked against the recorded schema in .sqlx; `make sqlx` records it anew.
export SQLX_OFFLINE := true

.PHONY: help setup run demo test unit clients web check lint sqlx sqlx-check bless deny bench fuzz soak clean

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | column -t -s "$$(printf '\t')"

setup: ## Install what a fresh machine lacks: PostgreSQL's programs, the Python clients, a browser
	@scripts/setup.sh

run: ## A server for development, with a private PostgreSQL and fresh keys
	@scripts/setup.sh run
	@cargo run --release -- dev

demo: ## The whole story end to end, as a transcript
	@scripts/setup.sh run
	@cargo run --release -- demo

# AGAIN=--again runs a failed test once more, alone: continuous integration does.
test: setup ## Everything that must hold: lints, tests, foreign clients; prints the time of each step and the slowest tests
	@scripts/test.py $(AGAIN)

unit: setup ## The tests in Rust: the domain's properties, and everything over HTTP
	@scripts/test.py rust

clients: setup ## Unmodified foreign clients against a real server
	@scripts/test.py clients

web: setup ## The pages in a real browser; pictures go to tests/web/output
	@scripts/test.py web

check: lint ## Formatting, lints, documentation, checked SQL

lint:
	cargo fmt --all --check
	@# One compilation for both: clippy's looks at every query beside a real schema.
	scripts/sqlx.sh --check cargo clippy --workspace --all-targets --quiet -- -D warnings
	@# The documentation is for people who work on this project: it may lead to what is private.
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --workspace --no-deps --document-private-items --quiet

sqlx: ## Record every query and its types in .sqlx, from the migrations
	@scripts/sqlx.sh

sqlx-check:
	@scripts/sqlx.sh --check

bless: ## Write openapi/entente.json anew
	cargo run --quiet -- openapi > openapi/entente.json.tmp
	mv openapi/entente.json.tmp openapi/entente.json

deny: ## Licences, advisories and sources of the dependencies (cargo install cargo-deny)
	cargo deny check

bench: setup ## The law by itself, then load runs beside PostgreSQL; the tables go to bench-results/
	cargo bench -p entente-domain --bench law
	cargo bench --bench load

fuzz: ## A minute of random bytes for the reader of envelopes (cargo install cargo-fuzz)
	@cargo fuzz --version >/dev/null 2>&1 || { echo "cargo-fuzz is not there: cargo install cargo-fuzz"; exit 1; }
	@# The sanitizers are unstable; this way the compiler that is pinned takes them.
	RUSTC_BOOTSTRAP=1 cargo fuzz run envelope -- -max_total_time=60 -max_len=8192

soak: setup ## The crash ledger for longer: 200 kills
	ENTENTE_KILLS=200 cargo test --release --test it -- --nocapture ledger::

clean: ## Remove what was built; a private PostgreSQL's data stays
	cargo clean
	rm -rf .venv
