"""The election of the controller: the broker whose ephemeral `/controller` stands, fenced by `/controller_epoch`.

    candidate -- one transaction creates /controller and raises /controller_epoch --> elected, with a mandate
    elected -- resigns, or its session ends --> /controller is gone; every candidate hears of it and tries

A mandate holds the version of `/controller_epoch` that the election made. What a controller writes carries a check of
that version in the same transaction, so one that was replaced and does not know it yet cannot write.
"""

import json
import time
from collections.abc import Callable
from typing import NamedTuple

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from kafka_classic.zk import paths
from kafka_classic.zk.errors import ControllerFenced
from kafka_classic.zk.session import Session
from kafka_classic.zk.watching import Changed, Watching
from kafka_classic.zk.znodes import Check, Create, Delete, Node, Operation, SetData, Znodes


class Mandate(NamedTuple):
    """What an election gave: the controller's epoch, and the version of the znode that holds it."""

    epoch: int
    zk_version: int

    def check(self) -> Check:
        """The operation that makes a transaction fail when another controller was elected since."""
        return Check(paths.CONTROLLER_EPOCH, self.zk_version)


class ControllerElection:
    """`/controller` and `/controller_epoch`."""

    def __init__(self, session: Session, *, clock: Callable[[], float] = time.time) -> None:
        self._session = session
        self._nodes = Znodes(session)
        self._clock = clock

    def elect(self, broker_id: int) -> Mandate | None:
        """Become the controller if there is none; None if another one stands.

        If this very session holds the place, it is taken anew with a raised epoch: what the earlier mandate still has
        under way then fails. A place held by an earlier life of this broker is taken likewise, rather than waited for
        until that session expires: who calls this is registered under the id, so the one before cannot be alive.
        """
        value = {"version": 1, "brokerid": broker_id, "timestamp": str(int(self._clock() * 1000))}
        while True:
            # In this order: if the epoch is unchanged when it is written, nobody was elected since.
            epoch = self._nodes.get(paths.CONTROLLER_EPOCH)
            if epoch is None:
                self._nodes.create(paths.CONTROLLER_EPOCH, b"0")
                continue
            there = self._nodes.get(paths.CONTROLLER)
            ours = there is not None and there.owner == self._session.session_id
            if there is not None and not ours and _broker_of(there) != broker_id:
                return None
            number = int(epoch.data) + 1
            operations: list[Operation] = [SetData(paths.CONTROLLER_EPOCH, str(number).encode(), epoch.version)]
            if there is not None and not ours:
                operations.append(Delete(paths.CONTROLLER))
            if not ours:
                operations.append(Create(paths.CONTROLLER, json.dumps(value).encode(), ephemeral=True))
            try:
                self._nodes.transact(operations)
            except (BadVersionError, NodeExistsError, NoNodeError):
                continue  # somebody was quicker, or our own first try was done and its answer lost
            return Mandate(number, epoch.version + 1)

    def resign(self, mandate: Mandate) -> bool:
        """Gives the place up, if it is still this mandate's."""
        try:
            self._nodes.transact([mandate.check(), Delete(paths.CONTROLLER)])
        except (BadVersionError, NoNodeError):
            return False
        return True

    def current(self) -> int | None:
        """The id of the broker that is the controller now."""
        node = self._nodes.get(paths.CONTROLLER)
        return None if node is None else _broker_of(node)

    def check(self, mandate: Mandate) -> None:
        """Raises ControllerFenced if another was elected since."""
        try:
            self._nodes.transact([mandate.check()])
        except (BadVersionError, NoNodeError):
            raise fenced(mandate) from None

    def watch(self, tell: Callable[[int | None], None], *, wait: bool = True) -> Watching:
        """`tell(broker id)` is called now and after every change of hands, with None while there is no controller."""

        def read_and_tell(changed: Changed) -> None:
            if self._nodes.exists(paths.CONTROLLER, watching.fired):
                watching.tell(tell, self.current())
            else:
                watching.tell(tell, None)

        watching = Watching(self._session, read_and_tell)
        return watching.start(wait=wait)


def _broker_of(node: Node) -> int:
    return int(json.loads(node.data)["brokerid"])


def fenced(mandate: Mandate) -> ControllerFenced:
    return ControllerFenced(f"the controller of epoch {mandate.epoch} was replaced by a later one")
