# Finds the Rust and C tools the other scripts use. Sourced, never run:  . scripts/toolchain.sh
#
# Afterwards CARGO and RUSTC name programs of at least Rust $MSRV, or CARGO is empty when the machine has none.
# Ubuntu ships newer compilers beside the default one as cargo-1.NN, so the plain names are tried first and
# the numbered ones after them, newest first.

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
  local suffix dir found
  CARGO='' RUSTC='' RUST_VERSION=''
  for suffix in '' $(compgen -c cargo- 2>/dev/null | sed -n 's/^cargo\(-[0-9][0-9.]*\)$/\1/p' | sort -rVu); do
    for dir in '' "${CARGO_HOME:-${HOME:-/root}/.cargo}/bin/"; do
      command -v "${dir}cargo$suffix" >/dev/null 2>&1 && command -v "${dir}rustc$suffix" >/dev/null 2>&1 || continue
      found=$(rust_version "${dir}rustc$suffix")
      if [ -n "$found" ] && version_at_least "$found" "$MSRV"; then
        CARGO=$(command -v "${dir}cargo$suffix") RUSTC=$(command -v "${dir}rustc$suffix") RUST_VERSION=$found
        export CARGO RUSTC
        return 0
      fi
    done
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
    echo "planish needs Rust $MSRV or newer and found $(rust_version rustc || true)none. Run: make setup" >&2
    exit 1
  }
}
