"""Counts of many machines to one counts file, on Apache Spark.

By the rules of planish's ``docs/reference/counts-format.md``: the result of ``planish fleet merge`` over the same
shards, whichever of the two adds them up.
"""

from planish_spark.job import merge
from planish_spark.plan import Options

__all__ = ["Options", "merge"]
__version__ = "0.1.0"
