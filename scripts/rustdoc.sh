#!/usr/bin/env bash
# Stands in for rustdoc in `cargo test --doc`: documents the crate instead of testing its examples.
#
# `cargo doc` checks every dependency once more; for tests of examples cargo hands rustdoc what is compiled already.
set -euo pipefail
arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --test) ;;
    --test-run-directory) shift ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
# shellcheck disable=SC2086 # The flags are words.
exec rustdoc "${arguments[@]}" --document-private-items ${RUSTDOCFLAGS:-} --out-dir "${CARGO_TARGET_DIR:-target}/doc"
