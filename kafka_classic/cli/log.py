"""`kafka-classic log`: print the batches and records of segment files, and check that they are whole."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_classic.cli import show
from kafka_classic.cli.failure import CommandFailed
from kafka_classic.cli.options import AsJson

if TYPE_CHECKING:
    from kafka_classic.log.dump import BatchAt
    from kafka_classic.records.decode import Record

app = typer.Typer(help="Look into segment files; safe while a broker writes to them.")


def add_to(root: typer.Typer) -> None:
    """Adds the commands of this file to the command line."""
    root.add_typer(app, name="log", epilog="Example: [bold]kafka-classic log verify kafka-classic-data[/bold]")


@app.command(epilog="Example: [bold]kafka-classic log dump data/events-0/00000000000000000000.log --records[/bold]")
def dump(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Segment files (NNN.log) or folders of them.")],
    records: Annotated[bool, typer.Option("--records", help="Print the records of each batch too.")] = False,
    json: AsJson = False,
) -> None:
    """Print the batches of a segment file, with --records also what is in them; --json prints one object a line."""
    from kafka_classic.log.dump import BatchAt, SegmentFile
    from kafka_classic.records.batch import BatchHeader

    for path in segment_files(files):
        segment = SegmentFile(path)
        if not json:
            print(f"{path}: base offset {segment.base}, {segment.size} bytes")
        scan = segment.scan(crc=True)
        for position, header in scan:
            batch = BatchAt(position, BatchHeader._make(header))
            print(show.as_line({"file": str(path), **_batch(batch)}) if json else _batch_line(batch))
            if records:
                for record in segment.records(batch):
                    print(show.as_line(_record(record)) if json else _record_line(record))
        if scan.problem:
            raise CommandFailed(
                f"{path} is not sound from byte {scan.position} on: {scan.problem}",
                "starting its broker, which cuts a torn tail, or 'kafka-classic log verify'",
            )


@app.command(epilog="Example: [bold]kafka-classic log verify kafka-classic-data/broker-0[/bold]")
def verify(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Segment files or folders, searched to the end.")
    ],
    json: AsJson = False,
) -> None:
    """Check checksums, offsets, records and indexes of segment files; exit code 1 if anything is wrong."""
    from kafka_classic.log.dump import verify as verify_segment

    checked: list[dict[str, object]] = []
    for path in segment_files(paths):
        findings = verify_segment(path, records=True)
        checked.append(
            {
                "file": str(path),
                "bytes": path.stat().st_size,
                "findings": [
                    {"file": str(found.path), "position": found.position, "problem": found.problem}
                    for found in findings
                ],
            }
        )
        if not json:
            for finding in findings:
                print(f"{finding.path} at {finding.position}: {finding.problem}")
    wrong = sum(bool(each["findings"]) for each in checked)
    if json:
        show.as_json(checked)
    else:
        size = sum(path.stat().st_size for path in segment_files(paths))
        print(f"{show.count(len(checked), 'segment')}, {show.count(size, 'byte')} checked; {wrong} with faults")
    if wrong:
        raise CommandFailed(
            f"faults in {wrong} of {show.count(len(checked), 'segment')}", "starting its broker: recovery mends a tail"
        )


def segment_files(paths: Iterable[Path]) -> list[Path]:
    """The segment files named, and those in the folders named, in order."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*.log") if file.stem.isdigit() and len(file.stem) == 20)
            if not inside:
                raise CommandFailed(
                    f"there are no segment files in {path}", "a broker's data folder, or one NNN.log file"
                )
            found += inside
        elif not path.exists():
            raise CommandFailed(
                f"there is no file {path}", "a broker's data folder, such as kafka-classic-data/broker-0"
            )
        elif not (path.suffix == ".log" and path.stem.isdigit() and len(path.stem) == 20):
            raise CommandFailed(f"{path} is not a segment file", "one named like 00000000000000000000.log")
        else:
            found.append(path)
    return found


def _batch(batch: BatchAt) -> dict[str, object]:
    from kafka_classic.records.codecs import Codec

    header = batch.header
    return {
        "position": batch.position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "bytes": header.size,
        "codec": Codec(header.codec).name.lower() if header.codec in list(Codec) else header.codec,
        "base_timestamp": header.base_timestamp,
        "delete_horizon": header.base_timestamp if header.has_delete_horizon else None,
        "max_timestamp": header.max_timestamp,
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "crc": f"{header.crc:08x}",
    }


def _batch_line(batch: BatchAt) -> str:
    told = _batch(batch)
    line = (
        f"at {told['position']}: offsets {told['base_offset']}..{told['last_offset']}, "
        f"{show.count(batch.header.record_count, 'record')}, "
        f"{told['bytes']} bytes, {told['codec']}, crc {told['crc']}, time {told['max_timestamp']}, "
        f"leader epoch {told['leader_epoch']}"
    )
    lacks = batch.header.record_count <= batch.header.last_offset_delta
    if lacks and batch.header.last_offset_delta != batch.header.size - 1:  # the offsets of a classic batch are bytes
        line += ", compacted"
    if batch.header.has_delete_horizon:
        line += f", tombstones until {told['delete_horizon']}"
    if batch.header.producer_id >= 0:
        line += f", producer {told['producer_id']}/{told['producer_epoch']} from sequence {told['base_sequence']}"
    return line


def _record(record: Record) -> dict[str, object]:
    from kafka_classic.cli.format import json_bytes

    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": json_bytes(record.key),
        "value": json_bytes(record.value),
        "headers": [[name, json_bytes(value)] for name, value in record.headers],
    }


def _record_line(record: Record) -> str:
    def text(value: bytes | None) -> str:
        return "null" if value is None else repr(value.decode("utf-8", "backslashreplace"))

    line = f"  {record.offset}: {text(record.key)} -> {text(record.value)}"
    if record.headers:
        line += " {" + ", ".join(f"{name}={text(value)}" for name, value in record.headers) + "}"
    return line
