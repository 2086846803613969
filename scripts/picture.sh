#!/usr/bin/env bash
# Makes docs/output.svg, the picture of the README: what planish prints of a comparison whose result is kept in
# measurements/2026-11-22-layout-bolt.json, as a terminal shows it. Left out are the sentences about each row and what
# follows the summary.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build.sh
planish=${CARGO_TARGET_DIR:-$PWD/target}/release/planish
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n -e '/^,"rest"/q' -e '1s/^{"first"://' -e p measurements/2026-11-22-layout-bolt.json >"$work/sqlite.json"
# Colours are for terminals: `script` is one.
COLUMNS=100 LC_ALL=C.UTF-8 NO_COLOR='' script -qec "$planish report $work/sqlite.json" /dev/null | tr -d '\r' >"$work/said"
awk '
  function escape(text) { gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); gsub(/>/, "\\&gt;", text); return text }
  # A line with its colours as spans; the codes are those of the terminal.
  function spans(line,    made, at, code) {
    made = ""
    while (match(line, /\033\[[0-9]+m/)) {
      made = made escape(substr(line, 1, RSTART - 1))
      code = substr(line, RSTART + 2, RLENGTH - 3)
      made = made (code == 0 ? "</tspan>" : "<tspan class=\"c" code "\">")
      line = substr(line, RSTART + RLENGTH)
    }
    return made escape(line)
  }
  function put(line) { text[++lines] = line }
  NR == 1 { put("$ planish report sqlite.json") }
  # The table, the picture of the intervals and the summary.
  /^$/ { part++; if (part < 3) put(part == 1 ? "  …" : ""); next }
  part == 0 && /^ *(\033\[[0-9]+m)? *[a-z0-9-]+: / { told = 1 }
  part == 0 && told { next }
  part < 3 { put(spans($0)) }
  END {
    high = lines * 19 + 24
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 920 %d\" width=\"920\" height=\"%d\" role=\"img\" aria-labelledby=\"title\" ", high, high
    print "font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, monospace\" font-size=\"13\">"
    print "  <title id=\"title\">What planish compare prints of six builds of SQLite</title>"
    print "  <style>text { fill: #d6dde6; white-space: pre } .c1 { font-weight: 700; fill: #ffffff } .c2 { fill: #8a96a5 }"
    print "    .c31 { fill: #ff7b72 } .c32 { fill: #56d364 } .c33 { fill: #e3b341 }</style>"
    printf "  <rect width=\"920\" height=\"%d\" rx=\"6\" fill=\"#161b22\"/>\n", high
    for (at = 1; at <= lines; at++) printf "  <text x=\"16\" y=\"%d\" xml:space=\"preserve\">%s</text>\n", at * 19 + 9, text[at]
    print "</svg>"
  }' "$work/said" >docs/output.svg
echo "wrote docs/output.svg"
