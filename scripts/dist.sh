#!/usr/bin/env bash
# Builds target/dist: a tarball with the program, its licence and its completions, a Python wheel, and their checksums. The
# program is the release profile's, without symbols; tests name another profile, which is compiled already.
#
#     scripts/dist.sh [PROFILE [DIRECTORY]]
set -euo pipefail
cd "$(dirname "$0")/.."
export SQLX_OFFLINE=true
profile=${1:-release}
out=${2:-target/dist}

rm -rf "$out"
mkdir -p "$out"
.venv/packaging/bin/maturin build --quiet --profile "$profile" --out "$out"

# The tarball has the program of the wheel, so that both are one build.
stage=$(mktemp -d -p "$out")
trap 'rm -rf "$stage"' EXIT
python3 -m zipfile -e "$out"/*.whl "$stage/wheel"
version=$(basename "$stage"/wheel/*.data | sed -E 's/^[^-]*-(.*)\.data$/\1/')
name="entente-$version-$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m)"
mkdir -p "$stage/$name/completions"
install -m 755 "$stage"/wheel/*.data/scripts/entente "$stage/$name/entente"
cp LICENSE README.md CHANGELOG.md .env.example "$stage/$name/"
cp -r deploy "$stage/$name/"
for shell in bash zsh fish; do "$stage/$name/entente" completions "$shell" > "$stage/$name/completions/entente.$shell"; done
tar -C "$stage" --owner=0 --group=0 --numeric-owner -czf "$out/$name.tar.gz" "$name"
rm -rf "$stage"

(cd "$out" && sha256sum -- *.tar.gz *.whl > SHA256SUMS)
ls -lh "$out"
