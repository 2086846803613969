"""Which shards of those given count, and how much?

Input: what the shards say of themselves, in any order. Output: the shards to add up, with weights, and of each of the
others why not; the same whatever the order, and what planish chooses. No recording counts twice. A shard is taken
whole or not at all. The shards with most recordings come first, so that one that is part of another comes behind it
and is left out; one that holds some recordings that count already, and some that do not, is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from planish_spark import ledger, sources, weight
from planish_spark.errors import FleetError
from planish_spark.ledger import Ledger
from planish_spark.look import VERSION, Shard
from planish_spark.recording import Description, Recording

#: The newest version that is stated of rows without architectures.
_MOST_STATED = VERSION - 1


@dataclass(frozen=True)
class Options:
    """What is asked for. Times are in seconds since 1970, lengths in seconds."""

    #: Leave out recordings that ended before.
    since: int | None = None
    #: Weigh half after each so many seconds.
    decay: int | None = None
    #: What the age is counted from.
    now: int = 0
    #: Take so many recordings of a host at most, the newest ones.
    max_per_host: int | None = None
    #: Take recordings of these hosts alone.
    host_class: str | None = None
    #: What is done with counts of different sources: ``sources.REFUSED``, ``EXECUTIONS`` or ``RAW``.
    mixing: str = sources.REFUSED
    #: What the counts of a source weigh besides, in 1/65536.
    by_source: Mapping[str, int] = field(default_factory=dict)
    #: Divide the result into so many parts.
    partitions: int = 1


@dataclass(frozen=True)
class Chosen:
    """A shard that counts, and its weight in 1/65536."""

    shard: Shard
    weight: int


@dataclass(frozen=True)
class LeftOut:
    """A shard that could be read and is not merged."""

    shard: Shard
    why: str
    #: Whether its recordings count in another one.
    duplicate: bool = False


@dataclass
class Plan:
    """What is to be merged."""

    chosen: list[Chosen] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    #: Shards that cannot be merged, and why.
    rejected: list[tuple[Shard, str]] = field(default_factory=list)
    #: Shards that say that more passed than their time and CPUs allow, and are weighed down to that.
    capped: list[Shard] = field(default_factory=list)
    #: Recordings from the future, which decay weighs as new ones.
    future: int = 0
    #: What the result says of itself, and what its recordings held.
    description: Description = field(default_factory=lambda: Description((), True))
    ledger: Ledger = field(default_factory=ledger.empty)
    #: The result's columns and version.
    version: int = 1
    paths: bool = False
    architectures: bool = False

    def of_part(self, part: int, of: int) -> Description:
        """What one of so many parts of the result says of itself."""
        return replace(self.description, of=of, parts=(part,)) if of > 1 else self.description


@dataclass
class _Counted:
    """A recording that counts: where, into how many parts that is divided, and those that count."""

    shard: Shard
    of: int
    parts: set[int]

    @property
    def whole(self) -> bool:
        return len(self.parts) == self.of


def make(given: list[tuple[Shard, int]], options: Options) -> Plan:
    """Plans for shards, each with a weight in 1/65536.

    Raises ``FleetError`` where parts of a divided result do not make a whole, counts of different sources are not to
    be mixed, or nothing is left.
    """
    plan = Plan()
    # Also the notes are the same whatever the order.
    left = sorted((Chosen(shard, own) for shard, own in given), key=_order)
    left = [one for one in left if _is_wanted(plan, one.shard, options)]
    if options.decay is not None:
        left = sorted(_decay(plan, left, options.decay, options.now), key=_order)
    left = sorted(_weigh(plan, left, options), key=_order)
    counted = _choose(plan, left)
    if options.max_per_host is not None:
        _limit(plan, options.max_per_host)
    times = [one.time for chosen in plan.chosen for one in chosen.shard.description.recordings]
    plan.future = sum(time is not None and time > options.now for time in times)
    if not plan.chosen:
        raise _nothing(plan, len(given))
    if options.mixing == sources.REFUSED:
        sources.agree([chosen.shard.description for chosen in plan.chosen])
    plan.capped = [one.shard for one in plan.chosen if sources.cap(one.shard.description) is not None]
    _describe(plan, counted, options)
    return plan


def _order(chosen: Chosen) -> tuple[Any, ...]:
    """Most recordings first, then their IDs, parts, and, of the same recordings, what tells files apart."""
    description = chosen.shard.description
    ids = [one.id for one in description.recordings]
    return (
        -len(ids),
        ids,
        (description.of, description.parts),
        chosen.shard.footer,
        chosen.weight,
        chosen.shard.path.encode("utf-8", "surrogateescape"),
    )


def _is_wanted(plan: Plan, shard: Shard, options: Options) -> bool:
    """Whether the options take a shard; notes it where they do not."""
    recordings = shard.description.recordings

    def recent(one: Recording) -> bool:
        return options.since is None or (one.time is not None and one.time >= options.since)

    def of_class(one: Recording) -> bool:
        return options.host_class is None or one.host_class == options.host_class

    tests: list[tuple[Callable[[Recording], bool], str, str]] = [
        (recent, "ended before --since, or does not say when", "--since"),
        (of_class, "is of another class of hosts, or does not say of which", "--host-class"),
    ]
    for test, why, option in tests:
        fitting = sum(map(test, recordings))
        if fitting == len(recordings):
            continue
        if fitting == 0:
            plan.left_out.append(LeftOut(shard, why))
        else:
            told = f"{option} takes {fitting} of its {len(recordings)} recordings, which are added up already"
            plan.rejected.append((shard, f"{told}; give their own shards"))
        return False
    return True


def _decay(plan: Plan, given: list[Chosen], half_life: int, now: int) -> list[Chosen]:
    """Gives each shard the weight of its age; those that have one."""
    weighed = []
    for chosen in given:
        times = [one.time for one in chosen.shard.description.recordings]
        ages = {None if time is None else weight.decayed(max(0, now - time), half_life) for time in times}
        own = ages.pop() if len(ages) == 1 else None
        if own is None:
            if None in times:
                told = "does not say when it was recorded, so that --decay cannot weigh it"
            else:
                told = "holds recordings of different ages, added up already; give their own shards to --decay"
            plan.rejected.append((chosen.shard, told))
            continue
        both = weight.times(chosen.weight, own)
        if both is None:
            plan.rejected.append((chosen.shard, "its weight exceeds 4294967295"))
            continue
        weighed.append(Chosen(chosen.shard, both))
    return weighed


def _weigh(plan: Plan, given: list[Chosen], options: Options) -> list[Chosen]:
    """Gives each shard the weight of its source; those that have one."""
    weighed = []
    for chosen in given:
        try:
            own = sources.weighed(chosen.shard.description, chosen.weight, options.mixing, options.by_source)
        except sources.NoWeight as why:
            plan.rejected.append((chosen.shard, str(why)))
        else:
            weighed.append(Chosen(chosen.shard, own))
    return weighed


def _choose(plan: Plan, given: list[Chosen]) -> dict[str, _Counted]:
    """Takes each shard whose recordings do not count yet."""
    counted: dict[str, _Counted] = {}
    for chosen in given:
        shard = chosen.shard
        own = shard.description
        covered: Shard | None = None
        clash: tuple[Shard, str] | None = None
        free = False
        for recording in own.recordings:
            other = counted.get(recording.id)
            if other is None:
                free = True
            elif other.whole or (other.of == own.of and other.parts.issuperset(own.parts)):
                covered = covered or other.shard
            elif other.of == own.of and other.parts.isdisjoint(own.parts):
                free = True
            else:
                clash = clash or (other.shard, recording.id)
        if clash is not None:
            told = f"holds the recording {clash[1]}, of which {clash[0].path} has only a part that counts already"
            plan.rejected.append((shard, f"{told}; give all parts of it, or none"))
        elif covered is not None and free:
            id_ = next(one.id for one in own.recordings if one.id in counted)
            told = f"holds the recording {id_}, which counts in {covered.path}, and others, which do not"
            plan.rejected.append((shard, f"{told}; give shards that share no recordings"))
        elif covered is not None:
            if _differs(shard, covered):
                told = f"its recordings count already, with other counts, in {covered.path}"
                plan.rejected.append((shard, f"{told}; one of the two is damaged or forged"))
            else:
                plan.left_out.append(LeftOut(shard, f"counts already, in {covered.path}", duplicate=True))
        else:
            for recording in own.recordings:
                entry = counted.setdefault(recording.id, _Counted(shard, own.of, set()))
                entry.parts.update(own.parts)
            plan.chosen.append(chosen)
    return counted


def _differs(shard: Shard, other: Shard) -> bool:
    own, theirs = shard.description, other.description
    same = len(own.recordings) == len(theirs.recordings) and (own.of, own.parts) == (theirs.of, theirs.parts)
    return same and shard.footer != other.footer and shard.pages != other.pages


def _limit(plan: Plan, most: int) -> None:
    """Leaves out shards of hosts that gave enough newer ones. Recordings that name no host are not limited."""

    def time(chosen: Chosen) -> int:
        times = (one.time for one in chosen.shard.description.recordings)
        return max((own for own in times if own is not None), default=-1)

    # Stable, so that those of one time stay in their order.
    newest = sorted(plan.chosen, key=time, reverse=True)
    # Parts of one result are of the same recordings, which count once.
    taken: dict[str, set[str]] = {}
    plan.chosen = []
    for chosen in newest:
        more: dict[str, set[str]] = {}
        for one in chosen.shard.description.recordings:
            if one.host:
                more.setdefault(one.host, set()).add(one.id)
        if any(len(taken.get(host, set()) | ids) > most for host, ids in more.items()):
            plan.left_out.append(LeftOut(chosen.shard, "its host gave as many newer ones as --max-per-host takes"))
            continue
        for host, ids in more.items():
            taken.setdefault(host, set()).update(ids)
        plan.chosen.append(chosen)
    plan.chosen.sort(key=_order)


def _nothing(plan: Plan, given: int) -> FleetError:
    first = ""
    if plan.rejected:
        shard, why = plan.rejected[0]
        first = f"; {shard.path}: {why}"
    elif plan.left_out:
        first = f"; {plan.left_out[0].shard.path}: {plan.left_out[0].why}"
    rejected, left_out = len(plan.rejected), len(plan.left_out)
    return FleetError(f"nothing to merge: of {given} files {rejected} are rejected, {left_out} left out{first}")


def _describe(plan: Plan, counted: dict[str, _Counted], options: Options) -> None:
    """What the result says of itself."""
    of, parts = _parts(plan, counted)
    # Part of a part is of neither number.
    if of > 1 and options.partitions > 1:
        raise _unfit(plan, of)
    recordings: dict[str, Recording] = {}
    halves = True
    for chosen in plan.chosen:
        shard, own = chosen.shard, chosen.shard.description
        plan.version = max(plan.version, min(shard.version, _MOST_STATED))
        plan.paths |= shard.paths
        plan.architectures |= shard.tells_architectures
        halves &= own.halves
        # The parts of a result have the ledger of the whole.
        if own.of == 1 or own.parts[0] == min(counted[own.recordings[0].id].parts):
            plan.ledger = ledger.add(plan.ledger, shard.ledger)
        for one in own.recordings:
            weighed = one if chosen.weight == weight.ONE else one.weighing(chosen.weight)
            recordings.setdefault(one.id, weighed)
    in_order = tuple(recordings[id_] for id_ in sorted(recordings))
    all_ = all(chosen.shard.description.executions for chosen in plan.chosen)
    executions = options.mixing == sources.EXECUTIONS or all_
    plan.description = Description(in_order, halves, executions, of, parts)
    if plan.architectures:
        plan.version, plan.paths = VERSION, True


def _parts(plan: Plan, counted: dict[str, _Counted]) -> tuple[int, tuple[int, ...]]:
    """The parts of all rows that the chosen shards have together."""
    found: tuple[int, set[int]] | None = None
    is_whole = False
    for chosen in plan.chosen:
        for one in chosen.shard.description.recordings:
            own = counted[one.id]
            if own.whole:
                is_whole = True
            elif found is None:
                found = own.of, own.parts
            elif found != (own.of, own.parts):
                raise _unfit(plan, own.of)
        if is_whole and found is not None:
            raise _unfit(plan, found[0])
    return (1, (0,)) if found is None else (found[0], tuple(sorted(found[1])))


def _unfit(plan: Plan, of: int) -> FleetError:
    """That parts of so many do not make a whole; names one of them."""
    one = next(chosen.shard for chosen in plan.chosen if chosen.shard.description.of == of)
    part = one.description.parts[0] + 1
    return FleetError(
        f"{one.path}: is part {part} of {of}; give all {of} parts of the same recordings, or parts of one number alone"
    )
