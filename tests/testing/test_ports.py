"""Free ports are leased, so that two clusters never choose the same one."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kafka_classic.testing.ports import PortLeases, is_free

LEASE_AND_WAIT = """
import sys
from kafka_classic.testing.ports import PortLeases
print(PortLeases().lease(int(sys.argv[1])), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def leases() -> Iterator[PortLeases]:
    held = PortLeases()
    yield held
    held.release_all()


def test_a_drawn_port_can_be_listened_on(leases: PortLeases) -> None:
    port = leases.draw()
    with socket.create_server(("127.0.0.1", port)):
        assert not is_free(port)
    assert is_free(port)


def test_two_clusters_with_the_same_luck_draw_different_ports() -> None:
    one, two = PortLeases(rng=random.Random(7)), PortLeases(rng=random.Random(7))
    try:
        first = {one.draw() for _ in range(5)}
        second = {two.draw() for _ in range(5)}
        assert not first & second
    finally:
        one.release_all()
        two.release_all()


def test_a_port_somebody_listens_on_is_not_leased(leases: PortLeases) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert leases.lease(server.getsockname()[1]) is False


def test_a_lease_holds_against_other_processes_and_ends_with_its_own(leases: PortLeases) -> None:
    port = leases.draw()
    leases.release(port)
    holder = subprocess.Popen(
        [sys.executable, "-P", "-c", LEASE_AND_WAIT, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"True\n"
        assert leases.lease(port) is False
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    assert leases.lease(port) is True


def test_a_lease_is_given_again_to_its_holder_after_the_server_has_gone(leases: PortLeases) -> None:
    port = leases.draw()
    assert leases.lease(port) is True
    leases.release(port)
    assert leases.lease(port) is True
