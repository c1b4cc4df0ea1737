"""What the others say: who leads what, asked of them while the controller cannot speak to this broker.

A broker whose session is in doubt may have been given up, and the controller speaks only to those who are registered.
Clients do not know that: some (librdkafka) ask the broker that they asked last for as long as it answers, and are told
of leaders that are no more until ZooKeeper is back. So other brokers are asked, one each second. Leader epochs only
grow, so whoever names a later one knows better, and to be told by one that is cut off as well does no harm.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import kio.schema.metadata.v13.request as metadata_request

from kafka_classic.broker.cluster_view import NO_ID, PartitionView, TopicView
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import KafkaError

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker
    from kafka_classic.zk.brokers import BrokerInfo

log = logging.getLogger(__name__)

M: Any = metadata_request
ALL_TOPICS = M.MetadataRequest(topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False)
ANSWER_S = 2.0  # for one broker, which is as good as another


class Hearsay:
    """Asks one other broker after the other."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._asked = broker.settings.broker_id  # the last one

    def ask(self) -> None:
        """Learn of leaders from one other broker, if ZooKeeper may have given this one up."""
        other = self._next() if self._may_be_given_up() else None
        if other is None:
            return
        self._asked = other.id
        heard = self._broker.mandates.controller_epoch
        try:
            peer = self._broker.peer("-hearsay", other, timeout_s=ANSWER_S)
            try:
                answer = peer.request(Api.METADATA, ALL_TOPICS, ANSWER_S)
            finally:
                peer.close()
        except (OSError, KafkaError) as error:
            log.debug("broker %d does not say who leads what: %s", other.id, error)
            return
        if not self._may_be_given_up() or heard != self._broker.mandates.controller_epoch:
            return  # the controller has spoken meanwhile
        learned = self._broker.view.overhear(answer.controller_id, map(_topic, answer.topics))
        if learned:
            log.info("broker %d says that %d partitions have other leaders by now", other.id, learned)

    def _may_be_given_up(self) -> bool:
        return self._broker.fence.closed

    def _next(self) -> BrokerInfo | None:
        me, brokers = self._broker.settings.broker_id, self._broker.view.brokers
        others = sorted(id for id in brokers if id != me)
        if not others:
            return None
        return brokers[next((id for id in others if id > self._asked), others[0])]


def _topic(row: Any) -> TopicView:
    return TopicView(
        row.name,
        row.topic_id or NO_ID,
        {
            of.partition_index: PartitionView(
                of.leader_id, of.leader_epoch, of.isr_nodes, of.replica_nodes, of.offline_replicas
            )
            for of in row.partitions
        },
    )
