"""An initrd with programs and the libraries that they load:  initrd.py OUTPUT COMMANDS INIT PROGRAM…

COMMANDS becomes /commands, INIT /init, each PROGRAM /bin/NAME. The format is newc of cpio(5).
"""

import os
import subprocess
import sys

output, commands, init, *programs = sys.argv[1:]
files = {"commands": commands, "init": init}
for program in programs:
    files["bin/" + os.path.basename(program)] = program
for program in [init, *programs]:
    loaded = subprocess.run(["ldd", program], capture_output=True, text=True)
    for line in loaded.stdout.splitlines():
        path = next((word for word in line.split() if word.startswith("/")), None)
        if path:
            files[path.lstrip("/")] = os.path.realpath(path)

folders = set()
for name in files:
    while name := os.path.dirname(name):
        folders.add(name)


def entry(out, number, name, mode, data):
    fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    out.write(head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4))


with open(output + ".new", "wb") as out:
    number = 0
    for name in sorted(folders, key=lambda name: (name.count("/"), name)):
        number += 1
        entry(out, number, name, 0o040755, b"")
    for name, path in files.items():
        number += 1
        with open(path, "rb") as file:
            entry(out, number, name, 0o100755, file.read())
    entry(out, 0, "TRAILER!!!", 0, b"")
os.rename(output + ".new", output)
