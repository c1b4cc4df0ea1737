"""What may befall a cluster: each schedule breaks something, waits until the cluster has noticed, and leaves it so."""

from __future__ import annotations

import random
from collections.abc import Callable

from kafka_classic.client.cluster import Cluster
from kafka_classic.client.controlling import alter_reassignments, list_reassignments
from kafka_classic.testing.faults import ZOOKEEPER, FaultyCluster

PARTITIONS = 3


class Scene:
    """The cluster, the topic whose partition the fault is aimed at, and chance."""

    def __init__(self, cluster: FaultyCluster, topic: str, rng: random.Random) -> None:
        self.cluster = cluster
        self.topic = topic
        self.rng = rng
        self.partition = rng.randrange(PARTITIONS)

    @property
    def leader(self) -> int:
        return self.cluster.leader(self.topic, self.partition)

    @property
    def in_sync(self) -> tuple[int, ...]:
        return self.cluster.in_sync(self.topic, self.partition)

    def led_by_another(self, old: int) -> None:
        self.cluster.until(lambda: self.leader not in (old, -1), f"another leader than broker {old}")


def leader_killed(scene: Scene) -> None:
    old = scene.leader
    scene.cluster.kill(old)
    scene.led_by_another(old)


def leader_paused(scene: Scene) -> None:
    """The zombie: it wakes up long after its session, and believes that it leads."""
    old = scene.leader
    scene.cluster.pause(old)
    scene.led_by_another(old)
    scene.cluster.resume(old)


def leader_cut_from_zookeeper(scene: Scene) -> None:
    old = scene.leader
    scene.cluster.cut(old, ZOOKEEPER)
    scene.led_by_another(old)


def leader_cut_from_followers(scene: Scene) -> None:
    """It keeps its session, so it leads on alone and acknowledges nothing.

    Unless leadership has just moved, or moves before it has noticed that it is alone. Then it is out; or the new leader
    and the controller are on two sides of the cut, and nobody leads until that is mended.
    """
    leader = scene.leader
    for other in scene.cluster.brokers:
        if other.id != leader:
            scene.cluster.cut(leader, other.id)

    def noticed() -> bool:
        in_sync = scene.in_sync
        return in_sync == (leader,) or leader not in in_sync or scene.cluster.untold(scene.topic, scene.partition)

    scene.cluster.until(noticed, f"broker {leader} alone")


def follower_slow(scene: Scene) -> None:
    """Slow towards all others, because leadership may move meanwhile: even to the slow one, and they fall behind."""
    leader = scene.leader
    follower = scene.rng.choice([id for id in scene.in_sync if id != leader])
    for other in scene.cluster.brokers:
        if other.id != follower:
            scene.cluster.slow(follower, other.id, bytes_per_second=200)
    scene.cluster.until(lambda: len(scene.in_sync) < len(scene.cluster.brokers), f"broker {follower} out of sync")


def controller_killed(scene: Scene) -> None:
    cluster = scene.cluster
    cluster.until(lambda: cluster.controller() is not None, "a controller")
    old = cluster.controller()
    assert old is not None
    cluster.kill(old)
    cluster.until(lambda: cluster.controller() not in (old, None), "another controller")


def all_killed(scene: Scene) -> None:
    cluster = scene.cluster
    cluster.kill(*(broker.id for broker in cluster.brokers))
    order = list(cluster.brokers)
    scene.rng.shuffle(order)
    for broker in order:
        broker.start()


def zookeeper_restarted(scene: Scene) -> None:
    scene.cluster.restart_zookeeper()


def rolling_restart(scene: Scene) -> None:
    for broker in scene.cluster.brokers:
        scene.cluster.restart(broker.id)
        scene.cluster.until_whole([scene.topic], PARTITIONS)


def disk_wiped(scene: Scene) -> None:
    victim = scene.rng.choice(scene.in_sync)
    scene.cluster.kill(victim)
    scene.cluster.wipe(victim)
    scene.cluster.brokers[victim].start()


def replicas_moved(scene: Scene) -> None:
    """No fault, but a partition that goes to other brokers under load: to two of them, and back to all."""
    cluster, moving = scene.cluster, (scene.topic, scene.partition)
    ids = [broker.id for broker in cluster.brokers]
    with Cluster(cluster.bootstrap) as client:
        for count in (2, 3):
            scene.rng.shuffle(ids)
            wanted = tuple(ids[:count])
            assert alter_reassignments(client, {moving: wanted}) == {moving: None}
            cluster.until(lambda: not list_reassignments(client, [moving]), f"{moving} on {wanted}")
            cluster.until(lambda wanted=wanted: set(scene.in_sync) == set(wanted), f"{moving} in sync on {wanted}")  # type: ignore[misc]


SCHEDULES: tuple[Callable[[Scene], None], ...] = (
    leader_killed,
    leader_paused,
    leader_cut_from_zookeeper,
    leader_cut_from_followers,
    follower_slow,
    controller_killed,
    all_killed,
    zookeeper_restarted,
    rolling_restart,
    disk_wiped,
    replicas_moved,
)
