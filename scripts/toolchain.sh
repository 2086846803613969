# Finds the Rust and C tools the other scripts use. Sourced, never run:  . scripts/toolchain.sh
#
# Afterwards CARGO and RUSTC name programs of at least Rust $MSRV, or CARGO is empty when the machine has none.
# Ubuntu keeps newer compilers beside the default one in /usr/lib/rust-1.NN, so PATH is tried first, rustup's folder
# next, those after them, newest first.

# A registry that does not answer for a moment is no reason to fail.
export CARGO_NET_RETRY=${CARGO_NET_RETRY:-10}

MSRV=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "${BASH_SOURCE[0]}")/../Cargo.toml")

# version_at_least FOUND WANTED: compares dotted numbers.
version_at_least() {
  [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

# rust_version PROGRAM: the version number that cargo or rustc prints, or nothing.
rust_version() {
  "$1" --version 2>/dev/null | sed -n '1s/^[a-z]* \([0-9.]*\).*/\1/p'
}

find_rust() {
  local dir found
  CARGO='' RUSTC='' RUST_VERSION=''
  for dir in '' "${CARGO_HOME:-${HOME:-}/.cargo}/bin/" $(printf '%s\n' /usr/lib/rust-*/bin/ | sort -rV); do
    command -v "${dir}cargo" >/dev/null 2>&1 && command -v "${dir}rustc" >/dev/null 2>&1 || continue
    found=$(rust_version "${dir}rustc")
    if [ -n "$found" ] && version_at_least "$found" "$MSRV"; then
      CARGO=$(command -v "${dir}cargo") RUSTC=$(command -v "${dir}rustc") RUST_VERSION=$found
      # cargo looks for cargo-fmt and cargo-clippy in PATH.
      [ -z "$dir" ] || PATH=${dir%/}:$PATH
      export CARGO RUSTC PATH
      return 0
    fi
  done
  return 1
}

# first_of NAME…: the first of these programs that is installed.
first_of() {
  local name
  for name; do
    if command -v "$name" >/dev/null 2>&1; then printf '%s\n' "$name"; return 0; fi
  done
  return 1
}

# need_rust: stops with the next step when there is no usable compiler.
need_rust() {
  find_rust || {
    echo "planish needs Rust $MSRV or newer; this machine has $(rust_version rustc | grep . || echo none). Run: make setup" >&2
    exit 1
  }
}
