-- The view `shards` of merge.sql for DuckDB (1.2 or newer). Before it, name the shards that count:
--   SET VARIABLE chosen = 'chosen.csv';     -- made by planish-spark choose: file, weight, architecture, halves
SET VARIABLE files = (SELECT list(file) FROM read_csv(getvariable('chosen'), all_varchar = true));
CREATE OR REPLACE TEMP VIEW shards AS
WITH chosen AS (
  SELECT * FROM read_csv(getvariable('chosen'), header = true, columns = {
    'file': 'VARCHAR', 'weight': 'BIGINT', 'architecture': 'VARCHAR', 'halves': 'BOOLEAN'})
), rows_of_files AS (
  -- What no file has is null.
  SELECT NULL::UBIGINT AS before, NULL::UBIGINT AS after, NULL::VARCHAR AS architecture WHERE false
  UNION ALL BY NAME
  SELECT * FROM read_parquet(getvariable('files'), union_by_name = true, filename = true)
)
SELECT build_id, path, COALESCE(rows_of_files.architecture, chosen.architecture, '') AS architecture, kind,
       first, second, before, after, count, mispredicted, weight
FROM rows_of_files JOIN chosen ON chosen.file = rows_of_files.filename
WHERE halves OR NOT starts_with(kind, 'first-half-');
