"""A table of what `planish pages check --format json` says of files: how much text can lie on which pages."""

import json
import os
import sys

KIB = 1024


def can(file, size):
    """Bytes of a file's text that can lie on pages of this size, for base pages of 4 KiB."""
    sizes = [one for segment in file["segments"] for one in segment["sizes"]]
    return sum(one["eligible_bytes"] for one in sizes if one["bytes"] == size and one["base_page"] == 4 * KIB)


def percent(part, whole):
    return "–" if part is None or not whole else f"{100 * part / whole:.1f} %"


print("| file | instruction set | text | 2 MiB | after align | 32 KiB |\n|---|---|---:|---:|---:|---:|")
files = sorted(json.load(open(sys.argv[1]))["files"], key=lambda file: -file["text_bytes"])
for file in files:
    text = file["text_bytes"]
    aligned = file["aligned_pct"]
    cells = [
        os.path.basename(file["path"]),
        file["arch"],
        f"{text / KIB / KIB:.1f} MiB",
        percent(can(file, 2048 * KIB), text),
        "–" if aligned is None else f"{aligned:.1f} %",
        percent(can(file, 32 * KIB), text) if file["arch"] in ("x86-64", "x86") else "–",
    ]
    print("| " + " | ".join(cells) + " |")
