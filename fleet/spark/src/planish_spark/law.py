"""How many executions does one count of a recording stand for? Its sampling law."""

from __future__ import annotations

from dataclasses import dataclass

from planish_spark import weight

#: What the period of a sampler counts, and branches for each, as a fraction.
UNITS = {"executions": (1, 1), "branches": (1, 1), "ns": (3, 8), "cycles": (1, 8)}

#: Longest time that a recording is believed.
_MOST_SECONDS = 31 * 86_400
_MOST = (1 << 64) - 1


@dataclass(frozen=True)
class Law:
    """What the samples of a recording stand for together, and what they left."""

    #: What is counted, one of ``UNITS``.
    unit: str
    #: So many of it passed: the samples times the period.
    events: int
    #: Entries of branch stacks that were recorded, or samples where there were none.
    counts: int

    @property
    def weight(self) -> int | None:
        """Executions for each count, in 1/65536; ``None`` where there are no counts, or it is too large."""
        p, q = UNITS[self.unit]
        counts = self.counts * q
        twice = self.events * p << 17
        if counts == 0:
            return None
        bits = (twice + counts) // (2 * counts)
        return bits if bits <= weight.MOST else None

    def cap(self, seconds: int, cpus: int) -> int | None:
        """The part of what passed that can have passed in so many seconds on so many CPUs, in 1/65536.

        ``None`` where all of it can. Nobody records for more than 31 days.
        """
        if self.unit == "executions":
            return None
        allowed = (min(seconds, _MOST_SECONDS) + 1) * cpus * 1_000_000_000 * (1 if self.unit == "ns" else 8)
        return (allowed << 16) // self.events if self.events > allowed else None

    def added(self, other: Law) -> Law | None:
        """That of both recordings together, where both are of one unit."""
        events, counts = self.events + other.events, self.counts + other.counts
        if self.unit != other.unit or max(events, counts) > _MOST:
            return None
        return Law(self.unit, events, counts)


def read(value: object) -> Law | None:
    """A law out of JSON.

    Raises ``ValueError`` where it is none.
    """
    if value is None:
        return None
    if not isinstance(value, dict) or value.get("unit") not in UNITS:
        raise ValueError("`law` without a known unit")
    numbers = [value.get("events"), value.get("counts")]
    if any(type(number) is not int or not 0 <= number <= _MOST for number in numbers):
        raise ValueError("`law` without numbers of events and counts")
    return Law(value["unit"], value["events"], value["counts"])
