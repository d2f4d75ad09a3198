#!/usr/bin/env bash
# Says how long the first compilation takes, before `make run` and `make demo` compile.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
[ -x "$target/quick/entente" ] ||
  echo "Compiling Entente and its dependencies for the first time: several minutes on two cores. Later runs take seconds."
