"""Whose a directory is: `meta.properties` of a broker's, `partition.metadata` of a partition's, in Kafka's formats."""

import base64
import binascii
from pathlib import Path
from uuid import UUID

from .files import replace

META = "meta.properties"
PARTITION = "partition.metadata"


class WrongOwner(ValueError):
    """The directory was written by another broker or for another cluster."""


def read_meta(path: Path) -> dict[str, str]:
    """The properties of a broker's directory; none if it is new."""
    try:
        lines = (path / META).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in pairs}


def check_owner(path: Path, broker_id: int, cluster_id: str) -> None:
    """Refuse another broker's or cluster's directory; sign one that is new."""
    meta = read_meta(path)
    for name, ours in (("broker.id", str(broker_id)), ("cluster.id", cluster_id)):
        theirs = meta.get(name, ours)
        if theirs != ours:
            raise WrongOwner(
                f"{path / META} has {name}={theirs}, but this broker has {name}={ours}: "
                "point log.dirs at its own directory, or empty this one if its data may go"
            )
    if len(meta) < 3:
        replace(path / META, f"version=0\nbroker.id={broker_id}\ncluster.id={cluster_id}\n".encode())


def read_topic_id(folder: Path) -> UUID | None:
    """The id of the topic that a partition's folder belongs to; None if it does not say."""
    try:
        lines = (folder / PARTITION).read_text(encoding="utf-8").splitlines()
        fields = dict(line.split(": ", 1) for line in lines if ": " in line)
        return UUID(bytes=base64.urlsafe_b64decode(fields["topic_id"] + "=="))
    except (FileNotFoundError, KeyError, ValueError, binascii.Error):
        return None


def write_topic_id(folder: Path, topic_id: UUID) -> None:
    """Say whose the folder is; Kafka writes ids in URL-safe base 64 without padding."""
    text = base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()
    replace(folder / PARTITION, f"version: 0\ntopic_id: {text}\n".encode(), durable=False)
