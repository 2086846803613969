"""Which second is meant, and how long a time? As users write both; in UTC alone."""

from __future__ import annotations

import re
from datetime import datetime, timezone

_MOST = (1 << 64) - 1
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_TIME = re.compile(
    r"([0-9]{1,4})-([0-9]{1,4})-([0-9]{1,4})(?:[T ]([0-9]{1,4}):([0-9]{1,4})(?::([0-9]{1,4}))?)?Z?", re.ASCII
)
_LENGTH = re.compile(r"([0-9]{1,20})([smhdw]?)", re.ASCII)


def second(text: str) -> int | None:
    """Seconds since 1970 of ``1790000000``, ``2026-11-26`` or ``2026-11-26T17:40:00``, with or without ``Z``."""
    if re.fullmatch("[0-9]{1,20}", text, re.ASCII):
        return int(text) if int(text) <= _MOST else None
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, last = (int(part or 0) for part in found.groups())
    if year < 1970:
        return None
    try:
        return int(datetime(year, month, day, hour, minute, last, tzinfo=timezone.utc).timestamp())
    except ValueError:
        return None


def seconds(text: str) -> int | None:
    """Seconds of ``90``, ``90s``, ``15m``, ``12h``, ``7d`` or ``2w``."""
    found = _LENGTH.fullmatch(text)
    if found is None:
        return None
    length = int(found[1]) * _SECONDS[found[2]]
    return length if length <= _MOST else None
