"""Members of a group, each a process: reads its streams until SIGTERM, and writes down each thing that happens.

SIGUSR1 makes it write what its rebalances cost so far into a file beside its journal.

`python -P -m kafka_classic.testing.member` is where they come from: it has imported everything once, and forks a member
for each line of JSON that it reads, so that 64 of them start in a moment. It answers with the member's pid. When its
input ends, however that comes about, it kills all that still run.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from kafka_classic.testing.journal import Journal, What

if TYPE_CHECKING:
    from kafka_classic.consumer import ConsumerConnector, MessageStream

# What every member needs, and imports when it first does: half a second each, once for all.
_PRELOADED = (
    "kafka_classic.consumer.connector",
    "kio.schema.api_versions.v4",
    "kio.schema.list_offsets.v11",
    "kio.schema.metadata.v13",
)
_SIGNALS = {signal.SIGTERM, signal.SIGUSR1}


def run(zookeeper: str, group: str, topic: str, streams: int, settings: Mapping[str, object], journal: str) -> None:
    """Consume until SIGTERM, then leave in order; what went wrong ends the process with a code that is not 0."""
    from kafka_classic.consumer import ConsumerConnector

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    notes = Journal(Path(journal))
    failures: list[BaseException] = []

    def rebalanced(released: Collection[tuple[str, int]], acquired: Collection[tuple[str, int]]) -> None:
        committed = connector.committed(acquired)
        for at in acquired:
            notes.note(What.TOOK_OVER, at[1], committed.get(at, -1))

    def read(stream: MessageStream) -> None:
        try:
            for message in stream:
                notes.note(What.HANDED, message.partition, message.offset)
        except BaseException as error:
            failures.append(error)
            os.kill(os.getpid(), signal.SIGTERM)

    connector = ConsumerConnector(zookeeper, group, settings, on_rebalance=rebalanced)
    readers = [
        threading.Thread(target=read, args=(stream,), name=f"reader-{number}")
        for number, stream in enumerate(connector.create_message_streams({topic: streams})[topic])
    ]
    for reader in readers:
        reader.start()
    notes.note(What.READY)
    while signal.sigwait(_SIGNALS) is signal.SIGUSR1:
        _write_costs(connector, Path(f"{journal}.costs"))
    connector.shutdown()
    for reader in readers:
        reader.join()
    if failures:
        raise failures[0]


def main() -> None:
    """Fork a member for every order read."""
    for module in _PRELOADED:
        importlib.import_module(module)

    # In every thread of every member, from its first moment on: they are taken by sigwait in `run`.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    children: set[int] = set()

    def reap(*_: object) -> None:
        while children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            children.discard(pid)
            if status and os.WTERMSIG(status) != signal.SIGKILL:
                print(f"member {pid} ended with {os.waitstatus_to_exitcode(status)}", file=sys.stderr)

    signal.signal(signal.SIGCHLD, reap)
    for line in sys.stdin:
        # None may end before it is known here.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        if not pid:
            _be_member(line)
        children.add(pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        print(pid, flush=True)
    for pid in [*children]:
        os.kill(pid, signal.SIGKILL)


def _be_member(order: str) -> NoReturn:
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)  # the orders and the answers are the other's
        os.dup2(null, 1)
        run(**json.loads(order))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _write_costs(connector: ConsumerConnector, path: Path) -> None:
    history = connector.history
    assert history is not None
    costs = {
        "rebalances": history.rebalances,
        "attempts": history.attempts,
        "conflicts": history.conflicts,
        "surrenders": history.surrenders,
        "operations": connector.zookeeper_operations,
    }
    unfinished = path.with_suffix(".new")
    unfinished.write_text(json.dumps(costs))
    unfinished.rename(path)


if __name__ == "__main__":
    main()
