#!/usr/bin/env bash
# The demo: planish records SQLite, rebuilds it with the profile, measures both and reports.
#   scripts/demo.sh [ARGUMENTS OF planish optimize]
# Finished steps are kept under demo/sqlite/.planish; a second run repeats only what changed.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build.sh
. scripts/toolchain.sh
need_rust
target=$("$CARGO" metadata --offline --no-deps --format-version 1 2>/dev/null | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
exec "${target:-target}/release/planish" optimize demo/sqlite/planish.toml "$@"
