#!/usr/bin/env bash
# Builds the release binary, the emulation plugin and the library that copies text:  scripts/build.sh   (prints nothing when nothing changed)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
need_rust
"$CARGO" build --release --locked --workspace
