"""What a whole cluster shares: its id, the numbering of brokers, and blocks of producer ids."""

import json
import uuid

from kazoo.exceptions import BadVersionError, NoNodeError

from kafka_classic.zk import paths
from kafka_classic.zk.session import Session
from kafka_classic.zk.topics import encode_uuid
from kafka_classic.zk.znodes import Znodes

PRODUCER_ID_BLOCK_SIZE = 1000


class ClusterRegistry:
    """The znodes that belong to no broker and no topic."""

    def __init__(self, session: Session) -> None:
        self._nodes = Znodes(session)

    def create_layout(self) -> None:
        """Creates the persistent parents of everything; may be repeated."""
        self._nodes.ensure(*paths.TOP_LEVEL)

    def cluster_id(self) -> str:
        """The id of the cluster, made by the first that asks."""
        while True:
            node = self._nodes.get(paths.CLUSTER_ID)
            if node is not None:
                return str(json.loads(node.data)["id"])
            proposed = encode_uuid(uuid.uuid4())
            self._nodes.create(paths.CLUSTER_ID, json.dumps({"version": "1", "id": proposed}).encode())

    def next_broker_id(self, reserved_max: int = 1000) -> int:
        """An id that no broker was given before, above `reserved.broker.max.id`."""
        while True:
            try:
                return reserved_max + self._nodes.set(paths.BROKER_SEQID, b"").version
            except NoNodeError:
                self._nodes.ensure(paths.BROKER_SEQID)

    def claim_producer_ids(self, broker_id: int) -> range:
        """A block of 1,000 producer ids that no other broker has or will get."""
        while True:
            node = self._nodes.get(paths.PRODUCER_ID_BLOCK)
            if node is None:
                self._nodes.ensure(paths.PRODUCER_ID_BLOCK)
                continue
            start = int(json.loads(node.data)["block_end"]) + 1 if node.data else 0
            if start > 2**63 - 1 - PRODUCER_ID_BLOCK_SIZE:
                raise OverflowError("all producer ids have been handed out")
            block = range(start, start + PRODUCER_ID_BLOCK_SIZE)
            value = {"version": 1, "broker": broker_id, "block_start": str(block[0]), "block_end": str(block[-1])}
            try:
                self._nodes.set(paths.PRODUCER_ID_BLOCK, json.dumps(value).encode(), node.version)
            except BadVersionError:
                continue  # another broker took this block (or a lost answer did: that block is given up)
            return block
