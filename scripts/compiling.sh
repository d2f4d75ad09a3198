#!/usr/bin/env bash
# Says how long the first compilation takes, before `make run` and `make demo` compile.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
[ -x "$target/quick/entente" ] ||
  cat <<'END'
Compiling Entente and its dependencies for the first time, without optimisation: several minutes on two cores. Cargo names each
crate as it comes to it, the server's own ones (entente-…) last. Then the server starts; later runs take seconds.
END
