"""The command line as a whole: help, usage errors, exit codes, where the stack trace goes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from kafka_classic.cli import main
from kafka_classic.log.config import LogConfig
from kafka_classic.log.log import Log
from kafka_classic.records.encode import encode_batch


def kafka_classic(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "kafka_classic.cli", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "KAFKA_CLASSIC_DEBUG": "", **environment},
        stdin=subprocess.DEVNULL,
    )


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that can be run, by its full name."""
    todo: list[tuple[str, Any]] = [("", typer.main.get_command(main.app))]
    while todo:
        name, command = todo.pop()
        children = getattr(command, "commands", None)
        if children:
            todo += [(f"{name} {child}".strip(), sub) for child, sub in children.items()]
        else:
            yield name, command


def test_the_command_list_is_whole() -> None:
    assert {name for name, _ in commands()} == {
        *("up", "down", "status", "broker", "zookeeper", "produce", "consume", "log dump", "log verify", "demo"),
        *("topics create", "topics list", "topics describe", "topics alter", "topics delete"),
        *("topics elect-leaders", "topics reassign", "groups list", "groups describe", "groups reset-offsets"),
        *("groups delete", "load", "mirror", "audit run", "audit watch", "audit report", "notebooks"),
    }


@pytest.mark.parametrize("name", sorted(name for name, _ in commands()))
def test_every_command_says_what_it_does_and_shows_an_example(name: str) -> None:
    command = dict(commands())[name]
    assert command.help
    assert f"Example: [bold]kafka-classic {name}" in (command.epilog or "").replace("… | ", "").replace("seq 10 | ", "")


LISTINGS = {"status", "topics list", "topics describe", "log dump", "log verify", "consume"} | {
    *("topics elect-leaders", "topics reassign")
}
TALKERS = {*("topics create", "topics list", "topics describe", "topics alter", "topics delete")} | {
    *("produce", "consume", "status", "topics elect-leaders", "topics reassign"),
    *("groups list", "groups describe", "groups reset-offsets", "groups delete"),
    *("load", "audit run", "audit watch", "audit report"),
}


def test_every_listing_takes_json_and_every_talk_to_a_cluster_a_bootstrap() -> None:
    options = {name: {flag for p in command.params for flag in p.opts} for name, command in commands()}
    assert {name for name, flags in options.items() if "--json" in flags} >= LISTINGS
    assert {name for name, flags in options.items() if "--bootstrap" in flags} == TALKERS


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["brokre"], "no such command 'brokre'"),
        (["topics", "create"], "missing argument"),
        (["zookeeper", "--port", "many"], "invalid value for '--port'"),
        (["broker", "--sett", "a=b"], "no such option"),
        (["broker", "--set", "nonsense"], "'nonsense' is not name=value"),
        (["broker", "--set", "log.segment.byte=1"], "log.segment.bytes"),
        (["broker", "--config", "no-such-file.properties"], "no-such-file.properties"),
        (["down", "--dir", "no-such-folder"], "no cluster in no-such-folder"),
        (["status", "--dir", "no-such-folder"], "no cluster in no-such-folder"),
        (["consume", "t", "--from", "yesterday"], "--from 'yesterday'"),
        (["topics", "list", "--bootstrap", "127.0.0.1:1"], "127.0.0.1:1"),
        (["topics", "list", "--bootstrap", "nonsense"], "nonsense"),
        (["topics", "delete", "t"], "--yes"),
        (["topics", "elect-leaders"], "NAME', or --all"),
        (["topics", "elect-leaders", "t", "--all"], "exclude each other"),
        (["topics", "elect-leaders", "--all", "--partition", "1"], "--partition needs"),
        (["topics", "reassign", "t"], "what to do was not said"),
        (["topics", "reassign", "t", "--list", "--cancel"], "more than one thing"),
        (["topics", "reassign", "--to-brokers", "1"], "no topic was named"),
        (["topics", "reassign", "t", "--replicas", "1,2"], "--partition N"),
        (["topics", "reassign", "t", "--plan", "p.json"], "without NAME"),
        (["topics", "reassign", "--plan", "no-such-plan.json"], "no-such-plan.json"),
        (["up", "--set", "min.insync.replica=2"], "min.insync.replicas"),
        (["up", "--set", "broker.id=7"], "broker.id is each broker's own"),
        (["log", "dump", "no-such-file.log"], "no-such-file.log"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_failure_is_one_line_with_what_to_do_and_code_1(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KAFKA_CLASSIC_DEBUG", raising=False)
    assert main.run(arguments) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert said in err
    assert err.count("\n") == 1


def test_a_failing_process_ends_with_code_1_and_that_line_alone(tmp_path: Path) -> None:
    done = kafka_classic("down", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: there is no cluster in kafka-classic-data; try --dir with the folder given to 'kafka-classic up'\n"
    )


@pytest.mark.parametrize("asked", [["--debug", "down"], ["down", "--debug"]])
def test_debug_shows_the_stack_trace_wherever_it_stands(asked: list[str], tmp_path: Path) -> None:
    done = kafka_classic(*asked, cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_the_environment_can_ask_for_the_stack_trace(tmp_path: Path) -> None:
    assert "Traceback" in kafka_classic("down", cwd=tmp_path, KAFKA_CLASSIC_DEBUG="1").stderr
    assert "Traceback" not in kafka_classic("down", cwd=tmp_path, KAFKA_CLASSIC_DEBUG="0").stderr


def test_no_command_shows_the_help() -> None:
    done = kafka_classic()
    assert done.returncode == 0
    assert "topics" in done.stdout


def test_completion_offers_commands() -> None:
    done = kafka_classic(_KAFKA_CLASSIC_COMPLETE="complete_bash", COMP_WORDS="kafka-classic top", COMP_CWORD="1")
    assert done.stdout.split() == ["topics"]


def test_completion_of_a_topic_name_gives_up_quietly_without_a_cluster() -> None:
    done = kafka_classic(
        _KAFKA_CLASSIC_COMPLETE="complete_bash",
        COMP_WORDS="kafka-classic consume --bootstrap 127.0.0.1:1 ev",
        COMP_CWORD="4",
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_a_reader_that_leaves_early_is_no_failure(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig())
    log.append(bytearray(encode_batch([(None, b"x" * 100, [], 1000)] * 5000)))
    log.close()
    command = f"{sys.executable} -P -m kafka_classic.cli log dump {tmp_path}/t-0 --records | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
