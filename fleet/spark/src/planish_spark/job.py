"""A merge from its inputs to its files: look at the shards, choose, add up, write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from planish_spark import plan as planned
from planish_spark import sums, weight, write
from planish_spark.errors import FleetError
from planish_spark.files import Files, Found
from planish_spark.look import Shard
from planish_spark.plan import Options, Plan
from planish_spark.survey import Rejected, survey
from planish_spark.write import Written

#: Most bytes of a shard, unless more are asked for: a task holds one in memory.
MOST_BYTES = 256 << 20

#: Parts of what Spark says where a number does not fit.
_OVERFLOWS = ("ARITHMETIC_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE", "CANNOT_CHANGE_DECIMAL_PRECISION")
_CHANGED = "has changed since it was looked at"


@dataclass(frozen=True)
class Choice:
    """What became of the files that were given."""

    plan: Plan
    #: Files given.
    files: int
    #: Those that cannot be read or merged: name and reason.
    rejected: tuple[Rejected, ...]


@dataclass(frozen=True)
class Merged(Choice):
    """What a merge did."""

    rows_read: int
    written: tuple[Written, ...]

    @property
    def rows_written(self) -> int:
        """Rows of the result, in all its parts."""
        return sum(one.rows for one in self.written)


def merge(
    spark: SparkSession,
    inputs: Sequence[str],
    output: str,
    options: Options = Options(),
    *,
    weights: Sequence[int] = (),
    salts: int | None = None,
    most_bytes: int = MOST_BYTES,
    strict: bool = False,
) -> Merged:
    """Adds up the shards that the inputs name, into one shard, or into parts in a directory.

    ``inputs`` and ``output`` are URLs of Hadoop's file systems, or paths. ``weights`` are in 1/65536, one for each
    input, or none. ``salts`` divides each key by so many numbers before it is added up as a whole; ``None`` chooses by
    the number of shards. A file of more than ``most_bytes`` is rejected. With ``strict``, so is everything if one file
    cannot be merged.

    Raises ``FleetError``; then nothing is written.
    """
    spark = spark.newSession()
    sums.settings(spark)
    files = Files(spark)
    found = _expanded(files, inputs, weights)
    _check_output(files, output, options, [file for file, _ in found])
    with _told():
        choice = _choose(spark, found, options, most_bytes, strict)
        plan = choice.plan
        _check_products(plan)
        if salts is None:
            salts = sums.salts_for(len(plan.chosen))
        written = write.write(files, plan, sums.add_up(spark, plan, salts), output, options.partitions)
    rows = sum(chosen.shard.rows for chosen in plan.chosen)
    return Merged(plan, choice.files, choice.rejected, rows, tuple(written))


def choose(
    spark: SparkSession,
    inputs: Sequence[str],
    options: Options = Options(),
    *,
    weights: Sequence[int] = (),
    most_bytes: int = MOST_BYTES,
    strict: bool = False,
) -> Choice:
    """Says which shards count, and how much, for another engine that adds them up. Arguments as for ``merge``."""
    spark = spark.newSession()
    with _told():
        return _choose(spark, _expanded(Files(spark), inputs, weights), options, most_bytes, strict)


def _expanded(files: Files, inputs: Sequence[str], weights: Sequence[int]) -> list[tuple[Found, int]]:
    """The files that the inputs name, each once, with their weights."""
    if weights and len(weights) != len(inputs):
        raise FleetError(
            f"the number of --weight is {len(weights)} and that of inputs is {len(inputs)}: give one weight for "
            "each, in the same order"
        )
    found: dict[str, tuple[Found, int]] = {}
    for url, own in zip(inputs, weights or [weight.ONE] * len(inputs)):
        for file in files.expand(url):
            found.setdefault(file.name, (file, own))
    return list(found.values())


def _check_output(files: Files, output: str, options: Options, found: list[Found]) -> None:
    """Refuses an output that would harm what is there; before hours of work."""
    target = files.qualified(output)
    if any(file.url == target for file in found):
        raise FleetError(f"{output}: is the input; write to another file")
    path = files.path(target)
    system = files.system(path)
    if not system.exists(path):
        return
    is_directory = system.getFileStatus(path).isDirectory()
    if options.partitions < 2 and is_directory:
        raise FleetError(f"{output}: is a directory")
    if options.partitions > 1 and (not is_directory or len(system.listStatus(path)) > 0):
        raise FleetError(f"{output}: expected an empty directory, or none, for {options.partitions} parts")


def _choose(
    spark: SparkSession, found: list[tuple[Found, int]], options: Options, most_bytes: int, strict: bool
) -> Choice:
    shards, rejected = survey(spark, [file for file, _ in found], most_bytes)
    given = [(shards[file.name], own) for file, own in found if file.name in shards]
    while True:
        if rejected and strict:
            raise FleetError(rejected[0][1])
        if not given and rejected:
            raise FleetError(f"nothing to merge: {len(found)} files are rejected; {rejected[0][1]}")
        plan = planned.make(given, options)
        if plan.rejected and strict:
            shard, why = plan.rejected[0]
            raise FleetError(f"{shard.path}: {why}")
        if not any(chosen.shard.fault for chosen in plan.chosen):
            told = [*rejected, *((shard.path, why) for shard, why in plan.rejected)]
            return Choice(plan, len(found), tuple(told))
        # Without the bad ones, others may count.
        rejected += [_faulty(shard) for shard, _ in given if shard.fault]
        given = [one for one in given if not one[0].fault]


def _faulty(shard: Shard) -> Rejected:
    return shard.path, shard.fault or ""


def _check_products(plan: Plan) -> None:
    """Refuses counts that do not fit into 128 bits once they are weighted, as every engine must."""
    for chosen in plan.chosen:
        if chosen.weight != weight.ONE and weight.weighted(chosen.shard.largest, chosen.weight) is None:
            raise FleetError(
                f"a count of {chosen.shard.path} reaches 2^128 in 1/65536; give a smaller weight"
            )


@contextmanager
def _told() -> Iterator[None]:
    """Says in one line what Spark says in many."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise FleetError(_in_short(str(error))) from error


def _in_short(text: str) -> str:
    if any(sign in text for sign in _OVERFLOWS):
        return "a count reaches 10^38; give smaller weights or fewer files"
    if any(f"No module named '{name}" in text for name in ("planish_spark", "pyarrow")):
        return (
            "the Python of the executors lacks planish_spark or pyarrow: install planish-spark there, and say with "
            "PYSPARK_PYTHON which Python that is"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    changed = [line for line in lines if _CHANGED in line]
    if changed:
        return changed[0][max(0, changed[0].find("file:")) :]
    return f"Spark could not add the shards up: {lines[0] if lines else 'failed'}"
