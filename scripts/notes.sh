#!/usr/bin/env bash
# Prints the changes of one version, for its release: its section of CHANGELOG.md. Fails unless Cargo.toml has that version.
#
#     scripts/notes.sh 1.2.3
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?name a version, such as 1.2.3}
grep -qx "version = \"$version\"" Cargo.toml || { echo "Cargo.toml does not have the version $version" >&2; exit 1; }
notes=$(awk -v heading="## [$version]" '/^## / { ours = index($0, heading) == 1; next } ours' CHANGELOG.md)
[ -n "${notes//[[:space:]]/}" ] || { echo "CHANGELOG.md has no section \"## [$version]\"" >&2; exit 1; }
printf '%s\n' "$notes"
