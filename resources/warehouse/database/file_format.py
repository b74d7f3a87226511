"""What is known here of the bytes of a DuckDB file: headers, then blocks of equal length, each with a checksum."""

from __future__ import annotations

import functools
import operator
import struct
from typing import Final

#: DuckDB's three headers, and the size of its blocks behind them.
HEADER_BYTES: Final = 3 * 4096
BLOCK_BYTES: Final = 256 * 1024

_CHECKSUM_BYTES: Final = 8
_SEED: Final = 5381
_FACTOR: Final = 0xBF58476D1CE4E5B9
_WORD: Final = (1 << 64) - 1


def checksum(block: bytes) -> int:
    """The checksum of a block, of all bytes behind the place where it is kept: its words, each multiplied, by exclusive or.

    The order of the words makes no difference to it.
    """
    words = struct.iter_unpack("<Q", memoryview(block)[_CHECKSUM_BYTES:])
    return functools.reduce(operator.xor, (word * _FACTOR & _WORD for (word,) in words), _SEED)
