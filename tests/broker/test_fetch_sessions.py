"""Fetch sessions: what is asked for and told only when it changes."""

import random

from kafka_classic.broker.fetch import Read
from kafka_classic.broker.fetch_sessions import EVICTION_S, FetchSessions
from kafka_classic.wire.errors import Error
from kafka_classic.wire.fetch import FetchPartition, FetchRequest, PartitionOut


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def request(
    session_id: int, epoch: int, *partitions: int, offset: int = 0, forgotten: tuple[int, ...] = ()
) -> FetchRequest:
    made = FetchRequest()
    made.session_id, made.session_epoch = session_id, epoch
    made.partitions = [FetchPartition("t", p, -1, offset, -1, -1, 1000) for p in partitions]
    made.forgotten = [("t", list(forgotten))] if forgotten else []
    return made


def sessions(slots: int = 10) -> tuple[FetchSessions, Clock]:
    clock = Clock()
    return FetchSessions(slots, clock, random.Random(1)), clock


def row(partition: int, high_watermark: int = 5, size: int = 0, error: int = 0) -> tuple[str, Read]:
    return "t", Read(PartitionOut(partition, error, high_watermark, high_watermark, 0, size), None)


def test_a_session_remembers_partitions_that_are_not_named_again() -> None:
    cache, _ = sessions()
    wanted, session, error = cache.resolve(request(0, 0, 1, 2))
    assert session is not None
    assert (len(wanted), error) == (2, Error.none)
    wanted, again, _ = cache.resolve(request(session.id, 1, 2, offset=9))
    assert again is session
    assert [(w.partition, w.fetch_offset) for w in wanted] == [(1, 0), (2, 9)]
    wanted, _, _ = cache.resolve(request(session.id, 2, forgotten=(1,)))
    assert [w.partition for w in wanted] == [2]


def test_only_news_is_told_after_the_first_answer() -> None:
    cache, _ = sessions()
    _, session, _ = cache.resolve(request(0, 0, 1, 2, 3))
    assert session is not None
    assert len(session.only_news([row(1), row(2), row(3)])) == 3
    assert session.only_news([row(1), row(2), row(3)]) == []
    assert [r.out.partition for _, r in session.only_news([row(1, size=10), row(2, 6), row(3, error=1)])] == [1, 2, 3]
    assert not session.has_news([(t, r.out) for t, r in [row(1), row(2, 6)]])
    assert session.has_news([(t, r.out) for t, r in [row(1), row(2, 7)]])


def test_a_partition_that_had_data_goes_to_the_end_so_that_none_starves() -> None:
    cache, _ = sessions()
    _, session, _ = cache.resolve(request(0, 0, 1, 2, 3))
    assert session is not None
    session.only_news([row(1, size=100), row(2), row(3)])
    wanted, _, _ = cache.resolve(request(session.id, 1))
    assert [w.partition for w in wanted] == [2, 3, 1]


def test_a_wrong_epoch_or_an_unknown_session_is_refused() -> None:
    cache, _ = sessions()
    _, session, _ = cache.resolve(request(0, 0, 1))
    assert session is not None
    assert cache.resolve(request(session.id, 5))[2] is Error.invalid_fetch_session_epoch
    assert cache.resolve(request(session.id + 1, 1))[2] is Error.fetch_session_id_not_found


def test_a_final_request_ends_the_session() -> None:
    cache, _ = sessions()
    _, session, _ = cache.resolve(request(0, 0, 1))
    assert session is not None
    wanted, none, error = cache.resolve(request(session.id, -1, 1))
    assert (len(wanted), none, error) == (1, None, Error.none)
    assert cache.resolve(request(session.id, 1))[2] is Error.fetch_session_id_not_found


def test_the_cache_is_bounded_and_only_an_idle_session_makes_way() -> None:
    cache, clock = sessions(slots=2)
    made = [cache.resolve(request(0, 0, 1))[1] for _ in range(3)]
    assert made[2] is None
    clock.now = EVICTION_S + 1
    assert cache.resolve(request(0, 0, 1))[1] is not None
