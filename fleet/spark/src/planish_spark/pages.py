"""What does a Parquet file unpack to? Asked before a library believes what the file says of itself.

A page's header states what the page unpacks to, in at most 31 bits, and readers allocate that much. So the headers of
all pages are walked, from one to the next, and a file whose pages unpack to more than an honest file's is refused.
No two columns share a byte, so the time is linear in the size of the file. Layout: ``PageHeader`` of parquet.thrift,
in Thrift's compact protocol.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from planish_spark.errors import BadShard, malformed
from planish_spark.rows import COLUMNS

#: Most that one page may unpack to, in bytes, and the pages of one column of a row group.
MOST_OF_PAGE = 64 << 20
MOST_OF_CHUNK = 256 << 20
#: Most that all pages of a file may unpack to: so many bytes, or so many for each byte of the file.
MOST_OF_FILE = 512 << 20
MOST_OF_BYTE = 64

_BOMB = "a decompression bomb; aggregate the recording again"
#: Thrift structures within one another; Parquet's have four.
_MOST_DEEP = 16
#: PLAIN, PLAIN_DICTIONARY, RLE and RLE_DICTIONARY. Others repeat what they once said, as often as they want.
_ENCODINGS = (0, 2, 3, 8)
_CODECS = ("ZSTD", "UNCOMPRESSED")


#: What numbers of a header are found by: the fields that they are in.
_Numbers = dict[tuple[int, ...], int]
_UNPACKED, _PACKED, _CHECKSUM = (2,), (3,), (4,)


class _Broken(ValueError):
    """Bytes that are no page header."""


def check(path: str, data: memoryview, metadata: Any) -> None:
    """Refuses a file whose pages unpack to too much; ``metadata`` is pyarrow's ``FileMetaData`` of it.

    Raises ``BadShard`` with the page's offset and what it states.
    """
    packed, unpacked = len(data), max(MOST_OF_FILE, len(data) * MOST_OF_BYTE)
    for chunk in _chunks(path, data, metadata):
        packed -= chunk.end - chunk.start
        if packed < 0:
            raise chunk.wrong(
                chunk.start, "columns that share no bytes", f"more than {len(data)} bytes of columns"
            )
        unpacked -= chunk.walk(data, unpacked)


def check_sums(path: str, data: memoryview, metadata: Any) -> None:
    """Refuses a file of which a page is not the one that was written. Not all writers say what to check it by.

    Raises ``BadShard`` with the page's offset. The file must have passed ``check``.
    """
    for chunk in _chunks(path, data, metadata):
        for at, numbers, behind in chunk.headers(data):
            if (stated := numbers.get(_CHECKSUM)) is None:
                continue
            stated &= 0xFFFFFFFF
            found = zlib.crc32(data[behind : behind + numbers[_PACKED]])
            if found != stated:
                raise chunk.wrong(at, f"a page of the checksum {stated:08x}", f"one of {found:08x}: damaged")


def _chunks(path: str, data: memoryview, metadata: Any) -> Iterator[_Chunk]:
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for number in range(row_group.num_columns):
            # By its place, since the name that a file gives it may be no text.
            name = COLUMNS[number] if number < len(COLUMNS) else str(number + 1)
            yield _Chunk.of(path, f"row group {group + 1}, column {name}", row_group.column(number), len(data))


@dataclass(frozen=True)
class _Chunk:
    """A column of a row group."""

    path: str
    name: str
    start: int
    end: int

    @staticmethod
    def of(path: str, name: str, column: Any, size: int) -> _Chunk:
        starts = (column.dictionary_page_offset, column.data_page_offset)
        start = next(int(at) for at in starts if at is not None)
        bytes_ = int(column.total_compressed_size)
        chunk = _Chunk(path, name, start, start + bytes_)
        if column.compression not in _CODECS:
            found = f"the codec {column.compression}; write it again with zstd"
            raise chunk.wrong(start, "pages packed with zstd, or not at all", found)
        if start < 0 or bytes_ < 0 or chunk.end > size:
            found = f"one of {bytes_} bytes at offset {start}"
            raise chunk.wrong(start, f"a column within the {size} bytes of the file", found)
        return chunk

    def wrong(self, at: int, expected: str, found: str) -> BadShard:
        return malformed(self.path, f"{self.name}, offset {at}", expected, found)

    def walk(self, data: memoryview, budget: int) -> int:
        """The bytes that the pages unpack to."""
        sum_ = 0
        for at, numbers, _ in self.headers(data):
            unpacked = numbers[_UNPACKED]
            most = min(MOST_OF_CHUNK, budget) - sum_
            if unpacked > most:
                found = f"a page that states {unpacked} more: {_BOMB}"
                raise self.wrong(at, f"at most {most} bytes more, unpacked", found)
            sum_ += unpacked
        return sum_

    def headers(self, data: memoryview) -> Iterator[tuple[int, _Numbers, int]]:
        """Where each page's header begins, the numbers in it, and where the page itself begins."""
        at = self.start
        while at < self.end:
            numbers: _Numbers = {}
            try:
                behind = _struct(data[: self.end], at, (), numbers.setdefault)
            except _Broken as error:
                raise self.wrong(at, "the header of a page", str(error)) from None
            packed, unpacked = numbers.get(_PACKED, -1), numbers.get(_UNPACKED, -1)
            self._page(at, numbers, packed, unpacked, self.end - behind)
            yield at, numbers, behind
            at = behind + packed

    def _page(self, at: int, numbers: _Numbers, packed: int, unpacked: int, left: int) -> None:
        if packed < 0 or unpacked < 0:
            raise self.wrong(at, "sizes of a page, packed and unpacked", f"{packed} and {unpacked}")
        if packed > left:
            raise self.wrong(at, f"a page of at most {left} bytes", f"one of {packed} bytes")
        if unpacked > MOST_OF_PAGE:
            found = f"one of {packed} bytes that states {unpacked}: {_BOMB}"
            raise self.wrong(at, f"a page that unpacks to at most {MOST_OF_PAGE >> 20} MiB", found)
        # Of the page's own header, of which there are three kinds.
        encodings = [numbers[field] for field in ((5, 2), (7, 2), (8, 4)) if field in numbers]
        if len(encodings) > 1:
            raise self.wrong(at, "the header of a page", "headers of two kinds of pages")
        if encodings and encodings[0] not in _ENCODINGS:
            found = f"encoding {encodings[0]} of Parquet; write it again without"
            raise self.wrong(at, "values in a plain encoding or of a dictionary", found)
        # The shortest value is an empty string, which has its length in four bytes.
        values = numbers.get((7, 1), 0)
        if values > unpacked // 4:
            raise self.wrong(at, f"a dictionary within {unpacked} bytes", f"one of {values} values")


#: Hears of a field's number, with those of the structures that it is in, and its value.
_See = Callable[[tuple[int, ...], int], object]


def _struct(data: memoryview, at: int, within: tuple[int, ...], see: _See) -> int:
    """Reads a structure; the offset behind it."""
    if len(within) > _MOST_DEEP:
        raise _Broken("structures too deep in one another")
    field = 0
    while True:
        head, at = _byte(data, at)
        if head == 0:
            return at
        if head >> 4:
            field += head >> 4
        else:
            field, at = _zigzag(data, at)
        at = _value(data, at, head & 15, (*within, field), see)


def _value(data: memoryview, at: int, kind: int, within: tuple[int, ...], see: _See) -> int:
    """Reads a value of a kind; the offset behind it."""
    if kind in (1, 2):  # a truth value, which stands in the kind
        return at
    if kind == 3:
        return _byte(data, at)[1]
    if kind in (4, 5, 6):
        number, at = _zigzag(data, at)
        see(within, number)
        return at
    if kind == 7:
        return _skip(data, at, 8)
    if kind == 8:
        length, at = _varint(data, at)
        return _skip(data, at, length)
    if kind in (9, 10):
        return _list(data, at, within)
    if kind == 12:
        return _struct(data, at, within, see)
    raise _Broken(f"a value of the kind {kind} at offset {at}")


def _list(data: memoryview, at: int, within: tuple[int, ...]) -> int:
    head, at = _byte(data, at)
    length = head >> 4
    if length == 15:
        length, at = _varint(data, at)
    # In a list, a truth value takes a byte.
    kind = 3 if head & 15 in (1, 2) else head & 15
    if length > len(data) - at:
        raise _Broken(f"a list of {length} values at offset {at}")
    for _ in range(length):
        at = _value(data, at, kind, (*within, 0), lambda *_: None)
    return at


def _byte(data: memoryview, at: int) -> tuple[int, int]:
    if at >= len(data):
        raise _Broken("the end of the column")
    return data[at], at + 1


def _skip(data: memoryview, at: int, length: int) -> int:
    if length > len(data) - at:
        raise _Broken("the end of the column")
    return at + length


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte, at = _byte(data, at)
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise _Broken(f"a number of more than 64 bits at offset {at}")


def _zigzag(data: memoryview, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at
