"""A program that appends numbered batches until it is killed, and says on its output what was acknowledged.

`python -P writer.py FOLDER SEED RECOVERY_POINT START CLASSIC`. Lines: `a NUMBER OFFSET` when all up to NUMBER is
committed and the log ends at OFFSET; `f OFFSET` when all below OFFSET is flushed. What a number's value is, and with
it what the reader must find, is said by `value_of`.
"""

import os
import random
import sys
from pathlib import Path

from kafka_classic.log.config import LogConfig
from kafka_classic.log.log import Log
from kafka_classic.records.batch import check_batch
from kafka_classic.records.codecs import Codec
from kafka_classic.records.encode import encode_batch


def config_of(classic: bool) -> LogConfig:
    return LogConfig(segment_bytes=30_000, index_interval_bytes=500, retention_ms=-1, classic=classic)


def value_of(number: int) -> bytes:
    """Small values mostly, now and then one that is written past the tail."""
    rng = random.Random(number)
    size = rng.choice([5, 50, 300, 2000]) if number % 97 else 70_000
    return b"%d:" % number + rng.randbytes(size)


def main() -> None:
    folder, seed, point, number, classic = Path(sys.argv[1]), *map(int, sys.argv[2:6])
    # A killed process loses nothing that it has written, so waiting for the disk would only make the test slower.
    os.fsync = os.fdatasync = lambda fd: None
    rng = random.Random(seed)
    log = Log.open(folder, config_of(bool(classic)), recovery_point=point)
    while True:
        for _ in range(rng.randrange(1, 6)):
            values = [value_of(n) for n in range(number, number + rng.randrange(1, 4))]
            codec = rng.choice(list(Codec))
            one = bytearray(encode_batch([(None, value, (), 1000 + number) for value in values], codec))
            log.stage(one, check_batch(one), 0)
            number += len(values)
        log.commit()
        os.write(1, b"a %d %d\n" % (number - 1, log.end_offset))
        if rng.random() < 0.15:
            log.flush()
            os.write(1, b"f %d\n" % log.recovery_point)


if __name__ == "__main__":
    main()
