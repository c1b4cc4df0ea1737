"""Where the records of a batch lie, with what compaction asks of each: its key, its offset, and whether it deletes.

The records that are kept are copied as they stand, so nothing else of them is decoded: not their values, not their
headers. Runs of records of one shape are read by columns, all others one by one. Measured: see bench/compaction.py.
The plain twin is the decoder.
"""

from itertools import islice
from operator import ge
from typing import Final, NamedTuple

from .batch import InvalidRecord
from .one_by_one import signed
from .runs import SMALLEST_RECORD, WORTHWHILE, find_run

_OUT: Final = 1 << 40
_LENGTH: Final = tuple(_OUT if byte & 1 else (byte & 0x7F) >> 1 for byte in range(0x100))


class Places(NamedTuple):
    """Columns of a batch's records: where each begins, its deltas to the batch's base, its key; and the tombstones."""

    starts: list[int]
    end: int
    deltas: list[int]
    times: list[int]
    keys: list[bytes | None]
    tombstones: list[int]  # the numbers of the records without a value


def read_places(data: bytes, pos: int, end: int, count: int, last_delta: int) -> Places:
    """Find the `count` records that fill [pos, end); InvalidRecord if they do not, or do not count up."""
    found = Places([], end, [], [], [], [])
    alone = WORTHWHILE
    done = 0
    if not 0 <= count <= (end - pos) // SMALLEST_RECORD:
        raise InvalidRecord(f"{count} records are counted in {end - pos} bytes")
    while done < count:
        # Of a batch that was compacted before, the offsets have gaps; there are no runs in it to be found by counting.
        counts_up = not done or found.deltas[-1] == done - 1
        enough = (count - done) * SMALLEST_RECORD <= end - pos
        run = None
        if counts_up and enough and count - done >= WORTHWHILE:
            run = find_run(data, pos, end, done, count - done)
        if run is None:
            stop = min(done + alone, count) if counts_up else count
            pos = _one_by_one(data, pos, end, done, stop, found)
            done = stop
            alone *= 2
            continue
        found.starts.extend(range(pos, run.end, run.size))
        found.deltas.extend(range(done, done + run.length))
        found.times.extend(run.timestamps(0))
        found.keys.extend(run.keys())
        pos = run.end
        done += run.length
        alone = WORTHWHILE
    if pos != end:
        raise InvalidRecord(f"{end - pos} bytes follow the {count} records that the batch counts")
    deltas = found.deltas
    if deltas and (deltas[0] < 0 or deltas[-1] > last_delta or any(map(ge, deltas, islice(deltas, 1, None)))):
        raise InvalidRecord("the offsets of the records do not count up within their batch")
    return found


def _one_by_one(data: bytes, pos: int, end: int, first: int, stop: int, found: Places) -> int:
    starts, _, deltas, times, keys, tombstones = found
    add_start, add_delta, add_time, add_key = starts.append, deltas.append, times.append, keys.append
    length_of = _LENGTH
    try:
        for number in range(first, stop):
            add_start(pos)
            byte = data[pos]
            if byte < 0x80:
                pos += 1
                record_end = pos + length_of[byte]
            elif (next_byte := data[pos + 1]) < 0x80:
                pos += 2
                record_end = pos + length_of[byte] + (next_byte << 6)
            else:
                length, pos = signed(data, pos)
                record_end = pos + length if length >= 0 else _OUT

            byte = data[pos + 1]  # the attributes before it are unused
            if byte < 0x80:
                pos += 2
                add_time((byte >> 1) ^ -(byte & 1))
            else:
                time, pos = signed(data, pos + 1, 64)
                add_time(time)

            byte = data[pos]
            if byte < 0x80:
                pos += 1
                add_delta((byte >> 1) ^ -(byte & 1))
            else:
                delta, pos = signed(data, pos)
                add_delta(delta)

            byte = data[pos]
            if byte == 1:
                pos += 1
                add_key(None)
            else:
                if byte < 0x80:
                    at = pos + 1
                    pos = at + length_of[byte]
                else:
                    length, at = signed(data, pos)
                    pos = at + length if length >= 0 else _OUT
                add_key(data[at:pos])

            if data[pos] == 1:
                tombstones.append(number)
            if pos + 1 >= record_end:
                raise InvalidRecord(f"record {number} is not as long as it says")
            pos = record_end
    except IndexError:
        raise InvalidRecord(f"record {len(starts) - 1} is cut off, or a length in it leads out of it") from None
    if pos > end:
        raise InvalidRecord("the records lead out of their batch")
    return pos
