#!/usr/bin/env bash
# Compares Entente with programs that a user might pick instead (benches/peers), which it installs by package name.
#
#   scripts/bench-peers.sh [--trial] [NAME ...]      names: openintent, arcp, nats, restate, table, graphile, streams
#
# Without names it compares all, and writes bench-results/peers.md. It takes about seven minutes. The server is ENTENTE_BIN, the load
# generator ENTENTE_LOAD_BIN (that of `make bench`); without them it builds both as `make bench` does.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh peers

if [ -z "${ENTENTE_BIN:-}" ] || [ -z "${ENTENTE_LOAD_BIN:-}" ]; then
  # The program that cargo has made with this name.
  built() { grep -o "\"executable\":\"[^\"]*/$1\(-[0-9a-f]*\)\?\"" | tail -n 1 | cut -d '"' -f 4; }
  # The benchmark brings the server with it.
  messages=$(cargo bench --bench load --no-run --quiet --message-format=json-render-diagnostics)
  export ENTENTE_BIN=${ENTENTE_BIN:-$(built entente <<<"$messages")}
  export ENTENTE_LOAD_BIN=${ENTENTE_LOAD_BIN:-$(built load <<<"$messages")}
fi

exec .venv/peers/bin/python benches/peers "$@"
