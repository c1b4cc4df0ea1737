"""A broker whose fetch path reads and writes where ours calls sendfile (P10), to see what that call is worth.

Takes the size of a piece, then the arguments of `kafka-classic`. Nothing else differs: the same handler, event loop and
response.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def copying(piece: int) -> Callable[[int, int, int, int], int]:
    """What sendfile does, by four copies and two calls: as much of a piece as the socket takes."""

    def copy(out: int, file: int, offset: int, count: int) -> int:
        return os.write(out, os.pread(file, min(count, piece), offset))

    return copy


if __name__ == "__main__":
    os.sendfile = copying(int(sys.argv.pop(1)))  # type: ignore[assignment]  # before the broker is imported

    from kafka_classic.cli.main import main

    main()
