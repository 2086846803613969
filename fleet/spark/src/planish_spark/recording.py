"""What does a shard say of the recordings in it? The value of ``planish.fleet``: read, checked and written."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from planish_spark import law
from planish_spark.law import Law

#: The key of the metadata.
KEY = "planish.fleet"
#: Newest version of the value.
VERSION = 1
#: Most recordings of a shard.
MOST_RECORDINGS = 1 << 20
#: Most parts that a result is divided into.
MOST_PARTS = 4096

_MOST_ID = 128
_MOST_TEXT = 256
_TEXTS = ("id", "host", "host_class", "cpu_model", "architecture", "source", "program", "planish", "region")
_NUMBERS = {"begin": (1 << 64) - 1, "end": (1 << 64) - 1, "depth": (1 << 32) - 1, "period": (1 << 64) - 1}
_MOST_U32 = (1 << 32) - 1
_MOST_U64 = (1 << 64) - 1
#: The most CPUs that Linux knows of a machine (NR_CPUS of x86-64).
_NUMBERS["cpus"] = 8192


class Wrong(ValueError):
    """What was expected of the value, and what is there."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"expected {expected}, found {found}")


class Newer(ValueError):
    """The value is of a version that is not read here."""

    def __init__(self, found: int) -> None:
        super().__init__(
            f"says which recordings it holds in version {found}, this planish-spark reads version {VERSION}; "
            "update planish-spark"
        )


@dataclass(frozen=True)
class Recording:
    """One recording. What is unknown is empty or ``None``; times are in seconds since 1970."""

    id: str = ""
    host: str = ""
    host_class: str = ""
    cpu_model: str = ""
    architecture: str = ""
    begin: int | None = None
    end: int | None = None
    source: str = ""
    depth: int | None = None
    period: int | None = None
    law: Law | None = None
    program: str = ""
    planish: str = ""
    region: str = ""
    cpus: int | None = None
    #: How a collector made it, as it stands in the shard.
    collected: str | None = None
    weights: tuple[int, ...] = ()

    @property
    def time(self) -> int | None:
        """When it was made, as far as is known: its end, else its beginning."""
        return self.begin if self.end is None else self.end

    def weighing(self, weight: int) -> Recording:
        """With one weight more, in 1/65536."""
        return replace(self, weights=(*self.weights, weight))


@dataclass(frozen=True)
class Description:
    """What a shard says of itself."""

    #: Sorted by ID, each once.
    recordings: tuple[Recording, ...]
    #: Whether all counts are told apart by halves of the samples.
    halves: bool
    #: Whether the counts are estimates of executions, weighed by the laws of the recordings.
    executions: bool = False
    #: Into how many parts the rows are divided, and which of them are here.
    of: int = 1
    parts: tuple[int, ...] = field(default=(0,))

    @property
    def architecture(self) -> str:
        """The architecture that all recordings have; empty where they differ or do not tell."""
        own = {one.architecture for one in self.recordings}
        return own.pop() if len(own) == 1 else ""

    def text(self) -> str:
        """The value as text."""
        value: dict[str, Any] = {"version": VERSION, "halves": self.halves}
        if self.of > 1:
            value["partition"] = {"of": self.of, "parts": list(self.parts)}
        if self.executions:
            value["executions"] = True
        value["recordings"] = [_written(one) for one in self.recordings]
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _written(one: Recording) -> dict[str, Any]:
    value: dict[str, Any] = dict(vars(one))
    del value["weights"], value["law"]
    value |= {"law": vars(one.law)} if one.law else {}
    del value["collected"]
    if one.collected is not None:
        value["collected"] = json.loads(one.collected)
    if not one.region:
        del value["region"]
    if one.cpus is None:
        del value["cpus"]
    return value | ({"weights": list(one.weights)} if one.weights else {})


def load(text: str) -> Any:
    """JSON as planish reads it: keys once, numbers that are some, text that is UTF-8.

    Raises ``ValueError`` where it is none.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        read = dict(pairs)
        if len(read) != len(pairs):
            raise ValueError("a key that is there twice")
        return read

    def none(constant: str) -> Any:
        raise ValueError(f"{constant}, which is no number of JSON")

    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=none)
    except RecursionError:
        raise ValueError("values too deep in one another") from None


def read(text: str) -> Description:
    """Reads the value.

    Raises ``Newer`` where it is of a newer version, and ``Wrong`` where it is none.
    """
    try:
        value = load(text)
        if not isinstance(value, dict) or type(value.get("version")) is not int or value["version"] < 0:
            raise ValueError("no version")
        if value["version"] > VERSION:
            raise Newer(value["version"])
        if type(value.get("halves")) is not bool:
            raise ValueError("no word on halves")
        if type(value.get("executions", False)) is not bool:
            raise ValueError("`executions`, which is neither true nor false")
        if not isinstance(value.get("recordings"), list):
            raise ValueError("no list of recordings")
        recordings = tuple(_recording(one) for one in value["recordings"])
        of, parts = _partition(value.get("partition"))
    except (Newer, Wrong):
        raise
    except ValueError as error:
        raise Wrong("a description of recordings in JSON", str(error)) from None
    _check_all(recordings)
    return Description(recordings, value["halves"], value.get("executions", False), of, parts)


def _recording(value: object) -> Recording:
    if not isinstance(value, dict):
        raise ValueError("a recording that is no object")
    texts = {name: value[name] for name in _TEXTS if name in value}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise ValueError(f"`{name}`, which is no text")
        # A lone surrogate is no text either; this raises ValueError.
        text.encode()
    numbers = {name: value[name] for name in _NUMBERS if value.get(name) is not None}
    for name, number in numbers.items():
        if type(number) is not int or not 0 <= number <= _NUMBERS[name]:
            raise ValueError(f"`{name}`, which is no number from 0 to {_NUMBERS[name]}")
    weights = value.get("weights", [])
    if not isinstance(weights, list) or any(type(w) is not int or not 0 <= w <= _MOST_U64 for w in weights):
        raise ValueError("`weights`, which are no list of numbers below 2^64")
    collected = value.get("collected")
    if collected is not None and not isinstance(collected, dict):
        raise ValueError("`collected`, which is no object")
    told = None if collected is None else json.dumps(collected, ensure_ascii=False)
    return Recording(**texts, **numbers, law=law.read(value.get("law")), collected=told, weights=tuple(weights))


def _partition(value: object) -> tuple[int, tuple[int, ...]]:
    if value is None:
        return 1, (0,)
    if not isinstance(value, dict):
        raise ValueError("a partition that is no object")
    of, parts = value.get("of"), value.get("parts")
    numbers = isinstance(parts, list) and all(type(part) is int and 0 <= part <= _MOST_U32 for part in parts)
    if type(of) is not int or not 0 <= of <= _MOST_U32 or not isinstance(parts, list) or not numbers:
        raise ValueError("a partition without numbers")
    rising = all(one < next_ for one, next_ in zip(parts, parts[1:]))
    if not (2 <= of <= MOST_PARTS and parts and rising and parts[-1] < of):
        expected = f"parts in order, each below their number, 2 to {MOST_PARTS}"
        raise Wrong(expected, f"{parts[:8]} of {of}")
    return of, tuple(parts)


def _check_all(recordings: tuple[Recording, ...]) -> None:
    if not 1 <= len(recordings) <= MOST_RECORDINGS:
        raise Wrong(f"1 to {MOST_RECORDINGS} recordings", str(len(recordings)))
    for one in recordings:
        _check(one)
    for one, following in zip(recordings, recordings[1:]):
        if one.id >= following.id:
            raise Wrong("recordings by ID, each once", f"{following.id} out of order")


def _check(one: Recording) -> None:
    if not 1 <= len(one.id) <= _MOST_ID or not all("!" <= sign <= "~" for sign in one.id):
        raise Wrong(f"an ID of 1 to {_MOST_ID} printable ASCII characters", f"`{one.id[:_MOST_ID]}`")
    long = [len(text.encode()) for text in (getattr(one, name) for name in _TEXTS[1:])]
    if max(long) > _MOST_TEXT:
        raise Wrong(f"texts of at most {_MOST_TEXT} bytes", f"one of {max(long)} in recording {one.id}")
    if one.begin is not None and one.end is not None and one.begin > one.end:
        raise Wrong("a begin before the end", f"{one.begin} and {one.end} in recording {one.id}")
