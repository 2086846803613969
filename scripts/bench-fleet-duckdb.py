"""Adds up the shards of a directory with DuckDB: scripts/bench-fleet-duckdb.py DIR OUT THREADS sql|bare

`sql` is the text of fleet/sql/merge.sql, with the rows in the order of a shard; `bare` only adds up counts, without weights
and without an order.
"""

import pathlib
import sys

import duckdb

folder, out, threads, kind = sys.argv[1:]
files = f"read_parquet('{folder}/*.counts', union_by_name = true)"
connection = duckdb.connect()
connection.execute(f"SET threads = {int(threads)}")
columns = {row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {files}").fetchall()}
absent = {
    "before": "NULL::UBIGINT AS before",
    "after": "NULL::UBIGINT AS after",
    "architecture": "'' AS architecture",
}
more = "".join(f", {text}" for name, text in absent.items() if name not in columns)
connection.execute(f"CREATE VIEW shards AS SELECT *{more}, 65536::BIGINT AS weight FROM {files}")
if kind == "sql":
    text = (pathlib.Path(__file__).parent.parent / "fleet/sql/merge.sql").read_text()
    order = "build_id, path, architecture, kind, before NULLS FIRST, first NULLS FIRST, second NULLS FIRST, after NULLS FIRST"
    query = f"SELECT * FROM ({text}) ORDER BY {order}"
else:
    keys = "build_id, path, architecture, kind, first, second, before, after"
    query = f"SELECT {keys}, SUM(count) AS count, SUM(mispredicted) AS mispredicted FROM shards GROUP BY {keys}"
connection.execute(f"COPY ({query}) TO '{out}' (FORMAT PARQUET, COMPRESSION ZSTD)")
