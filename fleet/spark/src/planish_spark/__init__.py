"""Counts of many machines to one counts file, on Apache Spark.

By the rules of planish's ``docs/reference/counts-format.md``: the result of ``planish fleet merge`` over the same
shards, whichever of the two adds them up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planish_spark.plan import Options

if TYPE_CHECKING:
    from planish_spark.job import choose, merge

__all__ = ["Options", "choose", "merge"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Spark is looked for only where it is used: the command says what to do if it is not there.
    if name in ("choose", "merge"):
        from planish_spark import job

        return getattr(job, name)
    raise AttributeError(name)
