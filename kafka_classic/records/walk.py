"""Counting the records of an uncompressed batch by hopping over their lengths."""

from .batch import Buffer, InvalidRecord


def count_records(buf: Buffer, pos: int, end: int) -> int:
    """Count the records in [pos, end), which must be filled by them exactly; InvalidRecord if it is not."""
    count = 0
    try:
        while pos < end:
            length = buf[pos]
            if length < 0x80:
                pos += (length >> 1) + 1
            else:
                byte = buf[pos + 1]
                length = length & 0x7F | byte << 7
                if byte < 0x80:
                    pos += (length >> 1) + 2
                else:
                    byte = buf[pos + 2]
                    length = length & 0x3FFF | byte << 14
                    if byte < 0x80:
                        pos += (length >> 1) + 3
                    else:
                        byte = buf[pos + 3]
                        length = length & 0x1FFFFF | byte << 21
                        if byte < 0x80:
                            pos += (length >> 1) + 4
                        else:
                            byte = buf[pos + 4]
                            if byte > 0x0F:
                                raise InvalidRecord(f"the length of record {count} is no 32-bit varint")
                            length = length & 0xFFFFFFF | byte << 28
                            pos += (length >> 1) + 5
            if length & 1:
                raise InvalidRecord(f"record {count} has a negative length")
            count += 1
    except IndexError:
        raise InvalidRecord(f"the length of record {count} is cut off") from None
    if pos != end:
        raise InvalidRecord(f"record {count - 1} ends {pos - end} bytes after its batch")
    return count
