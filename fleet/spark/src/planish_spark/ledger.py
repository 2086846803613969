"""What did the recordings hold, used or not? The value of ``planish.ledger``: read, checked and added up."""

from __future__ import annotations

from typing import Any

#: One ledger, as planish writes it in JSON.
Ledger = dict[str, Any]

_MOST = (1 << 64) - 1
_BOOKS = ("samples", "branches", "fall_throughs", "paths")
_NUMBERS = ("lost", "unknown_records", "truncated_bytes", "missing_sections", "surplus_bytes", "out_of_order")
#: Those that older files lack.
_LATER = ("missing_sections", "surplus_bytes", "paths", "spe")
_SPE = (
    "buffers",
    "bytes",
    "records",
    "taken",
    "not_taken",
    "other_operations",
    "with_previous_target",
    "inferred_ranges",
    "incomplete",
    "damaged",
    "truncated",
    "partial",
    "collided",
)
#: Why something could not be used. planish refuses a ledger with any other reason.
REASONS = frozenset(
    {
        "unmapped",
        "no-file",
        "other-image",
        "other-process",
        "image-unavailable",
        "build-id-mismatch",
        "not-executable",
        "wrong-path",
        "duplicate-entry",
        "crosses-images",
        "backwards",
        "too-long",
        "crosses-transfer",
        "not-on-instruction",
        "no-process",
        "malformed",
    }
)


def empty() -> Ledger:
    """That of no recordings."""
    return read({name: _no_book() for name in _BOOKS[:3]} | dict.fromkeys(_NUMBERS, 0))


def read(value: object) -> Ledger:
    """A ledger out of JSON, whole.

    Raises ``ValueError`` where it is none that planish reads.
    """
    given = _object(value)
    missing = [name for name in (*_BOOKS, *_NUMBERS) if name not in given and name not in _LATER]
    if missing:
        raise ValueError(missing[0])
    ledger: Ledger = {name: _book(given.get(name, _no_book())) for name in _BOOKS}
    ledger |= {name: _number(given.get(name, 0)) for name in _NUMBERS}
    spe = _object(given.get("spe", {}))
    ledger["spe"] = {name: _number(spe.get(name, 0)) for name in _SPE}
    damage = spe.get("first_damage")
    ledger["spe"]["first_damage"] = None if damage is None else _number(damage)
    return ledger


def add(one: Ledger, other: Ledger) -> Ledger:
    """Both together; what would exceed 64 bits stays at the largest number."""
    both: Ledger = {}
    for name in _BOOKS:
        ours, theirs = one[name], other[name]
        reasons = {**ours["unused"], **theirs["unused"]}
        unused = {why: _sum(ours["unused"].get(why, 0), theirs["unused"].get(why, 0)) for why in reasons}
        # What entered is what was used or not.
        entered = _sum(ours["entered"], theirs["used"], *theirs["unused"].values())
        both[name] = {"entered": entered, "used": _sum(ours["used"], theirs["used"]), "unused": unused}
    both |= {name: _sum(one[name], other[name]) for name in _NUMBERS}
    both["spe"] = {name: _sum(one["spe"][name], other["spe"][name]) for name in _SPE}
    damages = [own for own in (one["spe"]["first_damage"], other["spe"]["first_damage"]) if own is not None]
    both["spe"]["first_damage"] = min(damages, default=None)
    return both


def _no_book() -> dict[str, Any]:
    return {"entered": 0, "used": 0, "unused": {}}


def _book(value: object) -> dict[str, Any]:
    given = _object(value)
    missing = [name for name in ("entered", "used", "unused") if name not in given]
    unused = {why: _number(count) for why, count in _object(given.get("unused")).items()}
    unknown = sorted(set(unused) - REASONS)
    if missing or unknown:
        raise ValueError((missing or unknown)[0])
    return {"entered": _number(given["entered"]), "used": _number(given["used"]), "unused": unused}


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _MOST:
        raise ValueError("no number")
    return value


def _sum(*numbers: int) -> int:
    return min(sum(numbers), _MOST)
