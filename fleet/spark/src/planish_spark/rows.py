"""Are the rows of a shard what the format says? Read lazily, some of a row group at a time.

Each row is checked as planish checks it: the kind has its addresses, counts are below 10^38, no more is mispredicted
than counted, names are what they should be, and the rows are in order. Works on whole columns, without a loop over
rows.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from planish_spark.errors import BadShard, malformed

#: The columns, in their order; files have the first 7, 9 or all of them.
COLUMNS = (
    "build_id",
    "path",
    "kind",
    "first",
    "second",
    "count",
    "mispredicted",
    "before",
    "after",
    "architecture",
)
#: The kinds of rows, in their order.
KINDS = (
    "fall-through",
    "sample",
    "branch",
    "path",
    "first-half-sample",
    "first-half-branch",
    "first-half-fall-through",
)
#: The largest count.
MOST = 10**38 - 1

_BATCH_ROWS = 1 << 15
_MOST_PATH = 12288
_MOST_ARCHITECTURE = 64
_MOST_BUILD_ID = 128
_BATCH = pa.schema(
    [(name, pa.string()) for name in ("build_id", "path", "architecture", "kind")]
    + [(name, pa.uint64()) for name in ("before", "first", "second", "after")]
    + [(name, pa.decimal128(38, 0)) for name in ("count", "mispredicted")]
)
_ADDRESSES = ("before", "first", "second", "after")
_HEX = "^([0-9a-f][0-9a-f])*$"

#: One cell of the key that rows are sorted by, in columns.
_Key = list[Any]


#: Kinds of which there may be no more than a recording had.
_CLAIMED = ("branch", "sample", "fall-through")
#: What the sum of branches from other images is kept under.
_ELSEWHERE = "branch from elsewhere"


def check(
    path: str, file: Any, architecture: str, claimed: int | None = None, has_wholes: bool = False
) -> int:
    """Reads all rows of a ``pyarrow.parquet.ParquetFile``; the largest count.

    Branches, samples and ranges must each not add up to more than is ``claimed``, and those of the first half not to more
    than all, if the file ``has_wholes``. ``architecture`` is that of the images of a file without a column for it. Raises ``BadShard`` at the first bad
    row.
    """
    largest, last = 0, None
    sums = dict.fromkeys((*KINDS, _ELSEWHERE), 0)
    for group in range(file.num_row_groups):
        first = 0
        try:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, row_groups=[group], use_threads=False):
                if batch.num_rows == 0:
                    continue
                rows = _whole(batch, architecture)
                bad = _first_bad(rows, last)
                if bad is not None:
                    row, expected = bad
                    place = f"row group {group + 1}, row {first + row}"
                    raise malformed(path, place, expected, "another row")
                largest = max(largest, int(pc.max(rows["count"]).as_py()))
                _claim(path, rows, sums, claimed, has_wholes)
                last = rows.slice(rows.num_rows - 1)
                first += rows.num_rows
        except (pa.ArrowException, OSError, ValueError) as error:
            raise BadShard(f"{path}: row group {group + 1}, from row {first}: {error}") from None
        stated = file.metadata.row_group(group).num_rows
        if first != stated:
            place = f"row group {group + 1}, from row {first}"
            raise malformed(path, place, f"{stated} rows in each column", f"{first}")
    return largest


def _claim(path: str, rows: Any, sums: dict[str, int], claimed: int | None, has_wholes: bool) -> None:
    """Adds rows to the sums. Raises ``BadShard`` where they are more than is claimed, or a half more than the whole."""
    again = "take the shard from its host again"
    for kind in _CLAIMED:
        sums[kind] += _sum(rows["count"].filter(pc.equal(rows["kind"], kind)))
        sums[f"first-half-{kind}"] += _sum(rows["count"].filter(pc.equal(rows["kind"], f"first-half-{kind}")))
    # What comes from another image stands there, too.
    sums[_ELSEWHERE] += _sum(rows["count"].filter(pc.and_(pc.equal(rows["kind"], "branch"), pc.is_null(rows["first"]))))
    if has_wholes and any(sums[f"first-half-{kind}"] > sums[kind] for kind in _CLAIMED):
        raise BadShard(f"{path}: counts more of the first half of its samples than of all; {again}")
    own = [sums[kind] - (sums[_ELSEWHERE] if kind == "branch" else 0) for kind in _CLAIMED]
    if claimed is not None and max(own) > claimed:
        told = f"counts more branches, samples or ranges than the {claimed} that its recording had"
        raise BadShard(f"{path}: {told}; {again}")


def _sum(counts: Any) -> int:
    """The sum of counts below 10^38, which may be more than a decimal holds."""
    if len(counts) == 0:
        return 0
    largest = int(pc.max(counts).as_py())
    if largest < 10**38 // len(counts):
        return int(pc.sum(counts).as_py())
    return sum(int(count) for count in counts.to_pylist())


def _whole(batch: Any, architecture: str) -> Any:
    """The batch with all columns, in the order that rows are sorted by."""
    names = set(batch.schema.names)
    columns = []
    for name, kind in zip(_BATCH.names, _BATCH.types):
        if name in names:
            column = batch.column(name).cast(kind)
        elif name == "architecture":
            column = pa.repeat(pa.scalar(architecture, kind), batch.num_rows)
        else:
            column = pa.nulls(batch.num_rows, kind)
        columns.append(column)
    whole = pa.RecordBatch.from_arrays(columns, schema=_BATCH)
    # Also that names are UTF-8.
    whole.validate(full=True)
    return whole


def _first_bad(rows: Any, last: Any) -> tuple[int, str] | None:
    """The first bad row and what belongs there; ``last`` is the row before the first one."""
    count, mispredicted = rows["count"], rows["mispredicted"]
    kind = pc.index_in(rows["kind"], value_set=pa.array(KINDS))
    most, zero = pa.scalar(Decimal(MOST), pa.decimal128(38, 0)), pa.scalar(Decimal(0), pa.decimal128(38, 0))
    checks = [
        ("kind sample, branch, fall-through, path or one of the first half", pc.is_null(kind)),
        ("a path of at most 12288 bytes", pc.greater(pc.binary_length(rows["path"]), _MOST_PATH)),
        (
            "an architecture of at most 64 bytes",
            pc.greater(pc.binary_length(rows["architecture"]), _MOST_ARCHITECTURE),
        ),
        ("a build ID in lower-case hex, or none", _no_build_id(rows["build_id"])),
        ("the addresses that rows of this kind have", pc.invert(_has_addresses(rows, kind))),
        ("a count below 10^38", pc.or_(pc.greater(count, most), pc.less(count, zero))),
        (
            "no more mispredicted than counted",
            pc.or_(pc.greater(mispredicted, count), pc.less(mispredicted, zero)),
        ),
        ("rows in order, by build ID, path, architecture, kind and addresses", _out_of_order(rows, last)),
    ]
    found = [(pc.index(mask, True).as_py(), place) for place, (_, mask) in enumerate(checks)]
    bad = min((one for one in found if one[0] >= 0), default=None)
    return None if bad is None else (bad[0], checks[bad[1]][0])


def _no_build_id(ids: Any) -> Any:
    # There are few that differ.
    coded = ids.dictionary_encode()
    values = coded.dictionary
    wrong = pc.or_(
        pc.invert(pc.match_substring_regex(values, _HEX)), pc.greater(pc.binary_length(values), _MOST_BUILD_ID)
    )
    return pc.take(wrong, coded.indices)


def _has_addresses(rows: Any, kind: Any) -> Any:
    """Whether each row has the addresses of its kind; true where it has no kind."""
    there = {name: pc.is_valid(rows[name]) for name in _ADDRESSES}
    inner = pc.invert(pc.or_(there["before"], there["after"]))
    both = pc.and_(there["first"], there["second"])
    one = pc.and_(there["first"], pc.invert(there["second"]))

    def of(*names: str) -> Any:
        return pc.is_in(kind, value_set=pa.array([KINDS.index(name) for name in names], pa.int32()))

    samples, branches = of("sample", "first-half-sample"), of("branch", "first-half-branch")
    ranges, paths = of("fall-through", "first-half-fall-through"), of("path")
    fits = pc.or_(pc.and_(samples, pc.and_(one, inner)), pc.and_(branches, inner))
    fits = pc.or_(fits, pc.or_(pc.and_(ranges, pc.and_(both, inner)), pc.and_(paths, both)))
    return pc.or_(fits, pc.is_null(kind))


def _out_of_order(rows: Any, last: Any) -> Any:
    """Whether each row comes before the one in front of it."""
    if last is None:
        own = rows
        before = pa.concat_arrays([pa.array([False]), _greater(own.slice(0, own.num_rows - 1), own.slice(1))])
        return before
    table = pa.Table.from_batches([last, rows]).combine_chunks()
    joined = table.to_batches()[0]
    return _greater(joined.slice(0, rows.num_rows), joined.slice(1))


def _greater(ones: Any, others: Any) -> Any:
    """Whether the key of each row of the first is above that of the second."""
    greater: Any = pa.repeat(pa.scalar(False), ones.num_rows)
    for one, other in reversed(list(zip(_key(ones), _key(others)))):
        greater = pc.or_(pc.greater(one, other), pc.and_(pc.equal(one, other), greater))
    return greater


def _key(rows: Any) -> _Key:
    kinds = pa.array(KINDS)
    key = [rows[name].cast(pa.binary()) for name in ("build_id", "path", "architecture")]
    key.append(pc.fill_null(pc.index_in(rows["kind"], value_set=kinds), -1))
    for name in _ADDRESSES:
        # What is absent comes first.
        key += [pc.is_valid(rows[name]).cast(pa.uint8()), pc.fill_null(rows[name], pa.scalar(0, pa.uint64()))]
    return key
