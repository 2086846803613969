#!/usr/bin/env bash
# Installs from Debian or Ubuntu what building, testing and the demo need and the machine lacks.
#
#   scripts/setup.sh          everything `make demo` uses
#   scripts/setup.sh test     also what only `make test` needs
#   scripts/setup.sh bench    also the tools `make bench` compares with
#   scripts/setup.sh kernel   also what builds and boots a Linux kernel
#   scripts/setup.sh kernel-arm64   the same, and what kernels for arm64 need besides
#
# It says what it installs and why, asks nothing, works as root or through sudo, and does nothing when nothing
# is missing. It never removes a package: where that would be needed it stops and says so.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/toolchain.sh

packages=()   # what to install
reasons=()    # one line each, in the same order
want() { packages+=("$1"); reasons+=("$2"); }
has() { command -v "$1" >/dev/null 2>&1; }

# Programs are looked for by name, not by package, so that tools from elsewhere count too.
find_rust || rust_missing=yes
has gcc || want gcc "C compiler: links Rust programs, builds the gcc side of the tests"
has g++ || want g++ "C++ compiler, for the tests' C++ programs"
[ -e /usr/include/stdio.h ] || want libc6-dev "C library headers"
has pkg-config || want pkg-config "how crates find C libraries"
has git || want git "the tests ask which files belong to the repository"
has readelf || want binutils "readelf and objdump, which the tests compare with"
[ -e /etc/ssl/certs/ca-certificates.crt ] || want ca-certificates "cargo fetches crates over TLS"
has dwz || want dwz "shares debug information between files, which image must read"
has perf || want linux-perf "reads our perf.data in the tests"
has qemu-x86_64 || want qemu-user "gives any machine a branch stack: record --branches=emulated"

# The newest clang the distribution has. 22 is what the tests compare with byte for byte; older ones build the demo.
llvm_wanted=22
llvm_missing() { ! { has "clang-$1" && has "ld.lld-$1" && has "llvm-profdata-$1"; }; }
llvm_missing "$llvm_wanted" && llvm=missing || llvm=present
if [ "$llvm" = missing ] && has apt-cache && ! apt-cache policy "clang-$llvm_wanted" 2>/dev/null | grep -q 'Candidate: [0-9]'; then
  # A release without the wanted one is served by an older one, which may be there already.
  for number in 21 20 19 18 17; do llvm_missing "$number" || { llvm=present llvm_wanted=$number; break; }; done
fi

# Whether clang finds the library that instrumented programs are linked with.
has_counters() {
  local library
  library=$("clang-$1" -fprofile-generate '-###' -x c /dev/null -o - 2>&1 | tr ' "' '\n\n' | grep -m 1 'libclang_rt\.profile' || true)
  [ -n "$library" ] && [ -e "$library" ]
}

if [ "${1:-}" = test ]; then
  has qemu-system-x86_64 || want qemu-system-x86 "boots the kernels that the tests record and measure"
  [ "$llvm" = missing ] || has_counters "$llvm_wanted" ||
    want "libclang-rt-$llvm_wanted-dev" "counters of instrumented programs, another way that layouts are compared with"
  # Where a release has no such package, the test says that it is skipped.
  # Trees that planish kernel prepares, and what compiles a few of their objects.
  for series in 6.1 6.12; do
    [ -e "/usr/src/linux-source-$series.tar.xz" ] || want "linux-source-$series" "a kernel tree for the tests of planish kernel"
  done
  has cmake || want cmake "builds a CMake project in the tests"
  has flex || want flex "the kernel's build, of a few objects"
  has bison || want bison "the same"
  has bc || want bc "the same"
  [ -e /usr/include/libelf.h ] || want libelf-dev "objtool, which checks those objects"
  has debuginfod || want debuginfod "serves programs and debug files by build ID, which the tests of report fetch"
  has xz || want xz-utils "packs the symbol tables and archives that the tests of report read"
  has bzip2 || want bzip2 "the same"
  has zstd || want zstd "the same"
  has gdb || want gdb "reads the packed symbol tables, too"
  has chromium || has google-chrome || want chromium "opens the HTML report in the tests and looks for errors"
  python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || want python3-venv "environments for Playwright, which clicks in it, and for Spark"
  has java || want default-jre-headless "runs Spark, which adds up the counts of a fleet in the tests"
  has tmux || want tmux "the terminal that planish report -i and planish top are tried on"
fi

# What tests need of Python, in environments of its own beside what is built. Without it those tests say that they are
# skipped.
#   add_environment NAME REQUIREMENTS REASON [OPTIONS OF pip install]
add_environment() {
  local name=$1 requirements=$2 reason=$3
  shift 3
  local place=${CARGO_TARGET_DIR:-target}/$name
  ! cmp -s "$requirements" "$place/installed.txt" || return 0
  local python=python3
  "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 || python=/usr/bin/python3
  echo "setup: $name into $place: $reason"
  if rm -rf "$place" && "$python" -m venv "$place" &&
    "$place/bin/python" -m pip install -q --disable-pip-version-check --no-input "$@" -r "$requirements"; then
    cp "$requirements" "$place/installed.txt"
  else
    echo "setup: $name could not be installed; the tests that need it will say that they are skipped" >&2
    rm -rf "$place"
  fi
}
add_environments() {
  add_environment playwright scripts/playwright.txt "opens pages in the tests, clicks, and looks for errors"
  # 1.3 GB, nearly all of it Spark and ClickHouse; pip would keep as much again for the next time.
  add_environment engines fleet/spark/requirements.txt "Spark, DuckDB and ClickHouse, which add up the counts of a fleet in the tests" \
    --no-deps --no-cache-dir
}

if [ "${1:-}" = bench ]; then
  has perf2bolt-22 || want bolt-22 "perf2bolt, a peer that make bench measures beside planish"
  has python3 || want python3 "make gains keeps its results with it"
  has cmake || want cmake "builds one of the programs of make gains"
  has xz || want xz-utils "packs the input of another one"
  has dpkg-source || want dpkg-dev "unpacks their sources"
  has create_llvm_prof || want autofdo "create_llvm_prof, another peer"
  [ -x /usr/bin/time ] || want time "peak memory of the measured programs"
fi

if [ "${1:-}" = kernel ] || [ "${1:-}" = kernel-arm64 ]; then
  has make || want make "the kernel's build"
  has flex || want flex "its configuration's reader"
  has bison || want bison "the same"
  has bc || want bc "makes one of its headers"
  [ -e /usr/include/libelf.h ] || want libelf-dev "objtool, which checks every object of it"
  has qemu-system-x86_64 || want qemu-system-x86 "boots it"
fi

# clang and lld build such a kernel by themselves; its workload is a static program.
if [ "${1:-}" = kernel-arm64 ]; then
  has qemu-system-aarch64 || want qemu-system-arm "boots kernels for arm64"
  [ -e /usr/aarch64-linux-gnu/lib/libc.a ] || want libc6-dev-arm64-cross "the C library of their workload"
  compgen -G '/usr/lib/gcc-cross/aarch64-linux-gnu/*/libgcc.a' >/dev/null ||
    want gcc-aarch64-linux-gnu "libgcc, which clang links it with"
fi

# Debian's rustfmt and clippy belong to the compiler of the same origin; rustup brings its own.
add_linters() {
  has cargo-fmt || want rustfmt-web "cargo fmt, which .ci/run checks with"
  has cargo-clippy || want rust-web-clippy "cargo clippy, the same"
}
# Asked of the path alone: dpkg-query would take most of the time of a second run.
[ -z "${rust_missing:-}" ] && [ "${CARGO:-}" = /usr/bin/cargo ] && [ -e /usr/share/doc/cargo-web ] && add_linters

if [ -z "${rust_missing:-}" ] && [ "$llvm" = present ] && [ ${#packages[@]} -eq 0 ]; then
  [ "${1:-}" != test ] || add_environments
  echo "setup: nothing missing (Rust $RUST_VERSION, clang $llvm_wanted)"
  exit 0
fi

has apt-get || {
  echo "setup: this script installs through apt-get, which this system does not have. Please install: Rust $MSRV or newer," >&2
  echo "       clang, lld and llvm $llvm_wanted, gcc, make, pkg-config, git, binutils, perf, qemu-user." >&2
  exit 1
}
if [ "$(id -u)" -eq 0 ]; then as_root=(env); elif has sudo; then as_root=(sudo); else
  echo "setup: packages are missing (${packages[*]:-Rust or clang}) and this is neither root nor is there sudo." >&2
  echo "       Run as root: $0 ${1:-}" >&2
  exit 1
fi
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 "$@" </dev/null; }

echo "setup: reading the package lists"
apt update >/dev/null || echo "setup: apt-get update failed; trying with the lists that are there" >&2

# candidate PACKAGE: the version apt would install, or nothing.
candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: //p' | grep -v '^(none)$' || true; }
# plain VERSION: without Debian's epoch and revision.
plain() { sed 's/^[0-9]*://; s/[+~-].*//' <<<"$1"; }

if [ -n "${rust_missing:-}" ]; then
  chosen=''
  web=$(plain "$(candidate rustc-web)"); default=$(plain "$(candidate rustc)")
  if [ -n "$default" ] && version_at_least "$default" "$MSRV"; then
    chosen=default
    want rustc "Rust $default"; want cargo "its build tool"
    has cargo-fmt || want rustfmt "cargo fmt, which .ci/run checks with"
    has cargo-clippy || want rust-clippy "cargo clippy, the same"
  elif [ -n "$web" ] && version_at_least "$web" "$MSRV"; then
    chosen=web
    # These two packages replace rustc and cargo and cannot stand beside them or beside the package rustup.
    for old in rustc cargo rustup; do
      if [ "$(dpkg-query -W -f='${db:Status-Status}' "$old" 2>/dev/null)" = installed ]; then
        echo "setup: the package $old is installed, too old for planish, and $old and rustc-web exclude each other." >&2
        echo "       Either: apt-get install rustc-web cargo-web   (removes $old)" >&2
        echo "       or:     rustup toolchain install stable       and run make setup again" >&2
        exit 1
      fi
    done
    want rustc-web "Rust $web, from Debian's security archive"; want cargo-web "its build tool"
    add_linters
  else
    # Ubuntu: numbered packages beside the default one.
    for number in $(apt-cache pkgnames rustc-1. 2>/dev/null | sed -n 's/^rustc-\(1\.[0-9]*\)$/\1/p' | sort -rV); do
      if version_at_least "$number" "$MSRV" && [ -n "$(candidate "cargo-$number")" ]; then
        chosen=$number
        want "rustc-$number" "Rust $number"; want "cargo-$number" "its build tool"
        [ -z "$(candidate "rustfmt-$number")" ] || want "rustfmt-$number" "cargo fmt, which .ci/run checks with"
        [ -z "$(candidate "rust-$number-clippy")" ] || want "rust-$number-clippy" "cargo clippy, the same"
        break
      fi
    done
  fi
  if [ -z "$chosen" ]; then
    echo "setup: no package brings Rust $MSRV or newer here (rustc is ${default:-absent}, rustc-web is ${web:-absent})." >&2
    echo "       Debian 12: enable bookworm-security, which has rustc-web 1.96. Ubuntu: enable the updates and universe pockets." >&2
    echo "       Any system: install rustup from https://rustup.rs, then run make setup again." >&2
    exit 1
  fi
fi

if [ "$llvm" = missing ]; then
  for number in $llvm_wanted 23 21 20 19 18 17; do
    [ -n "$(candidate "clang-$number")" ] && [ -n "$(candidate "lld-$number")" ] || continue
    if llvm_missing "$number"; then
      want "clang-$number" "builds the demo with the profile"
      want "lld-$number" "links it; understands symbol orders"
      want "llvm-$number" "llvm-profdata, llvm-profgen, llvm-readelf: the tests compare with them"
      [ "${1:-}" != test ] || want "libclang-rt-$number-dev" "counters of instrumented programs, another way that layouts are compared with"
    fi
    [ "$number" = "$llvm_wanted" ] || echo "setup: no clang-$llvm_wanted here, taking clang-$number; comparisons with LLVM $llvm_wanted will be skipped"
    llvm=chosen
    break
  done
  [ "$llvm" = chosen ] || {
    echo "setup: no clang from 17 to 23 in the package lists; Debian 12 has clang-22 in bookworm-security." >&2
    exit 1
  }
fi

# A package this release does not have is left out with a word, so that the rest still arrives.
install=()
for i in "${!packages[@]}"; do
  name=${packages[$i]}
  # Ubuntu calls Debian's linux-perf linux-tools-generic.
  if [ "$name" = linux-perf ] && [ -z "$(candidate linux-perf)" ]; then name=linux-tools-generic; fi
  if [ -z "$(candidate "$name")" ]; then
    echo "setup: this release has no package $name (${reasons[$i]}); what needs it will say that it is skipped" >&2
    continue
  fi
  printf 'setup: %-16s %s\n' "$name" "${reasons[$i]}"
  install+=("$name")
done
if [ ${#install[@]} -eq 0 ]; then
  [ "${1:-}" != test ] || add_environments
  echo "setup: nothing more to install"
  exit 0
fi

plan=$(apt-get -s -q -o Debug::NoLocking=1 install --no-install-recommends "${install[@]}" 2>/dev/null || true)
if grep -q '^Remv ' <<<"$plan"; then
  echo "setup: installing these would remove: $(sed -n 's/^Remv \([^ ]*\).*/\1/p' <<<"$plan" | tr '\n' ' ')" >&2
  echo "       Nothing was changed. To do it all the same: apt-get install ${install[*]}" >&2
  exit 1
fi
echo "setup: installing $(grep -c '^Inst ' <<<"$plan" || true) packages in all, dependencies included"
apt install -y --no-install-recommends "${install[@]}" |
  awk '/^Need to get|^After this/ { print "setup: " $0 } /^Get:/ { n++; if (n % 20 == 0) { print "setup: fetched " n; fflush() } }
       /^Setting up/ { m++; if (m % 20 == 0) { print "setup: set up " m; fflush() } } /^E:/ { print }'
find_rust || { echo "setup: still no Rust $MSRV or newer after installing; please report this with the output above" >&2; exit 1; }
[ "${1:-}" != test ] || add_environments
echo "setup: done (Rust $RUST_VERSION)"
