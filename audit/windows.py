"""Windows of different lengths: what was counted in short ones belongs to the longer ones of who published it.

Producers of one topic may be set to different windows. The tiers are counted in the shortest; here each producer's
counts come to where its own events look for them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import replace

from kafka_classic.client.monitoring import Event
from kafka_classic.client.tally import Tally

Counts = Mapping[tuple[int, int], Tally]  # by partition and window


def at_home(counts: Counts, events: Iterable[Event], window_ms: int) -> Counts:
    """The counts, each in the window of the event that it lies in; where there is none, as they are.

    Where one length is no multiple of the other, a window may get some of its neighbour's: messages have names, so
    none is missed by that, and none counts twice.
    """
    longer = sorted((event.window, event.window + event.window_ms) for event in events if event.window_ms > window_ms)
    if not longer:
        return counts
    begins = [begin for begin, _ in longer]
    found: dict[tuple[int, int], Tally] = {}
    for (partition, window), tally in counts.items():
        place = bisect_right(begins, window) - 1
        home = longer[place][0] if place >= 0 and window < longer[place][1] else window
        known = found.get((partition, home))
        if known is None:
            found[partition, home] = replace(tally, runs=list(tally.runs))
        else:
            known.add(tally)
    return found
