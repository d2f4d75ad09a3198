#!/usr/bin/env bash
# Checks the dependencies with cargo-deny: their licences, versions and sources, and known vulnerabilities (deny.toml).
# Prints a line instead, and succeeds, if cargo-deny is not installed or the network that a check needs is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
skip() { echo "deny: skipped $1"; }

if ! cargo deny --version >/dev/null 2>&1; then
  skip "all checks of the dependencies: cargo-deny is not installed (\`make deny\` installs it and runs them)"
  exit
fi

# The crates of all platforms that deny.toml names: with them the first checks need no network.
if ! cargo fetch --quiet 2>/dev/null; then
  skip "all checks of the dependencies: \`cargo fetch\` cannot get them"
  exit
fi
cargo deny --offline check bans licenses sources

if ! cargo deny fetch db >/dev/null 2>&1; then
  skip "the check for known vulnerabilities: \`cargo deny fetch db\` cannot get their list"
  exit
fi
cargo deny check --disable-fetch advisories
