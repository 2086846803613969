"""A merge from its inputs to its files: look at the shards, choose, add up, write."""

from __future__ import annotations

from collections.abc import Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from planish_spark import sums, weight, write
from planish_spark.choice import MOST_BYTES, Choice, Found, Given, Merged, WithWeight, expanded
from planish_spark.errors import FleetError
from planish_spark.files import Files, escaped
from planish_spark.look import Shard
from planish_spark.plan import Options, Plan
from planish_spark.survey import survey

#: What an action of Spark raises.
SPARK_ERRORS = (PySparkException, Py4JJavaError)
#: How often the rows are added up without another file that turned out bad on the way.
_MOST_TRIES = 5
#: Parts of what Spark says where a number does not fit.
_OVERFLOWS = ("ARITHMETIC_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE", "CANNOT_CHANGE_DECIMAL_PRECISION")


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
    found = expanded(files.expand, inputs, weights)
    _check_output(files, output, options, [file for file, _ in found])
    given = _looked(spark, found, most_bytes, strict)
    for _ in range(_MOST_TRIES):
        choice = given.choose(options)
        plan = choice.plan
        _check_products(plan)
        own = sums.salts_for(len(plan.chosen)) if salts is None else salts
        try:
            rows = sums.add_up(spark, plan, own)
            written = write.write(files, plan, rows, output, options.partitions)
        except SPARK_ERRORS as error:
            culprit = _culprit(plan, error)
            if culprit is None:
                raise _told(error) from error
            # The others may be merged without it.
            given.reject(culprit, f"{culprit.path}: {_told(error)}")
            continue
        read = sum(chosen.shard.rows for chosen in plan.chosen)
        return Merged(plan, choice.files, choice.rejected, read, tuple(written))
    raise FleetError(f"{_MOST_TRIES} files turned out bad one after the other; {given.rejected[-1][1]}")


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
    found = expanded(Files(spark).expand, inputs, weights)
    return _looked(spark, found, most_bytes, strict).choose(options)


def _looked(spark: SparkSession, found: list[WithWeight], most_bytes: int, strict: bool) -> Given:
    try:
        shards, rejected = survey(spark, [file for file, _ in found], most_bytes)
    except SPARK_ERRORS as error:
        raise _told(error) from error
    return Given.of(found, shards, rejected, strict)


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


def _check_products(plan: Plan) -> None:
    """Refuses counts that do not fit into 128 bits once they are weighted, as every engine must."""
    for chosen in plan.chosen:
        if chosen.weight != weight.ONE and weight.weighted(chosen.shard.largest, chosen.weight) is None:
            raise FleetError(f"a count of {chosen.shard.path} reaches 2^128 in 1/65536; give a smaller weight")


def _is_overflow(text: str) -> bool:
    return any(sign in text for sign in _OVERFLOWS)


def _culprit(plan: Plan, error: Exception) -> Shard | None:
    """The shard that Spark names as the one that it cannot read."""
    text = str(error)
    if _is_overflow(text):
        return None
    # Spark writes a local file's URL with one slash or with three.
    text = text.replace("file:///", "file:/")
    named = [
        shard
        for shard in (chosen.shard for chosen in plan.chosen)
        if any(name in text for name in {shard.key, shard.path, escaped(shard.path)})
    ]
    # One name may begin with another.
    return max(named, key=lambda shard: len(shard.path), default=None)


def _told(error: Exception) -> FleetError:
    """What Spark says in many lines, in one."""
    text = str(error)
    if _is_overflow(text):
        return FleetError("a count reaches 10^38; give smaller weights or fewer files")
    if sums.CHANGED in text:
        return FleetError(sums.CHANGED)
    if any(f"No module named '{name}" in text for name in ("planish_spark", "pyarrow")):
        return FleetError(
            "the Python of the executors lacks planish_spark or pyarrow: install planish-spark there, and say with "
            "PYSPARK_PYTHON which Python that is"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return FleetError(f"Spark failed: {lines[0] if lines else type(error).__name__}")
