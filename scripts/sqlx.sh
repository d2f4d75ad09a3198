#!/usr/bin/env bash
# Records in .sqlx what the compiler learned about every query from a scratch PostgreSQL with the migrations applied.
# `--check` compares instead, and fails when .sqlx is not what the code and the migrations say.
set -euo pipefail
cd "$(dirname "$0")/.."
DATABASE_URL=$(scripts/dev-db.sh)
export DATABASE_URL SQLX_OFFLINE=false
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"; scripts/dev-db.sh stop' EXIT
# The macros only run when the crate is compiled, so that one crate is compiled again.
touch src/lib.rs
SQLX_OFFLINE_DIR=$fresh cargo check --quiet --lib
if [ "${1:-}" = --check ]; then
  diff -r .sqlx "$fresh" >/dev/null && exit
  echo ".sqlx is not what the queries and the migrations say; run \`make sqlx\` and commit it" >&2
  exit 1
fi
rm -rf .sqlx
cp -r "$fresh" .sqlx
echo "recorded $(find .sqlx -name '*.json' | wc -l) queries"
