#!/usr/bin/env bash
# Installs what scripts/build.sh built, or takes it away again:
#   scripts/install.sh [--uninstall] [--from DIRECTORY]
#
# PREFIX (default /usr/local) is where to; DESTDIR stands before it, for packages. What is installed:
#   bin/planish                                      the program
#   lib/planish/libplanish_{qemu_branches,hugetext}.so   what it loads into emulators and programs
#   share/man/man1/planish*.1                        man pages
#   share/{bash-completion,zsh,fish}/…               completions
# --from is the folder of the build (default target/release). Nothing is built or downloaded here.
set -euo pipefail
# The folder of the build is read from where the script is called; what is named by itself lies in the checkout.
from="" uninstall=""
while [ $# -gt 0 ]; do
  case $1 in
    --uninstall) uninstall=1 ;;
    --from) from=$(cd "${2:?--from needs a directory}" && pwd); shift ;;
    *) echo "install: unknown argument $1; see the head of scripts/install.sh" >&2; exit 2 ;;
  esac
  shift
done
cd "$(dirname "$0")/.."
to=${DESTDIR:-}${PREFIX:-/usr/local}
libraries=(libplanish_qemu_branches.so libplanish_hugetext.so)
bash_file=$to/share/bash-completion/completions/planish
zsh_file=$to/share/zsh/site-functions/_planish
fish_file=$to/share/fish/vendor_completions.d/planish.fish

if [ -n "$uninstall" ]; then
  rm -f "$to/bin/planish" "${libraries[@]/#/$to/lib/planish/}" "$bash_file" "$zsh_file" "$fish_file"
  rm -f "$to"/share/man/man1/planish.1 "$to"/share/man/man1/planish-*.1
  [ ! -d "$to/lib/planish" ] || rmdir "$to/lib/planish" 2>/dev/null || true
  echo "uninstall: planish is gone from $to"
  exit 0
fi

from=${from:-${CARGO_TARGET_DIR:-target}/release}
for file in planish "${libraries[@]}"; do
  [ -f "$from/$file" ] || { echo "install: $from/$file is missing; run \`make build\` first" >&2; exit 2; }
done
pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
"$from/planish" man "$pages"
for shell in bash zsh fish; do "$from/planish" completions $shell >"$pages/$shell"; done
install -D -m 755 "$from/planish" "$to/bin/planish"
for library in "${libraries[@]}"; do install -D -m 644 "$from/$library" "$to/lib/planish/$library"; done
install -d "$to/share/man/man1"
install -m 644 "$pages"/*.1 "$to/share/man/man1/"
install -D -m 644 "$pages/bash" "$bash_file"
install -D -m 644 "$pages/zsh" "$zsh_file"
install -D -m 644 "$pages/fish" "$fish_file"
echo "install: planish $("$from/planish" --version | cut -d' ' -f2) is in $to/bin; \`make uninstall PREFIX=${PREFIX:-/usr/local}\` takes it away"
