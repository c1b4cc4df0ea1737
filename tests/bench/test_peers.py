"""Every system of the comparison is started, loaded with a thousand messages, and leaves no process behind."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from bench.peers.activemq import ActiveMQ
from bench.peers.apache_kafka import ApacheKafka
from bench.peers.classic import Classic
from bench.peers.peer import Peer
from bench.peers.processes import tree
from bench.peers.rabbitmq import RabbitMQ
from kafka_classic.testing.waiting import until

MESSAGES = 1000


def through(peer: Peer, folder: Path) -> None:
    """A thousand messages in and out."""
    if why := peer.missing():
        pytest.skip(f"{peer.title}: {why}")
    before = set(tree(os.getpid()))
    peer.start(folder)
    try:
        batch = max(peer.batches)
        stored = peer.stored_bytes()
        written = peer.produce(MESSAGES, 200, batch, warm=0)
        assert written.messages == MESSAGES
        assert written.server_cpu_s > 0
        assert written.client_cpu_s > 0
        assert written.series[-1][1] == MESSAGES
        if peer.keeps:
            until(lambda: peer.stored_bytes() - stored > MESSAGES * 200, "all of it on disk")
        assert peer.consume(MESSAGES).messages >= MESSAGES
        for _ in range(2):
            peer.produce(MESSAGES, 200, batch, warm=0)
        peer.clear()
        servers = set(tree(os.getpid())) - before
        assert servers
    finally:
        peer.stop()
    until(lambda: not servers & set(tree(os.getpid())), "the end of its processes")


def test_rabbitmq_keeps_and_delivers(tmp_path: Path) -> None:
    through(RabbitMQ(), tmp_path)


def test_activemq_keeps_and_delivers(tmp_path: Path) -> None:
    through(ActiveMQ(), tmp_path)


@pytest.mark.parametrize("client", ["librdkafka", "own"])
def test_we_keep_and_deliver(client: str, tmp_path: Path) -> None:
    through(Classic(client), tmp_path)


# What stands for a distribution of Apache Kafka: its scripts by name, behind which our own broker serves.
COMMAND = Path(sys.executable).with_name("kafka-classic")
STORAGE = """#!/bin/sh
[ "$1 $2 $4" = "format -t -c" ] && grep -q ^process.roles=broker,controller "$5" && echo "$3" > "$(dirname "$5")/id"
"""
START = """#!/bin/sh
port=$(sed -n 's|^listeners=PLAINTEXT://127.0.0.1:\\([0-9]*\\),.*|\\1|p' "$1")
data=$(sed -n 's/^log.dirs=//p' "$1")
[ -s "$(dirname "$1")/id" ] || exit 3
mkdir -p "$data.cluster/broker-0" && ln -s "$data.cluster/broker-0" "$data"
exec {command} up --brokers 1 --port "$port" --dir "$data.cluster"
"""


def test_a_kafka_of_kafka_home_is_formatted_started_and_loaded(tmp_path: Path) -> None:
    programs = tmp_path / "kafka/bin"
    programs.mkdir(parents=True)
    for name, text in (("kafka-storage.sh", STORAGE), ("kafka-server-start.sh", START.format(command=COMMAND))):
        (programs / name).write_text(text)
        (programs / name).chmod(stat.S_IRWXU)
    (tmp_path / "data").mkdir()
    through(ApacheKafka(str(tmp_path / "kafka")), tmp_path / "data")
