-- planish fleet merge, rules version 1
-- Adds up counts of many machines by the rules of docs/reference/counts-format.md, in any engine.
-- `shards` is a view that the engine makes of the shards that count: their rows, the columns that a file lacks
-- filled in, and the weight of its shard (whole 1/65536; 65536 for none) as the column `weight`.
SELECT build_id, path, architecture, kind, first, second, before, after,
       SUM(weighted) AS count, SUM(weighted_mispredicted) AS mispredicted
FROM (
  SELECT *,
    CAST((count - MOD(count, 65536)) / 65536 AS DECIMAL(38,0)) * weight
      + CAST((MOD(count, 65536) * weight + 32768 - MOD(MOD(count, 65536) * weight + 32768, 65536)) / 65536
             AS DECIMAL(38,0)) AS weighted,
    CAST((mispredicted - MOD(mispredicted, 65536)) / 65536 AS DECIMAL(38,0)) * weight
      + CAST((MOD(mispredicted, 65536) * weight + 32768 - MOD(MOD(mispredicted, 65536) * weight + 32768, 65536)) / 65536
             AS DECIMAL(38,0)) AS weighted_mispredicted
  FROM shards
) AS rows_of_shards
GROUP BY build_id, path, architecture, kind, first, second, before, after
HAVING SUM(weighted) > 0
