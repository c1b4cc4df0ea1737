"""Finds ZooKeeper's jars: pyspark ships them, so pip has already brought them."""

import importlib.util
from pathlib import Path

from kafka_classic.zk.errors import ZooKeeperFailed

# What ZooKeeper loads at start and while it serves. snappy-java only names its snapshots, but without it the server
# accepts connections and never serves; log4j costs 0.1 s of start and gives a log that tells why it died.
JARS = (
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "metrics-core",
    "snappy-java",
    "log4j-api",
    "log4j-core",
    "log4j-slf4j2-impl",
)


def class_path() -> str:
    """ZooKeeper's few jars out of the folder that pyspark ships (found without importing pyspark, which is slow)."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ZooKeeperFailed("the embedded ZooKeeper needs the jars that pyspark ships: `pip install pyspark`")
    jars = Path(spec.submodule_search_locations[0], "jars")
    found = []
    for name in JARS:
        versions = sorted(jars.glob(f"{name}-[0-9]*.jar"))
        if not versions:
            raise ZooKeeperFailed(f"no {name} jar in {jars}: `pip install --force-reinstall pyspark`")
        found.append(str(versions[-1]))
    return ":".join(found)
