-- The view `shards` of merge.sql for ClickHouse (24.8 or newer). Put a pattern that fits all shards in place of FILES,
-- as /spool/**/*.counts, and in place of CHOSEN the table that planish-spark choose wrote: the shards that count, with
-- their weights. Other files are not opened.
-- ClickHouse adds up decimals of 38 digits without a look at overflow; with weights of 76 digits, so are the sums, which
-- then hold any count. Counts of 10^38 and more are too large for a shard.
CREATE OR REPLACE VIEW shards AS
SELECT build_id, path, coalesce(counted.architecture, chosen.architecture) AS architecture, kind,
       first, second, before, after, count, mispredicted, CAST(chosen.weight AS Decimal(76, 0)) AS weight
FROM (
  SELECT *, _path AS file FROM file('FILES', Parquet,
    'build_id String, path String, kind String, first Nullable(UInt64), second Nullable(UInt64),
     count Decimal(38, 0), mispredicted Decimal(38, 0), before Nullable(UInt64), after Nullable(UInt64),
     architecture Nullable(String)')
  WHERE _path IN (SELECT file FROM file('CHOSEN', CSVWithNames, 'file String'))
) AS counted
JOIN file('CHOSEN', CSVWithNames, 'file String, weight Int64, architecture String, halves Bool') AS chosen
  ON chosen.file = counted.file
WHERE chosen.halves OR NOT startsWith(kind, 'first-half-');
