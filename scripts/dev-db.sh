#!/usr/bin/env bash
# Starts a scratch PostgreSQL against which sqlx checks every query at compile time, and prints its URL;
# `scripts/dev-db.sh stop` removes it.
set -euo pipefail
# One per user and checkout, so that two can be used at the same time.
dir=${ENTENTE_DEV_DB:-/tmp/entente-dev-db-$(id -u)-$(pwd -P | cksum | cut -d" " -f1)}
bin=$(for d in "${ENTENTE_PG_BIN:-}" "$(pg_config --bindir 2>/dev/null || true)" /usr/lib/postgresql/*/bin /opt/homebrew/opt/postgresql@*/bin; do
  [ -x "$d/initdb" ] && echo "$d" && break; done)
[ -n "$bin" ] || { echo "no PostgreSQL found; run scripts/setup.sh" >&2; exit 1; }
as() { if [ "$(id -u)" = 0 ]; then su postgres -s /bin/sh -c "cd / && $*"; else sh -c "$*"; fi; }
if [ "${1:-}" = stop ]; then as "'$bin/pg_ctl' -D '$dir/data' stop -m immediate" >/dev/null 2>&1 || true; rm -rf "$dir"; exit; fi
if [ ! -d "$dir/data" ]; then
  mkdir -p "$dir"; [ "$(id -u)" = 0 ] && chown postgres "$dir"
  as "'$bin/initdb' -D '$dir/data' -A trust -U entente -E UTF8 --locale=C" >/dev/null
fi
as "'$bin/pg_ctl' -D '$dir/data' status" >/dev/null 2>&1 ||
  as "'$bin/pg_ctl' -D '$dir/data' -l '$dir/log' -o \"-k '$dir' -c listen_addresses= -c fsync=off\" -w start" >/dev/null
export PGHOST=$dir PGUSER=entente
# Starts from an empty database, so that the schema comes from the migrations alone.
psql -qd postgres -c 'DROP DATABASE IF EXISTS check_sql WITH (FORCE)' -c 'CREATE DATABASE check_sql' 2>/dev/null
for migration in "$(dirname "$0")"/../migrations/*.sql; do psql -q -v ON_ERROR_STOP=1 -d check_sql -f "$migration"; done
echo "postgres://entente@${dir//\//%2F}:5432/check_sql"
