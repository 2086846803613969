"""How much does a count weigh? A fixed-point number with 32 bits before and 16 behind the point.

All of it in whole numbers, so that every engine gets the same sums.
"""

from __future__ import annotations

import re
from math import isqrt

#: Bits behind the point.
BITS = 16
#: The weight that changes nothing, in 1/65536.
ONE = 1 << BITS
#: The largest weight, in 1/65536.
MOST = (1 << 48) - 1
#: A product of a count and a weight stays below this.
MOST_PRODUCT = 1 << 128

_FINE = 62
_DIGITS = 32
_DECIMAL = re.compile(r"([0-9]+)(?:\.([0-9]{1,18}))?", re.ASCII)


def weighted(count: int, weight: int) -> int | None:
    """A count with a weight in 1/65536, rounded; ``None`` where 128 bits do not suffice."""
    product = count * weight + (1 << (BITS - 1))
    return product >> BITS if product < MOST_PRODUCT else None


def times(one: int, other: int) -> int | None:
    """Two weights together, rounded as a count is; ``None`` where they exceed the largest weight."""
    both = weighted(one, other)
    return both if both is not None and both <= MOST else None


def decayed(age: int, half_life: int) -> int:
    """What is left at an age, both in seconds, in 1/65536: 2^(-age / half-life), in whole numbers alone."""
    whole, left = divmod(age, half_life)
    if whole > BITS + 1:
        return 0
    weight = 1 << _FINE
    root = isqrt(1 << (2 * _FINE - 1))
    for _ in range(_DIGITS):
        left *= 2
        if left >= half_life:
            left -= half_life
            weight = (weight * root) >> _FINE
        root = isqrt(root << _FINE)
    shift = _FINE - BITS + whole
    return (weight + (1 << (shift - 1))) >> shift


def read(text: str) -> int | None:
    """A decimal number from 0 to 65535, rounded to the nearest 1/65536; ``None`` where it is none."""
    found = _DECIMAL.fullmatch(text)
    if found is None or int(found[1]) > 65535:
        return None
    behind = found[2] or "0"
    scale = 10 ** len(behind)
    bits = (int(found[1]) << BITS) + ((int(behind) << (BITS + 1)) + scale) // (2 * scale)
    return bits if bits < 1 << 32 else None
