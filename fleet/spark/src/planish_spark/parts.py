"""Which part of a divided result does a row belong to? FNV-1a in 64 bits over its key, folded to 32."""

from __future__ import annotations

from functools import lru_cache

_MASK = (1 << 64) - 1
_BEGIN = 0xCBF29CE484222325
_PRIME = 0x100000001B3


def part_of(
    build_id: str,
    path: str,
    architecture: str,
    kind: str,
    addresses: tuple[int | None, int | None, int | None, int | None],
    of: int,
) -> int:
    """The part of so many; ``addresses`` are before, first, second and after."""
    hash_ = _named(build_id, path, architecture, kind)
    for address in addresses:
        if address is None:
            hash_ = (hash_ * _PRIME) & _MASK
        else:
            hash_ = _bytes(hash_, b"\1" + address.to_bytes(8, "little"))
    return ((hash_ ^ (hash_ >> 32)) & 0xFFFFFFFF) % of


@lru_cache(maxsize=4096)
def _named(*texts: str) -> int:
    """The hash of what many rows have in common."""
    hash_ = _BEGIN
    for text in texts:
        hash_ = _bytes(hash_, text.encode() + b"\0")
    return hash_


def _bytes(hash_: int, data: bytes) -> int:
    for byte in data:
        hash_ = ((hash_ ^ byte) * _PRIME) & _MASK
    return hash_
