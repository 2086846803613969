"""Do other engines, with the same SQL text over the same files, get the rows that planish gets?"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import made
import pyarrow.parquet as pq
import pytest
from conftest import ROOT, Fleet, Planish
from test_spark import LINE, OPTIONS, by_planish

from planish_spark import command, report, sums, weight

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SQL = ROOT / "fleet" / "sql"
KEYS = ("build_id", "path", "architecture", "kind", "first", "second", "before", "after")

#: The sums of each key.
Sums = dict[tuple[Any, ...], tuple[int, int]]


def test_the_package_has_the_text() -> None:
    assert sums.text() == (SQL / "merge.sql").read_text()


@pytest.fixture(scope="module")
def expected(planish: Planish, fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Sums:
    """The rows of planish's result."""
    result = tmp_path_factory.mktemp("planish") / "result.counts"
    by_planish(planish, fleet, result)
    return by_key(
        (tuple(row.get(key) for key in KEYS), row["count"], row["mispredicted"])
        for row in pq.read_table(result).to_pylist()
    )


@pytest.fixture(scope="module")
def chosen(spark: SparkSession, fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Which shards count, as a table."""
    from planish_spark.job import choose

    options = replace(OPTIONS, now=fleet.now)
    weights = [weight.read(own) or 0 for own in fleet.weights]
    choice = choose(spark, [str(one) for one in fleet.inputs], options, weights=weights)
    table = tmp_path_factory.mktemp("chosen") / "chosen.csv"
    # The command needs no Spark for files of this machine, and says the same.
    line = ["choose", *map(str, fleet.inputs), *LINE, "--now", str(fleet.now), "-o", str(table)]
    # Some files are cut off.
    assert command.main([*line, *(f"--weight={own}" for own in fleet.weights)]) == command.NEGATIVE
    assert table.read_text() == report.table(choice)
    return table


def by_key(rows: Iterable[tuple[tuple[Any, ...], Any, Any]]) -> Sums:
    own = {key: (int(count), int(missed)) for key, count, missed in rows}
    assert own
    return own


def duckdb(table: Path) -> Sums:
    engine = pytest.importorskip("duckdb")
    connection = engine.connect()
    connection.execute(f"SET VARIABLE chosen = '{table}'")
    connection.execute((SQL / "duckdb.sql").read_text())
    rows = connection.execute((SQL / "merge.sql").read_text()).fetchall()
    return by_key((row[:8], row[8], row[9]) for row in rows)


def clickhouse(table: Path) -> Sums:
    session = pytest.importorskip("chdb.session")
    engine = session.Session()
    folders = {Path(line.split(",")[0]).parent for line in table.read_text().splitlines()[1:]}
    # Also files that are cut off fit the pattern.
    pattern = f"{os.path.commonpath(folders)}/{'*' if len(folders) == 1 else '**/*'}.counts"
    engine.query((SQL / "clickhouse.sql").read_text().replace("FILES", pattern).replace("CHOSEN", str(table)))
    told = str(engine.query(f"SELECT * FROM ({(SQL / 'merge.sql').read_text()})", "JSONCompactStringsEachRow"))
    engine.close()
    return by_key(read(line) for line in told.splitlines())


def read(line: str) -> tuple[tuple[Any, ...], Any, Any]:
    """A row of texts, as ClickHouse writes it."""
    cells = json.loads(line)
    addresses = (None if cell is None or cell == "ᴺᵁᴸᴸ" else int(cell) for cell in cells[4:8])
    return (*cells[:4], *addresses), Decimal(cells[8]), Decimal(cells[9])


@pytest.mark.parametrize("engine", [duckdb, clickhouse])
def test_an_engine_gets_the_rows_of_planish(engine: Any, chosen: Path, expected: Sums) -> None:
    assert engine(chosen) == expected


@pytest.mark.parametrize("engine", [duckdb, clickhouse])
def test_columns_that_files_lack_are_filled_in(engine: Any, planish: Planish, tmp_path: Path) -> None:
    plain = made.shard(tmp_path / "a.counts", made.program(1, 300, "ab12", "/usr/bin/x"), version=4)
    kernel = made.shard(tmp_path / "b.counts", made.program(2, 300, "", "/boot/vmlinux", 10), columns=10, version=5)
    table = tmp_path / "chosen.csv"
    table.write_text(f"file,weight,architecture,halves\n{plain},65536,,true\n{kernel},65536,,true\n")
    result = tmp_path / "result.counts"
    planish.merged(result, plain, kernel)
    rows = pq.read_table(result).to_pylist()
    whole = by_key((tuple(row[key] for key in KEYS), row["count"], row["mispredicted"]) for row in rows)
    assert any(key[4] is not None and key[4] > 1 << 63 for key in whole)
    assert engine(table) == whole
    # Without halves.
    table.write_text(f"file,weight,architecture,halves\n{plain},65536,x86_64,false\n{kernel},65536,,false\n")
    few = {
        (*key[:2], key[2] if key[0] == "" else "x86_64", *key[3:]): own
        for key, own in whole.items()
        if not key[3].startswith("first-half-")
    }
    assert 0 < len(few) < len(whole)
    assert engine(table) == few


def test_large_counts_are_exact_or_errors(tmp_path: Path) -> None:
    def table(count: int, own: int) -> Path:
        place = tmp_path / "chosen.csv"
        lines = ["file,weight,architecture,halves"]
        for number in range(2):
            row: made.Row = ("ab12", "/x", "", "sample", (None, 16, None, None), count, 0)
            said = [made.recording(f"r{number}")]
            lines.append(f"{made.shard(tmp_path / f'{number}.counts', [row], recordings=said)},{own},,true")
        place.write_text("\n".join(lines) + "\n")
        return place

    key = ("ab12", "/x", "", "sample", 16, None, None, None)
    for own in (1, 65535, 65536, 40961, weight.MOST):
        for count in (1, (1 << 69) - 1, (1 << 68) + 65537, 3 * 65536 + 32768):
            once = weight.weighted(count, own) or 0
            for engine in (duckdb, clickhouse):
                sums_ = engine(table(count, own)) if once else {key: (0, 0)}
                assert sums_ == {key: (2 * once, 0)}, (engine, count, own)
    with pytest.raises(Exception, match=r"reaches 2\^69"):
        duckdb(table(1 << 69, 65536))
    # In 76 digits; two of 38 would wrap.
    assert clickhouse(table(9 * 10**37, 65536)) == {key: (18 * 10**37, 0)}
