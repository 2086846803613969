"""What the tests share: the planish program, a Spark cluster of two executors, and a simulated fleet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SOURCE = HERE.parent / "src"
#: The key of a file's checksum over the others, which whoever changes one takes away.
CHECKSUM = b"planish.metadata.crc32"
#: Options of all Java machines.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: Without what Python prepends, and the same for the executors.
sys.path[:0] = [str(SOURCE), str(HERE)]


@dataclass(frozen=True)
class Planish:
    """The program that the results are compared with."""

    program: Path

    def run(self, *arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = [str(self.program), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == code, f"{command}: {done.returncode}: {done.stderr}"
        return done

    def merged(self, output: Path, *arguments: object, code: int = 0) -> bytes:
        """The bytes that ``fleet merge`` makes."""
        self.run("fleet", "merge", *arguments, "-o", output, code=code)
        return output.read_bytes()


@pytest.fixture(scope="session")
def planish() -> Planish:
    program = os.environ.get("PLANISH")
    if program is None:
        pytest.exit("name the planish program: PLANISH=target/debug/planish", returncode=2)
    return Planish(Path(program).resolve())


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a wheel, under the name of a zip file, which it is and as which Spark takes it."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=HERE.parent, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel.rename(folder / "planish_spark.zip")


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Spark as pip installed it, with a folder of its own for what executors leave behind."""
    import pyspark

    home = tmp_path_factory.mktemp("spark")
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    (home / "conf").mkdir()
    (home / "conf" / "log4j2.properties").write_text(
        "rootLogger.level = error\nrootLogger.appenderRef.stderr.ref = stderr\nappender.stderr.type = Console\n"
        "appender.stderr.name = stderr\nappender.stderr.target = SYSTEM_ERR\nappender.stderr.layout.type = "
        "PatternLayout\nappender.stderr.layout.pattern = %d %p %c{1}: %m%n\n"
    )
    os.environ |= {
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(home / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    return home


@pytest.fixture(scope="session")
def spark(home: Path, archive: Path) -> Iterator[SparkSession]:
    """A cluster of two workers, each with an executor of one core and 700 MiB, in processes of their own."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.executor.memory": "700m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "6",
        "spark.submit.pyFiles": str(archive),
        "spark.task.maxFailures": "2",
        # Short jobs on few cores: no time for the second compiler.
        "spark.driver.extraJavaOptions": JAVA,
        "spark.executor.extraJavaOptions": JAVA,
    }
    builder = SparkSession.builder.master("local-cluster[2,1,700]").appName("planish-spark tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@dataclass(frozen=True)
class Fleet:
    """Shards of a fleet, with what goes wrong in one."""

    folder: Path
    #: Inputs, and a weight for each.
    inputs: tuple[Path, Path, Path]
    weights: tuple[str, str, str]
    #: The time from which ages are counted.
    now: int


@pytest.fixture(scope="session")
def fleet(planish: Planish, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Three builds of a program that was really recorded, on hosts of two kinds, with duplicates and files cut off."""
    folder = tmp_path_factory.mktemp("fleet")
    autofdo = ROOT / "fixtures" / "autofdo"
    real = folder / "real"
    real.mkdir()
    recorded = (autofdo / "test.lbr", "--binary", autofdo / "test.binary")
    planish.run("fleet", "shard", *recorded, "--end", "2026-01-01T00:01:00", "-o", real / "real.counts")
    builds = []
    for build in ("aa" * 20, "bb" * 20, "cc" * 20):
        table = pq.read_table(real / "real.counts")
        ids = pa.array([build] * table.num_rows)
        pairs = {key: value for key, value in table.schema.metadata.items() if key not in (b"planish.fleet", CHECKSUM)}
        table = table.set_column(0, pa.field("build_id", pa.string(), False), ids).replace_schema_metadata(pairs)
        builds.append(folder / f"{build}.counts")
        pq.write_table(table, builds[-1], compression="zstd")
    for name, seed in (("hardware", 1), ("software", 2)):
        faults = ("--duplicates", 15, "--truncated", 8)
        # Enough for all reasons to leave one out, and to be merged in several steps; Spark takes a tenth of a second for each.
        sizes = ("--hosts", 18, "--recordings", 9, "--share", 40, "--seed", seed)
        planish.run("fleet", "simulate", *builds, "--into", folder / name, *sizes, *faults)
        for file in (folder / name).iterdir():
            restamp(file, source=f"{name}-branches")
    inputs = (folder / "hardware", folder / "software", real)
    return Fleet(folder, inputs, ("1", "0.3", "0.25"), 1767226000)


def restamp(file: Path, **said: Any) -> None:
    """Changes what a whole shard says of its recordings."""
    try:
        table = pq.read_table(file)
    except pa.ArrowInvalid:
        return
    pairs = dict(table.schema.metadata)
    value = json.loads(pairs[b"planish.fleet"])
    for recording in value["recordings"]:
        recording.update(said)
    pairs[b"planish.fleet"] = json.dumps(value).encode()
    pairs.pop(CHECKSUM, None)
    pq.write_table(table.replace_schema_metadata(pairs), file, compression="zstd")
