#!/usr/bin/env bash
# Records in .sqlx what the compiler learned about every query from a scratch PostgreSQL with the migrations applied.
#
#   scripts/sqlx.sh                      writes .sqlx anew
#   scripts/sqlx.sh --check [COMMAND …]  compares instead, and fails when .sqlx is not what the code and the migrations say
#
# COMMAND is what compiles the library; `make lint` has clippy do it, which then need not be done twice.
set -euo pipefail
cd "$(dirname "$0")/.."
check=
if [ "${1:-}" = --check ]; then check=yes; shift; fi
[ $# -gt 0 ] || set -- cargo check --quiet --package entente-kernel
DATABASE_URL=$(scripts/dev-db.sh)
export DATABASE_URL SQLX_OFFLINE=false
fresh=$(mktemp -d)
# Queries are only looked at when the crate is compiled, so it has to look changed; afterwards it is as old as it was, and what was
# built from it for other purposes stays good.
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
