"""Is what a counts file says of itself what was written? A checksum over its keys and values."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from planish_spark.errors import malformed

#: The key of the checksum.
KEY = "planish.metadata.crc32"
#: What all keys that it covers begin with.
_OURS = "planish."


def checksum(pairs: Mapping[str, str]) -> str:
    """CRC-32, in eight hex digits, of planish's keys and values in the order of the keys, each with a zero byte behind it."""
    own = sorted((key, value) for key, value in pairs.items() if key.startswith(_OURS) and key != KEY)
    return f"{zlib.crc32(b''.join(text.encode() + bytes(1) for pair in own for text in pair)):08x}"


def check(path: str, pairs: Mapping[str, str]) -> None:
    """Refuses other keys and values than those that were written. Not all writers have the checksum."""
    if (stated := pairs.get(KEY)) is None or stated == (found := checksum(pairs)):
        return
    expected = f"those of the checksum {stated}; take {KEY} away where you changed them"
    raise malformed(path, "metadata", expected, f"others, of {found}: damaged")
