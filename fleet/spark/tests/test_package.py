"""Is the package whole, and are its types right?"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from conftest import HERE, SOURCE


NOTHING = "error: nothing to merge: of 1 files none can be; a.counts: no such file\n"


def test_the_wheel_has_all_modules_and_the_text(archive: Path) -> None:
    with zipfile.ZipFile(archive) as wheel:
        names = set(wheel.namelist())
        package = {f"planish_spark/{file.name}" for file in (SOURCE / "planish_spark").iterdir() if file.is_file()}
        assert package <= names
        assert {"planish_spark/merge.sql", "planish_spark/py.typed"} <= names
        text = (HERE.parents[1] / "sql" / "merge.sql").read_bytes()
        assert wheel.read("planish_spark/merge.sql") == text
        (entries,) = (name for name in names if name.endswith("entry_points.txt"))
        assert b"planish-spark = planish_spark.command:run" in wheel.read(entries)


def test_the_types_are_right(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_without_spark_the_command_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ImportError")
    path = [str(tmp_path), str(SOURCE)]
    program = f"import sys; sys.path[:0] = {path!r}; from planish_spark.command import run; run()"
    command = [sys.executable, "-c", program, "merge", "a.counts", "-o", "b.counts"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "spark-submit" in done.stderr
    # Files of this machine can be chosen without Spark; there is none of this name.
    command[3:] = ["choose", "a.counts", "-o", "b.csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, NOTHING)
