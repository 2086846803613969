"""Which of the files that were given are merged? What is the same wherever they are looked at, and by whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planish_spark import plan as planned
from planish_spark import weight
from planish_spark.errors import FleetError
from planish_spark.look import Shard, no_counts
from planish_spark.plan import Options, Plan

#: Most bytes of a shard, unless more are asked for: a task holds one in memory.
MOST_BYTES = 256 << 20

#: A file that cannot be merged: its name, and why.
Rejected = tuple[str, str]


@dataclass(frozen=True)
class Found:
    """A file that an input names."""

    #: As users know it: a plain path where it is a local file, else its URL.
    name: str
    #: As Hadoop knows it.
    url: str
    #: Its bytes; ``None`` where there is no such file.
    size: int | None

    def unreadable(self, most_bytes: int) -> str | None:
        """Why it is not even looked at, if it is not."""
        if self.size is None:
            return f"{self.name}: no such file"
        if self.size == 0:
            return str(no_counts(self.name))
        if self.size > most_bytes:
            return (
                f"{self.name}: has {self.size} bytes, and a task would hold them in memory; give --max-shard "
                f"{-(-self.size >> 20)} if there is several times that"
            )
        return None


#: A file with the weight of its input, in 1/65536.
WithWeight = tuple[Found, int]


@dataclass(frozen=True)
class Choice:
    """What became of the files that were given."""

    plan: Plan
    #: Files given.
    files: int
    #: Those that cannot be read or merged.
    rejected: tuple[Rejected, ...]


@dataclass(frozen=True)
class Written:
    """A file that was made."""

    url: str
    rows: int


@dataclass(frozen=True)
class Merged(Choice):
    """What a merge did."""

    rows_read: int
    written: tuple[Written, ...]

    @property
    def rows_written(self) -> int:
        """Rows of the result, in all its parts."""
        return sum(one.rows for one in self.written)


@dataclass
class Given:
    """The shards that can be merged, each with a weight, and the files that cannot."""

    files: int
    shards: list[tuple[Shard, int]]
    rejected: list[Rejected]
    #: Whether one file that cannot be merged is an error.
    strict: bool

    @staticmethod
    def of(found: list[WithWeight], shards: dict[str, Shard], rejected: list[Rejected], strict: bool) -> Given:
        """What is known of files that were looked at; the shards are by their name."""
        given = [(shards[file.name], own) for file, own in found if file.name in shards]
        return Given(len(found), given, rejected, strict)

    def choose(self, options: Options) -> Choice:
        """Which of them count.

        Raises ``FleetError`` if there are none, or, where that is asked for, if one cannot be merged.
        """
        while True:
            if self.rejected and self.strict:
                raise FleetError(self.rejected[0][1])
            if not self.shards and self.rejected:
                raise FleetError(f"nothing to merge: of {self.files} files none can be; {self.rejected[0][1]}")
            plan = planned.make(self.shards, options)
            if plan.rejected and self.strict:
                shard, why = plan.rejected[0]
                raise FleetError(f"{shard.path}: {why}")
            if not any(chosen.shard.fault for chosen in plan.chosen):
                told = [*self.rejected, *((shard.path, why) for shard, why in plan.rejected)]
                return Choice(plan, self.files, tuple(told))
            # Without the bad ones, others may count.
            self.rejected += [(shard.path, shard.fault) for shard, _ in self.shards if shard.fault]
            self.shards = [one for one in self.shards if not one[0].fault]

    def reject(self, shard: Shard, why: str) -> None:
        """Leaves out a shard that turned out bad."""
        self.rejected.append((shard.path, why))
        self.shards = [one for one in self.shards if one[0] is not shard]


def expanded(
    expand: Callable[[str], list[Found]], inputs: Sequence[str], weights: Sequence[int]
) -> list[WithWeight]:
    """The files that the inputs name, each once, with their weights: one for each input, or none."""
    if weights and len(weights) != len(inputs):
        raise FleetError(
            f"the number of --weight is {len(weights)} and that of inputs is {len(inputs)}: give one weight for "
            "each, in the same order"
        )
    found: dict[str, WithWeight] = {}
    for url, own in zip(inputs, weights or [weight.ONE] * len(inputs)):
        for file in expand(url):
            found.setdefault(file.name, (file, own))
    return list(found.values())
