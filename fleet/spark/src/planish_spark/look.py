"""What does one file say of itself, and are its rows sound? Asked on the executors, of the file's bytes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from planish_spark import ledger, pages, recording, rows, sources, words
from planish_spark.errors import BadShard, malformed
from planish_spark.ledger import Ledger
from planish_spark.recording import Description, Recording

#: Keys of the metadata.
VERSION_KEY = "planish.counts.version"
LEDGER_KEY = "planish.ledger"
#: Newest version of the counts format.
VERSION = 5
#: The first version that tells counts apart by halves of the samples.
WITH_HALVES = 3

_MAGIC = b"PAR1"
#: Most rows of a file: so many, or so many for each byte of it.
_MOST_ROWS = 1 << 20
_ROWS_OF_BYTE = 16
_TYPES = ("BYTE_ARRAY",) * 3 + ("INT64",) * 2 + ("FIXED_LEN_BYTE_ARRAY",) * 2 + ("INT64",) * 2 + ("BYTE_ARRAY",)
_OPTIONAL = ("first", "second", "before", "after")


@dataclass(frozen=True)
class Shard:
    """A counts file, looked at."""

    #: Its name, as users know it.
    path: str
    size: int
    version: int
    rows: int
    #: Whether it has the columns of paths, and that of architectures.
    paths: bool
    architectures: bool
    ledger: Ledger
    description: Description
    #: Tells it from other files: a hash of its size and footer.
    footer: bytes
    #: A hash of what stands before its footer: of the rows without what is said of them.
    pages: bytes = b""
    #: The largest count of a row.
    largest: int = 0
    #: What is wrong with its rows, if anything is.
    fault: str | None = None
    #: What Spark calls it, and when it was changed last, in microseconds since 1970.
    key: str = ""
    modified: int = 0
    named: bool = field(default=True)

    @property
    def tells_architectures(self) -> bool:
        """Whether rows of it name an architecture once it is merged."""
        return self.architectures or self.description.architecture != ""


def look(path: str, data: bytes) -> Shard:
    """Looks at a file with this name and these bytes.

    Raises ``BadShard`` where it is none that can be merged. What is wrong with its rows is only noted, since it does
    no harm where the shard is not merged.
    """
    if data[: len(_MAGIC)] != _MAGIC:
        raise no_counts(path)
    start = _footer(path, data)
    try:
        file = pq.ParquetFile(pa.BufferReader(data), thrift_string_size_limit=len(data))
        metadata = file.metadata
        pairs = {key.decode(): value.decode() for key, value in (metadata.metadata or {}).items()}
        version = _version(path, pairs)
        words.check(path, pairs)
        read = _ledger(path, pairs.get(LEDGER_KEY, ""))
        _check_rows(path, len(data), metadata)
        pages.check(path, memoryview(data), metadata)
        columns = len(metadata.schema)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise malformed(path, f"footer at offset {start}", "that of a counts artefact", str(error)) from None
    description, named = _described(path, pairs.get(recording.KEY), data, version)
    shard = Shard(
        path=path,
        size=len(data),
        version=version,
        rows=metadata.num_rows,
        paths=columns > 7,
        architectures=columns > 9,
        ledger=read,
        description=description,
        footer=hashlib.sha256(len(data).to_bytes(8, "little") + data[start:]).digest(),
        named=named,
        pages=hashlib.sha256(data[:start]).digest(),
    )
    try:
        _check_columns(path, metadata.schema)
        pages.check_sums(path, memoryview(data), metadata)
        claimed = sources.claimed(description, _entered(read))
        # The rows of a part are of any kind.
        has_wholes = description.of == 1
        return _with(shard, largest=rows.check(path, file, description.architecture, claimed, has_wholes))
    except BadShard as bad:
        return _with(shard, fault=str(bad))


def _entered(read: Ledger) -> int:
    return max(int(read[book]["entered"]) for book in ("branches", "samples"))


def no_counts(path: str) -> BadShard:
    """That a file is no counts file at all."""
    return malformed(path, "start", "a counts artefact (made by planish aggregate)", "another kind of file")


def _with(shard: Shard, **changes: Any) -> Shard:
    return Shard(**{**vars(shard), **changes})


def _footer(path: str, data: bytes) -> int:
    """Where the footer begins."""
    end = len(data) - 8
    if end < 0:
        raise malformed(path, f"offset {len(data)}", "a Parquet footer", "the end of the file; aggregate again")
    if data[end + 4 :] != _MAGIC:
        found = "others: a file that was cut off; copy it or aggregate again"
        raise malformed(path, f"offset {end + 4}", "the magic bytes of Parquet at its end", found)
    length = int.from_bytes(data[end : end + 4], "little")
    if length > end:
        raise malformed(path, f"offset {end}", f"a footer of at most {end} bytes", f"one of {length} bytes")
    return end - length


def _version(path: str, pairs: dict[str, str]) -> int:
    stated = pairs.get(VERSION_KEY)
    if stated is None:
        raise malformed(path, "metadata", f"the key {VERSION_KEY}", "a Parquet file of something else")
    known = {str(version): version for version in range(1, VERSION + 1)}
    if stated not in known:
        raise BadShard(
            f"{path}: counts artefact of version {stated}, this planish-spark reads versions up to {VERSION}; "
            "update planish-spark, or aggregate the recording again"
        )
    return known[stated]


def _ledger(path: str, text: str) -> Ledger:
    try:
        return ledger.read(recording.load(text))
    except ValueError:
        raise malformed(path, LEDGER_KEY, "a ledger in JSON", "something else") from None


def _check_rows(path: str, size: int, metadata: Any) -> None:
    most = max(_MOST_ROWS, size * _ROWS_OF_BYTE)
    stated = sum(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
    if stated > most or metadata.num_rows != stated:
        expected = f"at most {most} rows in a file of {size} bytes"
        raise malformed(path, "row groups", expected, f"{stated} rows")


def _check_columns(path: str, schema: Any) -> None:
    """Refuses other columns than those of counts, and other types."""
    columns = [schema.column(number) for number in range(len(schema))]
    try:
        names = tuple(column.path for column in columns)
    except ValueError as error:
        raise BadShard(f"{path}: schema: {error}") from None
    if len(names) not in (7, 9, 10) or names != rows.COLUMNS[: len(names)]:
        expected = f"the columns {', '.join(rows.COLUMNS)}"
        raise malformed(path, "schema", expected, ", ".join(names))
    for column, kind in zip(columns, _TYPES):
        levels = 1 if column.path in _OPTIONAL else 0
        wide = kind != "FIXED_LEN_BYTE_ARRAY" or column.length == 16
        if column.physical_type != kind or not wide or column.max_definition_level != levels:
            raise BadShard(f"{path}: column {column.path} is of another type than the counts schema has")


def _described(path: str, text: str | None, data: bytes, version: int) -> tuple[Description, bool]:
    """What the file says of its recordings, and whether it does; else it is one, known by its bytes."""
    if text is None:
        own = Recording(id=f"sha256-{hashlib.sha256(data).hexdigest()}")
        return Description((own,), version >= WITH_HALVES), False
    try:
        return recording.read(text), True
    except recording.Newer as newer:
        raise BadShard(f"{path}: {newer}") from None
    except recording.Wrong as wrong:
        raise BadShard(f"{path}: {recording.KEY}: {wrong}") from None
