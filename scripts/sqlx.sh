#!/usr/bin/env bash
# Records in .sqlx the compiler's knowledge of every query, from a scratch PostgreSQL with the migrations applied.
#
#   scripts/sqlx.sh                      rewrites .sqlx
#   scripts/sqlx.sh --check [COMMAND …]  compares instead, and fails when .sqlx differs from the code and the migrations
#
# COMMAND compiles the library; `make lint` passes clippy, so that the library is compiled only once.
set -euo pipefail
cd "$(dirname "$0")/.."
check=
if [ "${1:-}" = --check ]; then check=yes; shift; fi
[ $# -gt 0 ] || set -- cargo check --quiet --package entente-kernel
DATABASE_URL=$(scripts/dev-db.sh)
export DATABASE_URL SQLX_OFFLINE=false
fresh=$(mktemp -d)
# Queries are only checked when the crate is compiled, so touch it; its time is restored afterwards, so that other build
# results stay valid.
before=$(mktemp)
touch -r crates/kernel/src/lib.rs "$before"
trap 'touch -r "$before" crates/kernel/src/lib.rs; rm -rf "$fresh" "$before"; scripts/dev-db.sh stop' EXIT
touch crates/kernel/src/lib.rs
SQLX_OFFLINE_DIR=$fresh "$@"
if [ -n "$check" ]; then
  diff -r .sqlx "$fresh" >/dev/null && exit
  echo ".sqlx is not what the queries and the migrations say; run \`make sqlx\` and commit it" >&2
  exit 1
fi
rm -rf .sqlx
cp -r "$fresh" .sqlx
echo "recorded $(find .sqlx -name '*.json' | wc -l) queries"
