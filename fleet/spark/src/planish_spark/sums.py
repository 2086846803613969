"""How are the rows of the chosen shards added up? By the one SQL text, on the executors.

The text runs over a view ``shards``. If there are many shards, it runs twice: first, each key is divided by a number
of its shard, its salt, so that no task adds up a key of all shards; then over those sums with a weight of one. Whole
numbers are added, so that the result is the same, and the salt is no random number, so that a task that runs again
makes the same rows.
"""

from __future__ import annotations

from importlib import resources

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from planish_spark import weight
from planish_spark.files import escaped
from planish_spark.plan import Plan

#: Shards for each salt, and most salts.
SHARDS_OF_SALT = 1024
MOST_SALTS = 64

#: What is wrong with a shard that is another one by now.
CHANGED = "has changed since it was looked at; merge again when it is whole"

#: What stands between a build ID, which is hex, and its salt.
_MARK = "#"
#: All columns that a shard may have. Spark reads unsigned numbers of 64 bits as decimals of 20 digits.
_ROWS = """
    build_id STRING, path STRING, kind STRING, first DECIMAL(20,0), second DECIMAL(20,0), count DECIMAL(38,0),
    mispredicted DECIMAL(38,0), before DECIMAL(20,0), after DECIMAL(20,0), architecture STRING
"""
_CHOSEN = "key STRING, weight BIGINT, machine STRING, size BIGINT, modified BIGINT, salt INT"


def text() -> str:
    """The SQL text of the merge."""
    return resources.files("planish_spark").joinpath("merge.sql").read_text("utf-8")


def salts_for(shards: int) -> int:
    """How many salts so many shards get; 1 for none."""
    return min(MOST_SALTS, -(-shards // SHARDS_OF_SALT))


def settings(spark: SparkSession) -> None:
    """Sets what the text needs: an overflow is an error, and no row is left out silently."""
    spark.conf.set("spark.sql.ansi.enabled", True)
    spark.conf.set("spark.sql.decimalOperations.allowPrecisionLoss", True)
    # What footers say of the values in pages may be false, and nobody checks it.
    spark.conf.set("spark.sql.parquet.filterPushdown", False)


def add_up(spark: SparkSession, plan: Plan, salts: int) -> DataFrame:
    """The rows of the result, each key once, in any order."""
    shards = _rows(spark, plan).drop("salt") if salts < 2 else _salted(_rows(spark, plan, salts))
    sums = _merged(spark, shards)
    if salts < 2:
        return sums
    unsalted = sums.withColumn("build_id", F.substring_index("build_id", _MARK, 1))
    return _merged(spark, unsalted.withColumn("weight", F.lit(weight.ONE).cast("bigint")))


def _merged(spark: SparkSession, shards: DataFrame) -> DataFrame:
    shards.createOrReplaceTempView("shards")
    return spark.sql(text())


def _salted(rows: DataFrame) -> DataFrame:
    return rows.withColumn("build_id", F.concat("build_id", F.lit(_MARK), "salt")).drop("salt")


def _rows(spark: SparkSession, plan: Plan, salts: int = 1) -> DataFrame:
    """The rows of the chosen shards, with weights, and without those that the result does not have."""
    by_place = sorted(plan.chosen, key=lambda chosen: chosen.shard.key)
    table = [
        (
            chosen.shard.key,
            chosen.weight,
            chosen.shard.description.architecture,
            chosen.shard.size,
            chosen.shard.modified,
            number % salts,
        )
        for number, chosen in enumerate(by_place)
    ]
    chosen = F.broadcast(spark.createDataFrame(table, _CHOSEN))
    reader = spark.read.schema(_ROWS).option("recursiveFileLookup", True)
    reader = reader.option("ignoreMissingFiles", False).option("ignoreCorruptFiles", False)
    names = [escaped(url) for url in urls(plan)]
    rows = reader.parquet(*names).select(
        "*",
        F.expr("_metadata.file_path").alias("key"),
        F.expr("_metadata.file_size").alias("own_size"),
        F.expr("unix_micros(_metadata.file_modification_time)").alias("own_time"),
    )
    is_same = (F.col("size") == F.col("own_size")) & (F.col("modified") == F.col("own_time"))
    # A row without its shard would be lost silently.
    sound = F.when(is_same, F.col("weight")).otherwise(
        F.raise_error(F.concat_ws(": ", "key", F.lit(CHANGED))).cast("bigint")
    )
    joined = rows.join(chosen, "key", "left").select(
        "build_id",
        "path",
        F.coalesce("architecture", "machine", F.lit("")).alias("architecture"),
        "kind",
        "first",
        "second",
        "before",
        "after",
        "count",
        "mispredicted",
        sound.alias("weight"),
        "salt",
    )
    return joined if plan.description.halves else joined.where("kind NOT LIKE 'first-half-%'")


def urls(plan: Plan) -> list[str]:
    """The chosen shards as Hadoop knows them."""
    names = (chosen.shard.path for chosen in plan.chosen)
    return [f"file:{name}" if name.startswith("/") else name for name in names]
