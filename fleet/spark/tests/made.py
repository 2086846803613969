"""Counts files for tests, written with pyarrow: what another tool than planish would write."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from planish_spark import ledger, rows

#: A row: build ID, path, architecture, kind, (before, first, second, after), count, mispredicted.
Row = tuple[str, str, str, str, tuple[int | None, int | None, int | None, int | None], int, int]

_OPTIONAL = ("first", "second", "before", "after")
_SUMS = ("count", "mispredicted")


def order(row: Row) -> tuple[Any, ...]:
    """What rows are sorted by."""
    build_id, path, architecture, kind, addresses, _, _ = row
    at = tuple((address is not None, address or 0) for address in addresses)
    return build_id.encode(), path.encode(), architecture.encode(), rows.KINDS.index(kind), at


def schema(columns: int) -> pa.Schema:
    def kind(name: str) -> pa.DataType:
        return pa.uint64() if name in _OPTIONAL else pa.decimal128(38, 0) if name in _SUMS else pa.string()

    return pa.schema([pa.field(name, kind(name), name in _OPTIONAL) for name in rows.COLUMNS[:columns]])


def shard(
    place: Path,
    given: Iterable[Row],
    *,
    recordings: list[dict[str, Any]] | None = None,
    columns: int = 7,
    version: int = 1,
    halves: bool = True,
    executions: bool = False,
    parts: dict[str, Any] | None = None,
    more: dict[str, str] | None = None,
    **options: Any,
) -> Path:
    """Writes a shard; without recordings, one that is known by its bytes."""
    listed = list(given)
    cells: dict[str, list[Any]] = {
        "build_id": [row[0] for row in listed],
        "path": [row[1] for row in listed],
        "architecture": [row[2] for row in listed],
        "kind": [row[3] for row in listed],
        "before": [row[4][0] for row in listed],
        "first": [row[4][1] for row in listed],
        "second": [row[4][2] for row in listed],
        "after": [row[4][3] for row in listed],
        "count": [Decimal(row[5]) for row in listed],
        "mispredicted": [Decimal(row[6]) for row in listed],
    }
    pairs = {"planish.counts.version": str(version), "planish.ledger": json.dumps(ledger.empty())}
    if recordings is not None:
        value: dict[str, Any] = {"version": 1, "halves": halves, "recordings": recordings}
        value |= {"executions": True} if executions else {}
        pairs["planish.fleet"] = json.dumps(value | ({"partition": parts} if parts else {}))
    own = schema(columns).with_metadata(pairs | (more or {}))
    table = pa.table([pa.array(cells[field.name], field.type) for field in own], schema=own)
    pq.write_table(table, place, **{"compression": "zstd", **options})
    return place


def program(seed: int, number: int, build_id: str, path: str, columns: int = 7) -> list[Row]:
    """Rows of a made-up program, in order, with addresses of a kernel among them."""
    chance = random.Random(seed)
    base = 0xFFFFFFFF81000000 if "vmlinux" in path else 0x401000
    machine = "aarch64" if columns == 10 else ""
    made: dict[Any, Row] = {}
    for _ in range(number):
        count = int(chance.paretovariate(0.7) * 20) + 1
        one, other = base + chance.randrange(1 << 20), base + chance.randrange(1 << 20)
        kind = chance.choice(rows.KINDS if columns > 7 else [kind for kind in rows.KINDS if kind != "path"])
        if kind.endswith("sample"):
            addresses: Any = (None, one, None, None)
        elif kind.endswith("branch"):
            addresses = (None, chance.choice([one, None]), chance.choice([other, None]), None)
        elif kind == "path":
            addresses = (chance.choice([other, None]), one, one + 8, chance.choice([other, None]))
        else:
            addresses = (None, one, one + 16, None)
        # The first half of the samples is part of all of them.
        count = chance.randrange(1, 3) if kind.startswith("first-half-") else count
        missed = chance.randrange(count + 1) if kind.endswith("branch") else 0
        row = (build_id, path, machine, kind, addresses, count, missed)
        made[order(row)] = row
    return [made[key] for key in sorted(made)]


def recording(id_: str, **said: Any) -> dict[str, Any]:
    """What a shard says of a recording."""
    return {"id": id_, "host": "", "host_class": "", "cpu_model": "", "architecture": ""} | said
