"""A client program of the comparison: started, followed by the lines of JSON it prints, and measured.

Every client, in Java or Python, prints the same: a line as its clock starts, about ten a second, and a last one:

    {"ns": 0, "messages": 0}
    {"ns": 2000100, "messages": 6543}
    {"ns": 4000200, "messages": 10000, "cpu_ns": 1234, "done": true}

Nobody is kept on a core of their own: the virtual machines of Java and Erlang bring several busy threads, librdkafka
has two, our broker one. Server and client of each system share all cores as the kernel sees fit, alike for all.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.peers.peer import Measured, PeerFailed


@dataclass(frozen=True, slots=True)
class Told:
    """One line of a client."""

    seconds: float
    messages: int
    cpu_s: float = 0.0
    done: bool = False


def understand(line: str) -> Told:
    """Read a client's line; raises PeerFailed when it is none."""
    try:
        said = json.loads(line)
        return Told(said["ns"] / 1e9, int(said["messages"]), said.get("cpu_ns", 0) / 1e9, bool(said.get("done")))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise PeerFailed(f"a client printed what is no progress line: {line.strip()!r}") from None


class Client:
    """A client that runs. `server_cpu` is asked as its clock starts and as it stops."""

    def __init__(
        self, command: Sequence[str], server_cpu: Callable[[], float], env: Mapping[str, str] | None = None
    ) -> None:
        self._command = command
        self._server_cpu = server_cpu
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # lives as long as the client
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=None if env is None else dict(env),
        )
        self.began = threading.Event()
        self.told: list[Told] = []
        self._cpu: list[float] = []
        self._failure: BaseException | None = None
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()

    def wait(self, stuck_s: float = 120.0) -> Measured:
        """Wait until it is done; raises PeerFailed when it fails, or has not come any further for so long."""
        try:
            before = -1
            while self._reader.is_alive():
                self._reader.join(stuck_s)
                now = self.told[-1].messages if self.told else -1
                if self._reader.is_alive() and now == before:
                    raise PeerFailed(f"{self._name} stands still after {max(now, 0)} messages: {self._said()}")
                before = now
            code = self._process.wait(stuck_s)
            if self._failure is not None:
                raise PeerFailed(f"{self._name}: {self._failure}: {self._said()}") from self._failure
            if code or not self.told or not self.told[-1].done:
                raise PeerFailed(f"{self._name} ended with code {code}: {self._said()}")
            return self._measured()
        finally:
            self._end()

    def stop(self) -> Measured:
        """End it where it is; what it had done by then counts. Its own processor time is not known then."""
        if self._failure is None and self._process.poll() not in (None, 0):
            self._end()
            raise PeerFailed(f"{self._name} ended before it was told to: {self._said()}")
        self._end()
        if len(self.told) < 2:
            raise PeerFailed(f"{self._name} had not begun when it was ended: {self._said()}")
        while len(self.told) > 2 and self.told[-2].messages == self.told[-1].messages:
            self.told.pop()  # it had nothing to do any more
        return self._measured()

    @property
    def _name(self) -> str:
        return " ".join(part.rpartition("/")[2] for part in self._command if part[:1] != "-" and ":" not in part)

    def _follow(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                told = understand(line)
                if not self._cpu or told.done:
                    self._cpu.append(self._server_cpu())
                self.told.append(told)
                self.began.set()
        except BaseException as error:
            self._failure = error
        finally:
            self.began.set()

    def _measured(self) -> Measured:
        last = self.told[-1]
        server = self._cpu[-1] - self._cpu[0] if last.done else 0.0
        series = [(told.seconds, told.messages) for told in self.told]
        return Measured(last.messages, last.seconds, server, last.cpu_s, series)

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-2000:].strip() or "it said nothing"

    def _end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
