"""What can stop a merge, and what is wrong with one shard."""

from __future__ import annotations


class FleetError(Exception):
    """Nothing is written; the message says why and what to do."""


class BadShard(Exception):
    """One shard cannot be read or is damaged; the others may be merged without it.

    The message names the shard.
    """


def malformed(path: str, place: str, expected: str, found: str) -> BadShard:
    """A place of a file that holds something else than a counts file has there."""
    return BadShard(f"{path}: {place}: expected {expected}, found {found}")
