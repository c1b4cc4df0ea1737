"""Our own clients as the load, as a user has them: Producer and message streams."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from kafka_classic.client.cluster import Cluster
from kafka_classic.consumer import ConsumerSettings, Hands, MessageStream


class NoOffsets:
    """Keeps no offsets, and begins at the first: what is measured is the way of a message."""

    def fetch(self, partitions: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return dict.fromkeys(partitions, 0)

    resume = fetch

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        pass


@contextmanager
def stream_of(bootstrap: str, topic: str, partitions: Sequence[int] = (0,)) -> Iterator[MessageStream]:
    """A stream of all messages of these partitions, from the first on."""
    stream = MessageStream(timeout=60.0)
    with Cluster(bootstrap) as cluster:
        hands = Hands(cluster, [stream], NoOffsets(), ConsumerSettings.load({}))
        try:
            hands.start({(topic, partition): 0 for partition in partitions})
            yield stream
        finally:
            hands.close()


def take(stream: MessageStream, count: int, look: Callable[[bytes], object] | None = None) -> None:
    """Read so many messages."""
    for message in stream:
        if look is not None and message.value is not None:
            look(message.value)
        count -= message.value is not None
        if not count:
            return
