"""The `kafka-classic` command: puts the command groups together and prints a failure as one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from kafka_classic import __version__
from kafka_classic.cli import (
    audit,
    cluster,
    consume,
    demo,
    groups,
    load,
    log,
    mirror,
    notebooks,
    produce,
    serve,
    status,
    topics,
)
from kafka_classic.cli.failure import explain

app = typer.Typer(
    name="kafka-classic",
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Example: [bold]kafka-classic up --brokers 3[/bold]",
)
for group in (cluster, status, topics, produce, consume, groups, load, mirror, audit, log, serve, demo, notebooks):
    group.add_to(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kafka-classic {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the stack trace of a failure; works after any command too.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """The Kafka of the 2011 paper, alive and in Python: brokers, ZooKeeper, topics, logs."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code: 0, 1 for any failure (of an audit 2), 130 for Ctrl-C."""
    debug = "--debug" in arguments or os.environ.get("KAFKA_CLASSIC_DEBUG", "") not in ("", "0")
    plain = [argument for argument in arguments if argument != "--debug"]
    try:
        code = app(args=plain, prog_name="kafka-classic", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except (BrokenPipeError, SystemExit) as end:
        # typer makes a code 1 of a broken pipe. The reader of our output left (`| head`): not a failure, and nothing
        # more can be said to it.
        if not isinstance(end.__context__ or end, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as failure:
        if debug:
            raise
        print(f"error: {explain(failure)}", file=sys.stderr)
        return 2 if getattr(failure, "undecided", False) else 1


def main() -> NoReturn:
    """The entry point of the console script."""
    # kio imports hypothesis where it is installed, to register strategies: 0.3 s of every start of a broker in just
    # those environments that start many, for nothing that a broker does.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    sys.exit(run(sys.argv[1:]))
