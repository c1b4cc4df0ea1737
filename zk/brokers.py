"""The broker registry (P15): who is alive, by an ephemeral znode each that vanishes with its broker (P16)."""

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafka_classic.zk import paths
from kafka_classic.zk.errors import BrokerIdTaken
from kafka_classic.zk.session import Session
from kafka_classic.zk.watching import Changed, Watching
from kafka_classic.zk.znodes import Node, Znodes

log = logging.getLogger(__name__)

# How much longer than its session timeout an old session's znode may stand: ZooKeeper expires by whole ticks.
EXPIRY_SLACK_S = 4.0


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A live broker as it registered itself; `epoch` grows with every registration."""

    id: int
    host: str
    port: int
    rack: str | None = None
    epoch: int = -1
    timestamp: int = 0
    endpoints: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        """Kafka's JSON, version 5."""
        listeners = [endpoint.partition("://")[0] for endpoint in self.endpoints]
        value: dict[str, Any] = {
            "version": 5,
            "host": self.host,
            "port": self.port,
            "jmx_port": -1,
            "timestamp": str(self.timestamp),
            "endpoints": list(self.endpoints),
            "listener_security_protocol_map": {name: _protocol(name) for name in listeners},
            "features": {},
        }
        if self.rack is not None:
            value["rack"] = self.rack
        return json.dumps(value).encode()

    @classmethod
    def from_node(cls, broker_id: int, node: Node) -> "BrokerInfo":
        value = json.loads(node.data)
        return cls(
            id=broker_id,
            host=value.get("host") or "",
            port=int(value.get("port", -1)),
            rack=value.get("rack"),
            epoch=node.epoch,
            timestamp=int(value.get("timestamp", 0)),
            endpoints=tuple(value.get("endpoints", ())),
        )


def _protocol(listener: str) -> str:
    return listener if listener in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL") else "PLAINTEXT"


def bootstrap_of(brokers: Mapping[int, BrokerInfo]) -> str:
    """The addresses of these brokers, as a bootstrap list."""
    return ",".join(
        f"[{one.host}]:{one.port}" if ":" in one.host else f"{one.host}:{one.port}"
        for one in brokers.values()
        if one.port > 0
    )


def _setter(event: Any) -> Callable[[Any], None]:
    return lambda _: event.set()


class BrokerRegistry:
    """`/brokers/ids`: registers this broker and tells of all."""

    def __init__(self, session: Session, *, clock: Callable[[], float] = time.time) -> None:
        self._session = session
        self._nodes = Znodes(session)
        self._clock = clock
        self._mine: BrokerInfo | None = None
        self._hooked = False
        self._holds_address = False
        self._registered_again: Callable[[BrokerInfo], None] | None = None
        self._refused: Callable[[BrokerIdTaken], None] | None = None

    def register(
        self,
        info: BrokerInfo,
        *,
        holds_address: bool = False,
        registered_again: Callable[[BrokerInfo], None] | None = None,
        refused: Callable[[BrokerIdTaken], None] | None = None,
    ) -> BrokerInfo:
        """Registers this broker for as long as its session lives, and again by itself in every later session.

        `holds_address` says that the caller listens on the address it registers: a znode that names the same address is
        then of a broker that cannot be alive, and is replaced at once rather than waited for until it expires.
        `registered_again(info)` is called after each later registration, `refused(error)` if another broker took the
        id in between. Raises BrokerIdTaken if another live broker has the id.
        """
        self._holds_address = holds_address
        registered = self._register(info)
        self._mine, self._registered_again, self._refused = info, registered_again, refused
        if not self._hooked:
            self._hooked = True
            self._session.on_renewal(self._register_again)
        return registered

    def unregister(self) -> None:
        """Takes this broker's znode away, before the session ends (which would do it too)."""
        mine, self._mine = self._mine, None
        if mine is not None:
            node = self._nodes.get(paths.broker(mine.id))
            if node is not None and node.owner == self._session.session_id:
                self._nodes.delete(paths.broker(mine.id))

    def live(self) -> dict[int, BrokerInfo]:
        return self._read(None) or {}

    def watch(self, tell: Callable[[dict[int, BrokerInfo]], None], *, wait: bool = True) -> Watching:
        """`tell(brokers)` is called now and after every change, with all that live."""
        told: dict[int, BrokerInfo] | None = None

        def read_and_tell(changed: Changed) -> None:
            nonlocal told
            live = self._read(watching)
            if live is not None and live != told:
                told = live
                watching.tell(tell, dict(live))

        watching = Watching(self._session, read_and_tell)
        return watching.start(wait=wait)

    def _read(self, watching: Watching | None) -> dict[int, BrokerInfo] | None:
        watch = watching.fired if watching else None
        names = self._nodes.children(paths.BROKER_IDS, watch)
        if names is None:
            if watching is None:
                return {}
            self._nodes.ensure(paths.BROKER_IDS)
            names = self._nodes.children(paths.BROKER_IDS, watch) or []
        ids = sorted(int(name) for name in names if name.isdigit())
        # The data is watched too: a broker that leaves and comes back between two looks is the same child.
        nodes = self._nodes.get_many([paths.broker(id) for id in ids], watch)
        return {id: BrokerInfo.from_node(id, node) for id, node in zip(ids, nodes, strict=True) if node is not None}

    def _register(self, info: BrokerInfo) -> BrokerInfo:
        path = paths.broker(info.id)
        endpoints = info.endpoints or (f"PLAINTEXT://{info.host}:{info.port}",)
        info = replace(info, timestamp=int(self._clock() * 1000), endpoints=endpoints)
        deadline = time.monotonic() + self._session.timeout_s + EXPIRY_SLACK_S
        waited = False
        while True:
            self._nodes.create(path, info.to_json(), ephemeral=True)
            gone = self._session.handler.event_object()
            node = self._nodes.get(path, _setter(gone))
            if node is None:
                continue
            there = BrokerInfo.from_node(info.id, node)
            if node.owner == self._session.session_id:
                if node.data != info.to_json():
                    self._nodes.set(path, info.to_json())
                log.info("broker %d is registered as %s:%d, epoch %d", info.id, info.host, info.port, node.epoch)
                return replace(info, epoch=node.epoch)
            if (there.host, there.port) != (info.host, info.port) or time.monotonic() > deadline:
                raise BrokerIdTaken(
                    f"broker id {info.id} is taken by {there.host}:{there.port}; "
                    "choose another broker.id or stop that broker"
                )
            if self._holds_address:
                log.info("broker %d: the znode of its earlier life still stands and is replaced", info.id)
                self._nodes.delete(path)
                continue
            if not waited:
                log.info("broker %d: the znode of its earlier life still stands; waiting for it to expire", info.id)
                waited = True
            gone.wait(max(0.0, min(1.0, deadline - time.monotonic())))

    def _register_again(self) -> None:
        if self._mine is None:
            return
        try:
            info = self._register(self._mine)
        except BrokerIdTaken as error:
            log.error("%s", error)
            if self._refused is not None:
                self._refused(error)
            return
        if self._registered_again is not None:
            self._registered_again(info)
