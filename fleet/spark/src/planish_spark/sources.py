"""Are the counts of the chosen shards of one kind, and what does each weigh if they are not?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from planish_spark import weight
from planish_spark.errors import FleetError
from planish_spark.recording import Description, Recording

#: What merging does with counts of different sources: it refuses to add them, weighs each by its law, so that the
#: result counts executions, or adds them as they are.
REFUSED, EXECUTIONS, RAW = "refused", "executions", "raw"


class NoWeight(Exception):
    """Why a shard cannot be weighed."""


def kinds(description: Description) -> list[str]:
    """How the counts of a shard came about: the sources of its recordings, or that they are executions."""
    if description.executions:
        return ["executions"]
    return sorted({one.source for one in description.recordings})


def agree(descriptions: Sequence[Description]) -> None:
    """Raises ``FleetError`` where the sources differ. What does not say its source is not looked at."""
    found = Counter(kind for description in descriptions for kind in kinds(description))
    if sum(1 for source in found if source) < 2:
        return
    named = ", ".join(f"{source or 'unknown'} ({found[source]})" for source in sorted(found))
    raise FleetError(
        "the shards are of different sources, whose counts stand for different numbers of executions: "
        f"{named}; --executions weighs each by what its samples stand for, --raw adds them as they are"
    )


def weighed(description: Description, own: int, mixing: str, by_source: Mapping[str, int]) -> int:
    """The weight of a shard with what its source weighs, in 1/65536; ``own`` is its weight without.

    Raises ``NoWeight`` where there is none.
    """
    law = _of_law(description) if mixing == EXECUTIONS else weight.ONE
    kind = kinds(description)
    trust = by_source.get(kind[0], weight.ONE) if len(kind) == 1 else weight.ONE
    both = weight.times(law, trust)
    most = cap(description)
    if both is not None and most is not None:
        both = weight.times(both, most)
    all_ = None if both is None else weight.times(own, both)
    if all_ is None:
        raise NoWeight("its weight exceeds 4294967295")
    return all_


def cap(description: Description) -> int | None:
    """The weight that caps a recording which says that more passed than its time and its CPUs allow."""
    if len(description.recordings) > 1 or description.recordings[0].weights:
        return None
    one = description.recordings[0]
    if one.law is None or one.begin is None or one.end is None or one.cpus is None:
        return None
    return one.law.cap(one.end - one.begin, one.cpus)


def claimed(description: Description, entered: int) -> int | None:
    """What the rows of a shard may add up to, where its recordings say what they had.

    ``entered`` are the samples, or branches, of its ledger.
    """
    recordings = description.recordings
    if description.executions or any(one.weights for one in recordings):
        return None
    if all(one.law is not None for one in recordings):
        return sum(one.law.counts for one in recordings if one.law is not None)
    return entered if entered > 0 and all(one.source for one in recordings) else None


def _of_law(description: Description) -> int:
    """The weight that makes executions of the counts of a shard."""
    recordings = description.recordings
    if description.executions:
        return weight.ONE
    if len({one.source for one in recordings}) > 1:
        raise NoWeight("its recordings are of different sources, added up already; give their own shards")
    if any(one.weights for one in recordings):
        raise NoWeight("it was weighed already, but not to executions; give its recordings' own shards")
    bits = _together(recordings)
    if bits is None:
        raise NoWeight("a count of it stands for no execution, or for more than 4294967295; is its law right?")
    return bits


def _together(recordings: Sequence[Recording]) -> int | None:
    sum_ = recordings[0].law
    for one in recordings[1:]:
        sum_ = sum_.added(one.law) if sum_ is not None and one.law is not None else None
    if sum_ is None:
        raise NoWeight(
            "it does not say how many executions a count stands for (law); make it with planish fleet "
            "shard from a recording that states its period, or add counts as they are with --raw"
        )
    return sum_.weight
