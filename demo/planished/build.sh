#!/bin/sh
# Builds planish into $PLANISH_OUT with the flags that planish hands over. Called by `planish optimize`; RUSTC_BOOTSTRAP=1
# lets a stable rustc take the sample profile.
set -eu
cd "$(dirname "$0")/../.."
: "${PLANISH_OUT:?names the directory to build into}"

host=$(rustc -vV | sed -n 's/^host: //p')
profile=$(printf '%s' "${PLANISH_RUSTFLAGS-}" | sed -n 's/.*-Zprofile-sample-use=\([^ ]*\).*/\1/p')
# What belongs to the link alone goes to the last crate alone: the others are compiled once for all links.
flags= link=
for flag in ${PLANISH_RUSTFLAGS-}; do
  case $flag in -Clink-arg=*) link="$link $flag" ;; *) flags="$flags $flag" ;; esac
done
# cargo does not see that a profile under the same name has changed, so the crates of each lie in a directory of its own.
key=$({ printf '%s' "$flags"; [ -z "$profile" ] || cat "$profile"; } | sha256sum | cut -c 1-16)
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/planished/$key"
export RUSTFLAGS="$flags"
# shellcheck disable=SC2086
cargo rustc --release --locked --target "$host" -p planish --bin planish -- $link
cp "$CARGO_TARGET_DIR/$host/release/planish" "$PLANISH_OUT/planish"
