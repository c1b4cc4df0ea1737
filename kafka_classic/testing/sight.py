"""A broken cluster seen from everywhere at once: what ZooKeeper holds, what each broker believes, what is cut.

For the message of a wait that failed: nothing here raises, and what cannot be read is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from kafka_classic.testing.process import tail

if TYPE_CHECKING:
    from kafka_classic.client.metadata import Partition
    from kafka_classic.testing.broker import BrokerProcess
    from kafka_classic.testing.faults import FaultyCluster

At = tuple[str, int]
Belief = Mapping[At, "Partition"]

_PATIENCE_S = 3.0


def belief(broker: BrokerProcess, timeout: float = _PATIENCE_S) -> Belief:
    """What the controller has told a broker of every partition, asked past the proxies; raises when it is silent.

    A broker is told to lead or follow before it is told what to say to clients: who leads here knows it.
    """
    from kio.schema.metadata.v13 import MetadataRequest

    from kafka_classic.client.connection import Connection
    from kafka_classic.client.metadata import read_metadata
    from kafka_classic.wire.apis import Api

    connection = Connection(broker.host, broker.port, timeout=timeout, connect_timeout=timeout)
    try:
        everything = MetadataRequest(
            topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        known = read_metadata(connection.request(Api.METADATA, everything))
    finally:
        connection.close()
    return {(topic.name, row.index): row for topic in known.topics.values() for row in topic.partitions}


def sight(cluster: FaultyCluster) -> str:
    """All of it, as lines to print: of the partitions only those that are not as they should be."""
    beliefs: dict[int, Belief] = {}
    lines = [*_guarded("cut", lambda: cluster.network.cuts() or "nothing")]
    lines += _guarded("controller", cluster.controller)
    lines += _guarded("registered", lambda: _registered(cluster))
    for broker in cluster.brokers:
        if broker.alive():
            try:
                beliefs[broker.id] = belief(broker)
            except Exception as error:
                lines.append(f"broker {broker.id} (process {broker.pid}) does not answer: {error}")
        else:
            lines.append(f"broker {broker.id} does not run")
    lines += _guarded("partitions", lambda: "\n".join(_partitions(cluster, beliefs)))
    for broker in cluster.brokers:
        lines.append(f"--- end of {broker.log_path}\n{tail(broker.log_path) or '(empty)'}")
    return "\n".join(lines)


def _guarded(what: str, look: Callable[[], object]) -> Iterator[str]:
    try:
        yield f"{what}: {look()}"
    except Exception as error:
        yield f"{what}: cannot be read: {error!r}"


def _registered(cluster: FaultyCluster) -> str:
    from kafka_classic.zk.brokers import BrokerRegistry

    live = BrokerRegistry(cluster.zookeeper_session()).live()
    return ", ".join(f"{id} (epoch {info.epoch})" for id, info in sorted(live.items())) or "nobody"


def _partitions(cluster: FaultyCluster, beliefs: Mapping[int, Belief]) -> Iterator[str]:
    from kafka_classic.zk.partitions import PartitionStates
    from kafka_classic.zk.topics import TopicRegistry

    session = cluster.zookeeper_session()
    replicas = {
        (name, index): row
        for name, info in sorted(TopicRegistry(session).all().items())
        for index, row in sorted(info.assignment.items())
    }
    states = PartitionStates(session).read_many([*replicas])
    sound = 0
    for at, row in replicas.items():
        state = states.get(at)
        if state is None:
            yield f"{at[0]}-{at[1]} on {row}: no state"
            continue
        others = [
            f"broker {id} was told: leader {told.leader}, epoch {told.leader_epoch}, in sync {told.isr}"
            if (told := known.get(at)) is not None
            else f"broker {id} was never told"
            for id, known in beliefs.items()
            if (told := known.get(at)) is None
            or (told.leader, told.leader_epoch, set(told.isr)) != (state.leader, state.leader_epoch, set(state.isr))
        ]
        if state.leader == row[0] and set(state.isr) == set(row) and not others:
            sound += 1
            continue
        yield (
            f"{at[0]}-{at[1]} on {row}: leader {state.leader}, epoch {state.leader_epoch}, in sync {state.isr}, "
            f"version {state.zk_version}, controller epoch {state.controller_epoch}"
        )
        for text in others:
            yield f"    {text}"
    yield f"and {sound} with all replicas in sync, led by the first of them, as all brokers know"
