#!/usr/bin/env bash
# Builds the release binary, the emulation plugin and the library that copies text:  scripts/build.sh   (prints nothing when nothing changed)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
need_rust
# `planish --version` names the commit of a checkout; what stands below another project's directory has none of its own.
if [ -z "${PLANISH_COMMIT+set}" ] && [ -e .git ]; then
  PLANISH_COMMIT=$(git rev-parse --short=12 HEAD 2>/dev/null || true)
  [ -z "$PLANISH_COMMIT" ] || git diff --quiet HEAD -- 2>/dev/null || PLANISH_COMMIT=$PLANISH_COMMIT-changed
  export PLANISH_COMMIT
fi
"$CARGO" build --release --locked --workspace
