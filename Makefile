# Tasks of this project; `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Queries are checked against the schema recorded in .sqlx; `make sqlx` records it again.
export SQLX_OFFLINE := true
# The documentation is for developers of this project, so it may link to private items.
export RUSTDOCFLAGS := -D warnings -A rustdoc::private-intra-doc-links
# How `make lint` checks the code and its documentation. Continuous integration has other words, which compile for the tests
# that follow (.ci/run).
# Make itself defines LINT, so that `?=` would leave it at that.
ifeq ($(origin LINT),default)
LINT := cargo clippy --workspace --all-targets --quiet -- -D warnings
endif
DOCUMENT ?= cargo doc --workspace --no-deps --document-private-items --quiet

.PHONY: help setup run demo dist test test-one unit clients test-frameworks test-kafka conform packaging web lint sqlx schema bless deny bench bench-smoke bench-peers fuzz soak chaos clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | column -t -s "$$(printf '\t')"

setup: ## Install missing tools: PostgreSQL's programs, the Python clients, a browser
	@scripts/setup.sh

run: ## Run a server for development, with a private PostgreSQL and fresh keys
	@scripts/setup.sh run
	@scripts/compiling.sh
	@cargo run --profile quick -- dev

demo: ## Run a complete scenario, and print a transcript
	@scripts/setup.sh run
	@scripts/compiling.sh
	@cargo run --profile quick -- demo

dist: ## Build a release: a tarball and a Python wheel, in target/dist
	@scripts/setup.sh dist
	@scripts/dist.sh

# AGAIN=--again repeats each failed test once, alone, as in continuous integration.
test: ## Run all checks: lints, tests, foreign clients; prints the time of each step and the slowest tests
	@scripts/setup.sh run
	@scripts/test.py --setup $(AGAIN)

test-one: ## Run the tests over HTTP whose names contain NAME: make test-one NAME=arcp::jobs
	@test -n "$(NAME)" || { echo "name a test or a module: make test-one NAME=arcp::jobs"; exit 1; }
	@# Of the programs in tests/it, only the one whose module the name begins with has to be compiled.
	@suite=$$(grep -lE '^mod $(firstword $(subst ::, ,$(NAME)));' tests/it/suite_*.rs | sed 's/.*suite_\(.*\)\.rs/\1/'); \
	cargo test --test "it-$${suite:-*}" -- $(NAME)

unit: setup ## Run the Rust tests: the domain's properties, and the whole server over HTTP
	@scripts/test.py rust

clients: setup ## Run unmodified foreign clients, and our own, against a real server
	@scripts/test.py clients

test-frameworks: ## Run agents of real frameworks with our Python client, and a model on loopback (10 min, and 2 GB to install)
	@scripts/setup.sh frameworks
	@scripts/test.py frameworks

test-kafka: ## Run the tests of Kafka sinks at Tansu, a broker that keeps its log on the disk (10 min to compile it once)
	@scripts/setup.sh tansu
	ENTENTE_TEST_TANSU=$(CURDIR)/target/tansu/bin/tansu cargo test --quiet --test it-kernel -- sinks::kafka

conform: setup ## Check the reference servers and this one with `entente conform`; the scores go to docs/conform.md
	cargo build --quiet
	@cd tests/clients && ../../.venv/bin/python conform_kit.py

packaging: setup ## Pack a release and run it in an empty place; check the workflows and the files in deploy/
	@scripts/test.py packaging

web: setup ## Test the pages in a real browser; screenshots go to tests/web/output
	@scripts/test.py web

lint: ## Check formatting, lints, documentation, SQL, and the dependencies
	cargo fmt --all --check
	@# One compilation for both: clippy's also checks every query against a real schema.
	scripts/sqlx.sh --check $(LINT)
	@# The pictures of the tables are made from the migrations.
	scripts/schema.py --check
	$(DOCUMENT)
	@# It says so, and succeeds, where cargo-deny or the network is missing.
	scripts/deny.sh

sqlx: ## Record all queries and their types in .sqlx, from the migrations
	@scripts/sqlx.sh

schema: ## Draw docs/schema.md, from the migrations
	@scripts/schema.py

bless: ## Regenerate openapi/entente.json, and the core of our own client from it
	cargo run --quiet -- openapi > openapi/entente.json.tmp
	mv openapi/entente.json.tmp openapi/entente.json
	@scripts/clients.py

deny: ## Check licences, advisories and sources of the dependencies; installs cargo-deny if it is missing
	@scripts/setup.sh deny
	@scripts/deny.sh

bench: setup ## Benchmark the domain rules alone, then run load tests beside PostgreSQL; the tables go to bench-results/
	cargo bench -p entente-domain --bench law
	cargo bench --bench load

bench-smoke: setup ## Try each load test for a second, with an unoptimised server; no table is written
	@scripts/test.py bench

# PEERS="nats restate" compares only those, and writes no table; ENTENTE_BIN names another server than the release build.
bench-peers: ## Compare with what one might pick instead (NATS, Restate, …), installed by package name; the table goes to bench-results/
	@scripts/bench-peers.sh $(PEERS)

fuzz: ## Fuzz the parser of envelopes for a minute (cargo install cargo-fuzz)
	@cargo fuzz --version >/dev/null 2>&1 || { echo "cargo-fuzz is not there: cargo install cargo-fuzz"; exit 1; }
	@# The sanitizers are unstable; this setting enables them in the pinned compiler.
	RUSTC_BOOTSTRAP=1 cargo fuzz run envelope -- -max_total_time=60 -max_len=8192

soak: setup ## Run a longer crash test: 200 kills
	ENTENTE_KILLS=200 cargo test --release --test it-servers -- --nocapture ledger::

chaos: ## Kill and cut off the primary of a Patroni cluster under load; installs Patroni, etcd and HAProxy (Debian)
	@scripts/setup.sh chaos
	cargo test --test it-servers -- --ignored --nocapture ledger::failover::

clean: ## Remove build results; a private PostgreSQL's data stays
	cargo clean
	rm -rf .venv
