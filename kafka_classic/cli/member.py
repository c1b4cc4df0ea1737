"""What `consume --group` does: one member of a group, its streams read by a thread each, until told to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafka_classic.cli.failure import CommandFailed
from kafka_classic.cli.format import Consumed
from kafka_classic.cli.position import Earliest, Latest, Position
from kafka_classic.cli.reach import connect_zookeeper, zookeeper_address

if TYPE_CHECKING:
    from kafka_classic.consumer import MessageStream

_RESET = {Earliest: "smallest", Latest: "largest"}


def consume_in_group(
    zookeeper: str | None,
    group: str,
    topic: str,
    streams: int,
    position: Position,
    count: int | None,
    idle: float | None,
    show: Callable[[Consumed], None],
) -> None:
    """Show what the group's share of the topic brings; all that was shown is committed at the end."""
    from kafka_classic.consumer import ConsumerConnector, ConsumerTimeout
    from kafka_classic.zk.topics import TopicRegistry

    if type(position) not in _RESET:
        raise CommandFailed(
            "a group goes on from its committed offsets, so --from is earliest or latest",
            f"'kafka-classic groups reset-offsets {group} --topic {topic} …' first",
        )
    settings: dict[str, object] = {"auto.offset.reset": _RESET[type(position)], "auto.commit.interval.ms": 1000}
    if idle is not None:
        settings["consumer.timeout.ms"] = max(1, int(idle * 1000))
    shown = 0
    turn = threading.Lock()
    ended = threading.Event()
    failures: list[BaseException] = []

    # A program's consumer waits for a topic that is yet to come; a person has more likely misspelt one.
    with connect_zookeeper(zookeeper) as session:
        if TopicRegistry(session).get(topic) is None:
            raise CommandFailed(f"there is no topic {topic!r}", f"'kafka-classic topics create {topic}' first")

    with (
        ConsumerConnector(zookeeper_address(zookeeper), group, settings) as connector,
        called(ended.set, signal.SIGTERM),  # it commits and leaves in order then, as after Ctrl-C
    ):

        def read(stream: MessageStream) -> None:
            nonlocal shown
            try:
                for message in stream:
                    with turn:
                        if ended.is_set():
                            return  # not shown, so not committed: the next one who reads it will show it
                        show(
                            Consumed(
                                message.topic,
                                message.partition,
                                message.offset,
                                message.timestamp,
                                message.key,
                                message.value,
                                message.headers,
                            )
                        )
                        shown += 1
                        if shown == count:
                            connector.commit_offsets()
                            ended.set()
                            return
            except ConsumerTimeout:
                pass
            except BaseException as error:
                failures.append(error)
                ended.set()

        readers = [
            threading.Thread(target=read, args=(stream,), daemon=True)
            for stream in connector.create_message_streams({topic: streams})[topic]
        ]
        for reader in readers:
            reader.start()
        while not ended.is_set() and any(reader.is_alive() for reader in readers):
            ended.wait(0.2)
    if failures:
        raise failures[0]


@contextmanager
def called(call: Callable[[], object], number: signal.Signals) -> Iterator[None]:
    before = signal.signal(number, lambda *_: call())
    try:
        yield
    finally:
        signal.signal(number, before)
