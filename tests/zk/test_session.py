"""The session: its states, what it does in a gevent program, and life after an expiry."""

import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest
from kazoo.exceptions import ConnectionClosedError

from kafka_classic.zk.errors import ZooKeeperUnreachable
from kafka_classic.zk.handlers import HandlerName
from kafka_classic.zk.server import EmbeddedZooKeeper, free_port
from kafka_classic.zk.session import Session, SessionState
from kafka_classic.zk.znodes import Znodes
from tests.zk.breaking import expire, until

CONNECTED, SUSPENDED, LOST = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.LOST
Connect = Callable[..., Session]


def test_a_closed_session_takes_its_ephemeral_znodes_along(connect: Connect, session: Session, hosts: str) -> None:
    mine = connect(hosts)
    Znodes(mine).create("/a/b", ephemeral=True)
    assert Znodes(session).exists("/a/b")
    mine.close()
    until(session, lambda: not Znodes(session).exists("/a/b"))
    with pytest.raises(ZooKeeperUnreachable, match="is closed"):
        Znodes(mine).get("/a")


def test_a_hanging_zookeeper_suspends_the_session_and_calls_end_with_a_clear_error(
    connect: Connect, fragile: EmbeddedZooKeeper, handler: HandlerName
) -> None:
    session = connect(fragile.hosts, handler, timeout_s=2.0)
    heard: list[SessionState] = []
    session.add_listener(heard.append)
    fragile.pause()
    with pytest.raises(ZooKeeperUnreachable, match="has not answered for 2 s; is it running"):
        Znodes(session).get("/")
    until(session, lambda: heard == [SUSPENDED])
    until(session, lambda: session.in_doubt_for() > 0)
    fragile.resume()
    until(session, lambda: session.state is CONNECTED)
    assert session.in_doubt_for() == 0
    assert Znodes(session).get("/") is not None


def test_what_kazoo_calls_closed_is_tried_again_while_the_session_is_open(session: Session) -> None:
    tries = []

    def begin() -> object:
        result = session.handler.async_result()
        tries.append(result)
        if len(tries) < 3:
            result.set_exception(ConnectionClosedError("Connection has been closed"))
        else:
            result.set("there")
        return result

    assert session.call(begin) == "there"


def test_a_restarted_zookeeper_finds_the_same_session(
    connect: Connect, fragile: EmbeddedZooKeeper, handler: HandlerName
) -> None:
    session = connect(fragile.hosts, handler, timeout_s=60.0)
    session_id = session.session_id
    Znodes(session).create(f"/mine-{handler}", ephemeral=True)
    heard: list[SessionState] = []
    session.add_listener(heard.append)
    fragile.kill()
    until(session, lambda: heard == [SUSPENDED])
    fragile.start()
    assert Znodes(session).exists(f"/mine-{handler}")  # the call waits for the connection by itself
    assert heard == [SUSPENDED, CONNECTED]
    assert session.session_id == session_id


def test_a_server_that_takes_the_connection_and_never_answers_does_not_cost_the_session(
    connect: Connect, fragile: EmbeddedZooKeeper, handler: HandlerName
) -> None:
    session = connect(fragile.hosts, handler, timeout_s=12.0)
    session_id = session.session_id
    heard: list[SessionState] = []
    session.add_listener(heard.append)
    fragile.kill()
    taken: list[socket.socket] = []
    with socket.create_server((fragile.host, fragile.port)) as silent:
        silent.setblocking(False)

        def asked_twice() -> bool:
            with suppress(BlockingIOError):
                taken.append(silent.accept()[0])
            return len(taken) == 2

        until(session, asked_twice)  # each time as a ZooKeeper does that is in the middle of its start
    assert session.in_doubt_for() < session.timeout_s
    fragile.start()
    until(session, lambda: heard[-1] is CONNECTED)
    assert session.session_id == session_id
    for connection in taken:
        connection.close()


def test_an_expired_session_is_replaced_and_its_hooks_are_called(session: Session) -> None:
    first = session.session_id
    heard: list[SessionState] = []
    renewed: list[int | None] = []

    def renew() -> None:
        Znodes(session).create("/again", ephemeral=True)  # a hook may call ZooKeeper
        renewed.append(session.session_id)

    session.add_listener(heard.append)
    session.on_renewal(renew)
    expire(session)
    until(session, lambda: renewed)
    assert heard[-2:] == [LOST, CONNECTED]
    assert renewed == [session.session_id]
    assert session.session_id != first


def test_a_failing_listener_or_hook_stops_no_other(session: Session) -> None:
    renewed: list[int] = []

    def fail(*_: object) -> None:
        raise RuntimeError("on purpose")

    session.add_listener(fail)
    session.on_renewal(fail)
    session.on_renewal(lambda: renewed.append(1))
    expire(session)
    until(session, lambda: renewed)


def test_nobody_at_the_address_is_one_clear_line(handler: HandlerName) -> None:
    port = free_port("127.0.0.1")
    with pytest.raises(
        ZooKeeperUnreachable, match=f"cannot reach ZooKeeper at 127.0.0.1:{port} within 0.3 s; is it run"
    ):
        Session(f"127.0.0.1:{port}", handler=handler).start(0.3)


def test_a_session_closes_though_zookeeper_hangs(
    connect: Connect, fragile: EmbeddedZooKeeper, handler: HandlerName
) -> None:
    session = connect(fragile.hosts, handler, timeout_s=60.0)
    fragile.pause()
    session.close(timeout=0.2)
    assert session.closed


def test_a_host_is_looked_up_by_name_too(connect: Connect, zookeeper: EmbeddedZooKeeper, handler: HandlerName) -> None:
    session = connect(f"no-such-host.invalid:1,localhost:{zookeeper.port}/by-name/{handler}", handler)
    assert Znodes(session).create("/here")


def test_the_gevent_loop_runs_on_while_zookeeper_is_called_and_while_it_hangs(
    connect: Connect, fragile: EmbeddedZooKeeper
) -> None:
    session = connect(fragile.hosts, "gevent", timeout_s=60.0)
    ticks = 0
    done: list[str] = []

    def tick() -> None:
        nonlocal ticks
        while not session.closed:
            ticks += 1
            session.handler.sleep_func(0.001)

    def work() -> None:
        znodes = Znodes(session)
        for n in range(50):
            znodes.create(f"/ticking/{n}")
        done.append("created")
        fragile.pause()
        znodes.children("/ticking")
        done.append("read")

    session.handler.spawn(tick)
    session.handler.spawn(work)
    until(session, lambda: done == ["created"])
    assert ticks > 20  # the loop turned at least while some of the 50 calls waited for their answers
    while_hanging = ticks
    until(session, lambda: ticks > while_hanging + 300)
    assert done == ["created"]
    fragile.resume()
    until(session, lambda: done == ["created", "read"])


def test_a_client_with_threads_never_loads_gevent() -> None:
    asked = "import sys, kafka_classic.zk.session as s; s.Session('h:1'); print('gevent' in sys.modules)"
    answer = subprocess.run([sys.executable, "-P", "-c", asked], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


def test_an_unknown_handler_is_refused() -> None:
    with pytest.raises(ValueError, match="choose 'threading' or 'gevent'"):
        Session("h:1", handler="asyncio")  # type: ignore[arg-type]
