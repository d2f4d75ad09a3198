#!/usr/bin/env bash
# Records in .sqlx the compiler's knowledge of every query, from a scratch PostgreSQL with the migrations applied.
#
#   scripts/sqlx.sh                      rewrites .sqlx
#   scripts/sqlx.sh --check [COMMAND …]  compares instead, and fails when .sqlx differs from the code and the migrations
#
# COMMAND compiles the crates with queries; `make lint` passes clippy, so that they are compiled only once.
set -euo pipefail
cd "$(dirname "$0")/.."
check=
if [ "${1:-}" = --check ]; then check=yes; shift; fi
# Every crate with a query, by its folder. The package's name is the folder's with `entente-` in front
# (`tests/it/house_rules/crates.rs` checks this).
crates=$(grep -rl --include='*.rs' 'sqlx::query' crates/*/src | cut -d/ -f2 | sort -u)
if [ $# -eq 0 ]; then
  set -- cargo check --quiet
  for crate in $crates; do set -- "$@" --package "entente-$crate"; done
fi
DATABASE_URL=$(scripts/dev-db.sh)
export DATABASE_URL SQLX_OFFLINE=false
fresh=$(mktemp -d)
before=$(mktemp -d)
restore() {
  for crate in $crates; do
    [ ! -e "$before/$crate" ] || touch -r "$before/$crate" "crates/$crate/src/lib.rs"
  done
  rm -rf "$fresh" "$before"
  scripts/dev-db.sh stop
}
trap restore EXIT
# Queries are only checked when their crate is compiled, so touch every crate that has some; its time is restored
# afterwards, so that other build results stay valid.
for crate in $crates; do
  touch -r "crates/$crate/src/lib.rs" "$before/$crate"
  touch "crates/$crate/src/lib.rs"
done
SQLX_OFFLINE_DIR=$fresh "$@"
if [ -n "$check" ]; then
  diff -r .sqlx "$fresh" >/dev/null && exit
  echo ".sqlx is not what the queries and the migrations say; run \`make sqlx\` and commit it" >&2
  exit 1
fi
rm -rf .sqlx
cp -r "$fresh" .sqlx
echo "recorded $(find .sqlx -name '*.json' | wc -l) queries"
