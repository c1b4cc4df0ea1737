"""The coordinator of a group: which broker it is, and questions to it that follow it when it moves.

    (unknown) -- FindCoordinator --> known -- NOT_COORDINATOR, no answer, connection lost --> (unknown)

A group's coordinator is the leader of its partition of `__consumer_offsets`. While that one is not elected, or still
reads what its predecessor left, questions are asked again, longer and longer apart, until a deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from kafka_classic.client.cluster import Cluster
from kafka_classic.client.connection import Connection
from kafka_classic.client.errors import RequestTimedOut
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError

T = TypeVar("T")

_GROUP = 0  # the kind of key, by Kafka's numbers
_PERHAPS_ELSEWHERE = frozenset(
    {Error.not_coordinator, Error.coordinator_not_available, Error.network_exception, Error.request_timed_out}
)


class Coordinator:
    """Asks on behalf of one group, from any thread."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self.group = group
        self._cluster = cluster
        self._node: int | None = None

    def ask(
        self, api: Api, body: Callable[[], object], read: Callable[[Any], T], *, deadline: float | None = None
    ) -> T:
        """Send `body()` until `read(answer)` returns, for `deadline` seconds at the most; nothing is sent after that.

        `read` raises the KafkaError that an answer holds: one that may pass leads to another attempt.
        """
        seconds = self._cluster.deadline if deadline is None else deadline
        end = time.monotonic() + seconds
        failed: list[KafkaError] = []

        def attempt() -> T:
            try:
                connection = self._connection()
                left = end - time.monotonic()  # to find it, and to connect to it, takes time
                if left <= 0:
                    raise failed[-1] if failed else self._not_found()
                return read(connection.request(api, body(), min(left, self._cluster.request_timeout)))
            except KafkaError as error:
                failed[:] = [error]
                if error.code in _PERHAPS_ELSEWHERE:
                    self._node = None
                raise

        return self._cluster.retrying(attempt, seconds)

    def _not_found(self) -> KafkaError:
        return RequestTimedOut(
            Error.request_timed_out,
            f"the coordinator of group {self.group!r} was not found in time: try again, or wait longer",
        )

    def _connection(self) -> Connection:
        node = self._node
        if node is None:
            node = self._node = self._find()
        return self._cluster.connection(node)

    def _find(self) -> int:
        from kio.schema.find_coordinator.v6 import FindCoordinatorRequest
        from kio.static.primitive import i8

        request = FindCoordinatorRequest(key_type=i8(_GROUP), coordinator_keys=(self.group,))
        [found] = self._cluster.any().request(Api.FIND_COORDINATOR, request).coordinators
        if found.error_code:
            raise group_error(found.error_code, self.group, found.error_message)
        return int(found.node_id)


def group_error(code: int, group: str, message: str | None = None) -> KafkaError:
    """The error of a group, with its name and what to do."""
    error = KafkaError(code, message)
    return KafkaError(error.code, f"group {group!r}: {error.message}")
