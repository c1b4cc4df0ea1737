"""Turns whatever went wrong into one clear line that says what to do next."""

from __future__ import annotations

import sys


class CommandFailed(Exception):
    """A command cannot do what it was asked; `hint` completes the sentence "try ..."."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def explain(failure: BaseException) -> str:
    """The one line that is printed for a failure, without the leading `error: `."""
    message, hint = _words_of(failure)
    message = " ".join(message.split()).rstrip(".")
    return f"{message}; try {hint}" if hint else message


def _words_of(failure: BaseException) -> tuple[str, str]:
    if isinstance(failure, CommandFailed):
        return failure.message, failure.hint
    usage = getattr(failure, "format_message", None)  # click's own errors, whichever click typer brings along
    if usage is not None:
        context = getattr(failure, "ctx", None)
        command = context.command_path if context is not None else "kafka-classic"
        return _lower_first(str(usage())), f"'{command} --help'"
    if _is(failure, "kafka_classic.wire.errors", "KafkaError"):
        return _kafka_words(failure)
    if type(failure).__module__.startswith("kafka_classic."):
        return _own_words(failure)
    if isinstance(failure, (ConnectionError, TimeoutError)):
        text = str(failure) or type(failure).__name__
        return text, "'kafka-classic status' to see what runs, or name a live broker with --bootstrap HOST:PORT"
    if isinstance(failure, OSError) and failure.filename is not None:
        return f"{failure.filename}: {failure.strerror}", ""
    return f"{type(failure).__name__}: {failure}", "again with --debug, which shows where"


def _kafka_words(failure: BaseException) -> tuple[str, str]:
    code = getattr(failure, "code", None)
    name = getattr(code, "name", str(code)).upper()
    message = str(getattr(failure, "message", "") or failure)
    # A broker's answer goes by Kafka's name for it; what the client says of its own (it cannot reach a broker, no
    # answer came) is a whole sentence already.
    own = type(failure).__module__.startswith("kafka_classic.client.")
    return (message if own or name in message.upper() else f"{name}: {message}"), ""


def _own_words(failure: BaseException) -> tuple[str, str]:
    """The rooms' own errors say what to do. Of a server that died: the last line of its log, which says why."""
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()] or [type(failure).__name__]
    if len(lines) == 1:
        return lines[0], ""
    last = lines[-1].removeprefix("error: ").partition("; try again with --debug")[0]
    logs = [line.removeprefix("--- end of ") for line in lines if line.startswith("--- end of ")]
    return f"{lines[0]}: {last}", f"reading {logs[0]}" if logs else ""


def _is(failure: BaseException, module: str, name: str) -> bool:
    # Asked of the modules already loaded: a failure of theirs cannot exist before they are, and loading them is slow.
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(failure, kind)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
