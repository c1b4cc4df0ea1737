"""What a consumer subscribes to, read from the metadata with which it joins (Kafka's ConsumerProtocolSubscription)."""

from __future__ import annotations

import struct

CONSUMER = "consumer"  # the protocol type of groups whose metadata this is


def topics_of(metadata: bytes) -> frozenset[str] | None:
    """The topics it names, of any version; None if it is something else."""
    try:
        version, count = struct.unpack_from(">hi", metadata)
        if version < 0 or not 0 <= count <= len(metadata):
            return None
        at = 6
        topics = []
        for _ in range(count):
            (size,) = struct.unpack_from(">h", metadata, at)
            if size < 0 or at + 2 + size > len(metadata):
                return None
            topics.append(metadata[at + 2 : at + 2 + size].decode())
            at += 2 + size
        return frozenset(topics)
    except (struct.error, UnicodeDecodeError):
        return None
