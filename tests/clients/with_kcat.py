"""kcat: an older librdkafka behind a command line, as Debian ships it."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.clients.parties import DEADLINE_S, Got, Headers, Refused, Sent

FORMAT = "%p %o %T %K %S %h\\n%k%s\\n"
# Between a key and a value, and between two messages.
BETWEEN, AFTER = b"<key|value>", b"<end>"


def kcat(*arguments: str, stdin: bytes = b"") -> bytes:
    """Run kcat and return what it prints; raises Refused with the error's text."""
    done = subprocess.run(["kcat", *arguments], input=stdin, capture_output=True, timeout=DEADLINE_S, check=False)
    if done.returncode:
        raise Refused(done.stderr.decode(errors="replace").strip())
    return done.stdout


def _headers(text: str) -> Headers:
    found: list[tuple[str, bytes | None]] = []
    for pair in text.split(",") if text else ():
        name, _, value = pair.partition("=")
        found.append((name, None if value == "NULL" else value.encode()))
    return tuple(found)


def parse(output: bytes) -> list[Got]:
    """Read what `-f FORMAT` prints: a line of numbers and headers, then the key and the value by their lengths."""
    found = []
    at = 0
    while at < len(output):
        line_end = output.index(b"\n", at)
        fields = output[at:line_end].decode().split(" ", 5)
        partition, offset, timestamp, key_size, value_size = map(int, fields[:5])
        key_at = line_end + 1
        value_at = key_at + max(key_size, 0)
        at = value_at + max(value_size, 0)
        key = output[key_at:value_at] if key_size >= 0 else None
        value = output[value_at:at] if value_size >= 0 else None
        found.append(Got(partition, offset, timestamp, key, value, _headers(fields[5])))
        assert output[at : at + 1] == b"\n"
        at += 1
    return found


def _alike(message: Sent) -> tuple[object, ...]:
    """What one run of kcat can only set for all of its messages."""
    return message.partition, message.headers, message.key is None, message.value is None, message.value == b""


class Kcat:
    name = "kcat"

    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Sent], *, codec: str = "none", acks: str = "all"
    ) -> None:
        for _, run in itertools.groupby(messages, _alike):
            self._produce_run(bootstrap, topic, list(run), codec, acks)

    def _produce_run(self, bootstrap: str, topic: str, messages: list[Sent], codec: str, acks: str) -> None:
        first = messages[0]
        command = ["-b", bootstrap, "-P", "-t", topic, "-z", codec, "-X", f"acks={acks}", "-X", "linger.ms=5"]
        command += ["-X", "message.max.bytes=33554432"]
        if first.partition is not None:
            command += ["-p", str(first.partition)]
        for name, value in first.headers:
            command += ["-H", name if value is None else f"{name}={value.decode()}"]
        if first.value is None:
            command += ["-Z"]
        if first.value and len(first.value) > 4096:
            # Read from files, each is one message: kcat reads no long lines from a pipe.
            with TemporaryDirectory() as folder:
                for number, message in enumerate(messages):
                    path = Path(folder) / str(number)
                    path.write_bytes(message.value or b"")
                    key = [] if message.key is None else ["-k", message.key.decode()]
                    kcat(*command, *key, str(path))
            return
        command += ["-D", AFTER.decode()]
        if first.key is not None:
            command += ["-K", BETWEEN.decode()]
            lines = [(m.key or b"") + BETWEEN + (m.value or b"") for m in messages]
        else:
            lines = [m.value or b"" for m in messages]
        kcat(*command, stdin=b"".join(line + AFTER for line in lines))

    def read_from(self, bootstrap: str, topic: str, starts: Sequence[int], *, partition: int = 0) -> list[list[Got]]:
        command = ["-b", bootstrap, "-C", "-t", topic, "-p", str(partition), "-e", "-q", "-f", FORMAT]
        command += ["-X", "check.crcs=true", "-X", "fetch.wait.max.ms=10", "-X", "auto.offset.reset=error"]
        return [parse(kcat(*command, "-o", str(start))) for start in starts]

    def offsets_at(
        self, bootstrap: str, topic: str, timestamps: Sequence[int], *, partition: int = 0
    ) -> list[int | None]:
        found: list[int | None] = []
        for timestamp in timestamps:
            answer = kcat("-b", bootstrap, "-Q", "-t", f"{topic}:{partition}:{timestamp}").decode()
            match = re.search(r"offset (-?\d+)", answer)
            assert match, answer
            found.append(int(match[1]) if int(match[1]) >= 0 else None)
        return found
