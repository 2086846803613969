"""How do the sums become one sorted counts file, without a row on the driver?

The executors write sorted pieces. The driver's JVM then copies their row groups, packed as they are, behind each other
into one file, and writes a footer with planish's metadata. What the pieces' footers say of smallest and largest
addresses is left out: it holds for signed numbers, and addresses have no sign.
"""

from __future__ import annotations

import json
import re
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from planish_spark import words
from planish_spark.choice import Written
from planish_spark.errors import FleetError
from planish_spark.files import Files, reason
from planish_spark.look import LEDGER_KEY, VERSION_KEY
from planish_spark.parts import part_of
from planish_spark.plan import Plan
from planish_spark.recording import KEY
from planish_spark.rows import COLUMNS, KINDS

#: Bytes of a row group, before they are packed.
_GROUP_BYTES = 64 << 20
_SCHEMA = {
    "build_id": "REQUIRED BINARY build_id (UTF8)",
    "path": "REQUIRED BINARY path (UTF8)",
    "kind": "REQUIRED BINARY kind (UTF8)",
    "first": "OPTIONAL INT64 first (INTEGER(64,false))",
    "second": "OPTIONAL INT64 second (INTEGER(64,false))",
    "count": "REQUIRED FIXED_LEN_BYTE_ARRAY (16) count (DECIMAL(38,0))",
    "mispredicted": "REQUIRED FIXED_LEN_BYTE_ARRAY (16) mispredicted (DECIMAL(38,0))",
    "before": "OPTIONAL INT64 before (INTEGER(64,false))",
    "after": "OPTIONAL INT64 after (INTEGER(64,false))",
    "architecture": "REQUIRED BINARY architecture (UTF8)",
}
_ADDRESSES = ("before", "first", "second", "after")
_PART = "planish_part"


def targets(output: str, partitions: int) -> list[str]:
    """The files that are made: the output, or so many parts in it."""
    if partitions < 2:
        return [output]
    folder = output.rstrip("/")
    return [f"{folder}/part-{part + 1:04}-of-{partitions:04}.counts" for part in range(partitions)]


def write(files: Files, plan: Plan, sums: DataFrame, output: str, partitions: int) -> list[Written]:
    """Writes the result as one shard, or as so many parts into a directory."""
    made = []
    outputs = targets(output, partitions)
    with files.beside(outputs[0]) as place:
        pieces = f"{place}/pieces"
        _pieces(plan, sums, pieces, partitions)
        for part, target in enumerate(outputs):
            folder = pieces if partitions < 2 else f"{pieces}/{_PART}={part}"
            whole = f"{place}/{part}.counts"
            pairs = {
                VERSION_KEY: str(plan.version),
                LEDGER_KEY: json.dumps(plan.ledger, separators=(",", ":")),
                KEY: plan.of_part(part, partitions).text(),
            }
            pairs[words.KEY] = words.checksum(pairs)
            try:
                rows = _Joiner(files, plan).join(_listed(files, folder), whole, pairs)
            except Py4JJavaError as error:
                raise FleetError(f"{target}: {reason(error)}") from None
            made.append((whole, Written(files.qualified(target), rows)))
        # Only now, so that there are all or none.
        for whole, written in made:
            files.move(whole, written.url)
    return [written for _, written in made]


def columns(plan: Plan) -> tuple[str, ...]:
    """The columns of the result."""
    return COLUMNS[: 10 if plan.architectures else 9 if plan.paths else 7]


def _pieces(plan: Plan, sums: DataFrame, folder: str, partitions: int) -> None:
    """Lets the executors write the rows, sorted, into files whose names are in order."""
    kinds = ", ".join(f"'{kind}'" for kind in KINDS)
    order: list[Column] = [F.col("build_id"), F.col("path"), F.col("architecture")]
    # What is absent comes first, as Spark sorts by itself.
    order += [F.expr(f"array_position(array({kinds}), kind)"), *map(F.col, _ADDRESSES)]
    wanted = [_column(name).alias(name) for name in columns(plan)]
    if partitions > 1:
        sums = sums.withColumn(_PART, _part(partitions))
        order.insert(0, F.col(_PART))
        wanted.append(F.col(_PART))
    writer = sums.orderBy(*order).select(*wanted).write
    if partitions > 1:
        writer = writer.partitionBy(_PART)
    options: dict[str, str | int] = {
        "compression": "zstd",
        "parquet.writer.version": "PARQUET_1_0",
        "parquet.block.size": _GROUP_BYTES,
        # Number and name of the pieces follow from the tasks alone.
        "maxRecordsPerFile": 0,
    }
    writer.options(**options).parquet(folder)


def _column(name: str) -> Column:
    """A column as the file has it: signed for Spark where it is unsigned, and never null where it is required."""
    if name in _ADDRESSES:
        signed = f"CASE WHEN {name} > 9223372036854775807 THEN {name} - 18446744073709551616 ELSE {name} END"
        return F.expr(f"CAST({signed} AS BIGINT)")
    if name in ("count", "mispredicted"):
        return F.coalesce(F.col(name), F.lit(0).cast("decimal(38,0)"))
    return F.coalesce(F.col(name), F.lit(""))


def _part(partitions: int) -> Column:
    def of(*cells: Any) -> int:
        build_id, path, architecture, kind = cells[:4]
        before, first, second, after = (None if cell is None else int(cell) for cell in cells[4:])
        return part_of(build_id, path, architecture, kind, (before, first, second, after), partitions)

    # By Arrow it would need pandas.
    return F.udf(of, "int", useArrow=False)("build_id", "path", "architecture", "kind", *_ADDRESSES)


def _listed(files: Files, folder: str) -> list[str]:
    """The pieces in a directory, in the order of their tasks; none where it is not there."""
    path = files.path(folder)
    system = files.system(path)
    if not system.exists(path):
        return []
    names = [str(status.getPath().getName()) for status in system.listStatus(path)]
    numbered = [(int(found[1]), name) for name in names if (found := re.match(r"part-([0-9]+)-.*\.parquet$", name))]
    return [f"{folder}/{name}" for _, name in sorted(numbered)]


class _Joiner:
    """Puts the row groups of many Parquet files behind each other, by Parquet's own library."""

    def __init__(self, files: Files, plan: Plan) -> None:
        self._files = files
        parquet: Any = files.jvm.org.apache.parquet
        self._hadoop: Any = parquet.hadoop
        self._statistics: Any = parquet.column.statistics.Statistics
        fields = " ".join(f"{_SCHEMA[name]};" for name in columns(plan))
        self._schema: Any = parquet.schema.MessageTypeParser.parseMessageType(f"message counts {{ {fields} }}")

    def join(self, pieces: list[str], target: str, pairs: dict[str, str]) -> int:
        """Joins the pieces into a new file with these metadata; its rows."""
        jvm, configuration = self._files.jvm, self._files.configuration
        mode = getattr(jvm, "org.apache.parquet.hadoop.ParquetFileWriter$Mode").OVERWRITE
        out = self._hadoop.util.HadoopOutputFile.fromPath(self._files.path(target), configuration)
        writer = self._hadoop.ParquetFileWriter(out, self._schema, mode, _GROUP_BYTES, 0)
        writer.start()
        rows = sum(self._append(writer, piece) for piece in pieces)
        metadata = jvm.java.util.HashMap()
        for key, value in pairs.items():
            metadata.put(key, value)
        writer.end(metadata)
        return rows

    def _append(self, writer: Any, piece: str) -> int:
        path = self._files.path(piece)
        file = self._hadoop.util.HadoopInputFile.fromPath(path, self._files.configuration)
        reader = self._hadoop.ParquetFileReader.open(file)
        stream = file.newStream()
        try:
            rows = 0
            for block in reader.getFooter().getBlocks():
                writer.appendRowGroup(stream, self._unsigned(block), False)
                rows += int(block.getRowCount())
            return rows
        finally:
            stream.close()
            reader.close()

    def _unsigned(self, block: Any) -> Any:
        """What the footer says of a row group, with addresses that have no sign and no bounds."""
        metadata: Any = self._hadoop.metadata
        own = metadata.BlockMetaData()
        own.setRowCount(block.getRowCount())
        own.setTotalByteSize(block.getTotalByteSize())
        for column in block.getColumns():
            name = str(column.getPath().toDotString())
            if name in _ADDRESSES:
                kind = self._schema.getType(name).asPrimitiveType()
                column = metadata.ColumnChunkMetaData.get(
                    column.getPath(),
                    kind,
                    column.getCodec(),
                    column.getEncodingStats(),
                    column.getEncodings(),
                    self._statistics.createStats(kind),
                    column.getFirstDataPageOffset(),
                    column.getDictionaryPageOffset(),
                    column.getValueCount(),
                    column.getTotalSize(),
                    column.getTotalUncompressedSize(),
                )
            own.addColumn(column)
        return own
