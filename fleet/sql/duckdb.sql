-- The view `shards` of merge.sql for DuckDB (1.2 or newer). Say before it which shards count:
--   SET VARIABLE chosen = 'chosen.csv';     -- written by planish-spark choose: file, weight, architecture, halves
-- DuckDB divides in floating point, which is exact for counts of a row below 2^69; larger ones are errors.
SET VARIABLE files = (SELECT list(file) FROM read_csv(getvariable('chosen'), header = true, all_varchar = true));
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
       first, second, before, after,
       CASE WHEN count < 590295810358705651712 THEN count ELSE error('a count of ' || file || ' reaches 2^69') END
         AS count,
       mispredicted, weight
FROM rows_of_files JOIN chosen ON chosen.file = rows_of_files.filename
WHERE halves OR NOT starts_with(kind, 'first-half-');
