"""What do all files say of themselves? Each is looked at on an executor; only that comes to the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import SparkSession

from planish_spark.choice import Found, Rejected
from planish_spark.errors import BadShard
from planish_spark.files import escaped, plain
from planish_spark.look import Shard, look

def survey(spark: SparkSession, files: list[Found], most_bytes: int) -> tuple[dict[str, Shard], list[Rejected]]:
    """Looks at files; the shards by their name, and the files that are none.

    A file of more than ``most_bytes`` is not looked at, since a task holds it in memory.
    """
    rejected: list[Rejected] = []
    readable: list[Found] = []
    for file in files:
        why = _hidden(file) or file.unreadable(most_bytes)
        if why is None:
            readable.append(file)
        else:
            rejected.append((file.name, why))
    shards: dict[str, Shard] = {}
    seen: set[str] = set()
    for name, shard, why in _looked(spark, readable):
        seen.add(name)
        if shard is not None:
            shards[name] = shard
        else:
            rejected.append((name, why))
    for file in readable:
        if file.name not in seen:
            why = "could not be read, or is gone since it was listed; the logs of the executors say why"
            rejected.append((file.name, f"{file.name}: {why}"))
    return shards, sorted(rejected)


def _hidden(file: Found) -> str | None:
    if file.name.rsplit("/", 1)[-1].startswith(("_", ".")):
        return f"{file.name}: Spark does not see files whose names begin with _ or a point; rename it"
    return None


def _looked(spark: SparkSession, files: list[Found]) -> Iterator[tuple[str, Shard | None, str]]:
    if not files:
        return
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", True)
    # A file that cannot be read must not end the look at the others; it is missing in the end, and named.
    reader = reader.option("ignoreMissingFiles", True).option("ignoreCorruptFiles", True)
    rows = reader.load([escaped(file.url) for file in files]).selectExpr(
        "path",
        "content",
        "_metadata.file_path AS key",
        "unix_micros(_metadata.file_modification_time) AS modified",
    )
    # One partition after the other, so that the driver never has all answers twice.
    yield from rows.rdd.mapPartitions(_look_at).toLocalIterator(prefetchPartitions=True)


def _look_at(files: Iterable[Any]) -> Iterator[tuple[str, Shard | None, str]]:
    for file in files:
        name = plain(file.path)
        try:
            shard = look(name, bytes(file.content))
        except BadShard as bad:
            yield name, None, str(bad)
        else:
            yield name, Shard(**{**vars(shard), "key": file.key, "modified": file.modified}), ""
