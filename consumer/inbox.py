"""What others tell the rebalancer's worker: taken note of on any thread, ZooKeeper's own too, and read in one go."""

import threading

from kafka_classic.zk.consumers import TopicPartition


class News:
    """What came since the worker last looked."""

    __slots__ = ("freed", "lost", "stale", "why")

    def __init__(self) -> None:
        self.why: list[str] = []  # reasons to look again
        self.freed: set[TopicPartition] = set()  # given up by their owners
        self.lost = False  # the session expired
        self.stale = False  # the members are to be read again


class Inbox:
    """Nothing here waits, or calls anybody; `woken` is set while there is something new."""

    def __init__(self) -> None:
        self.woken = threading.Event()
        self.closing = False
        self._lock = threading.Lock()
        self._news = News()

    def look_again(self, why: str, *, stale: bool = False) -> None:
        with self._lock:
            self._news.why.append(why)
            self._news.stale |= stale
        self.woken.set()

    def freed(self, partition: TopicPartition) -> None:
        with self._lock:
            self._news.freed.add(partition)
        self.woken.set()

    def lost(self) -> None:
        with self._lock:
            self._news.lost = True
        self.woken.set()

    def close(self) -> None:
        self.closing = True
        self.woken.set()

    def take(self) -> News:
        """What is new; from now on it is no longer."""
        self.woken.clear()
        with self._lock:
            news, self._news = self._news, News()
        return news
