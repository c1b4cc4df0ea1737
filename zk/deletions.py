"""The topics that are to be deleted: asked for by any broker, done by the controller."""

from collections.abc import Callable

from kafka_classic.zk import paths
from kafka_classic.zk.session import Session
from kafka_classic.zk.watching import Changed, Watching
from kafka_classic.zk.znodes import Znodes


class TopicDeletions:
    """`/admin/delete_topics`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._nodes = Znodes(session)

    def request(self, topic: str) -> None:
        """Asks the controller to delete the topic; may be repeated."""
        self._nodes.create(paths.delete_topic(topic))

    def pending(self) -> list[str]:
        return sorted(self._nodes.children(paths.DELETE_TOPICS) or ())

    def done(self, topic: str) -> None:
        self._nodes.delete(paths.delete_topic(topic))

    def watch(self, tell: Callable[[list[str]], None], *, wait: bool = True) -> Watching:
        """`tell(topics)` is called now and after every change, with all that are to be deleted."""

        def read_and_tell(changed: Changed) -> None:
            names = self._nodes.children(paths.DELETE_TOPICS, watching.fired)
            if names is None:
                self._nodes.ensure(paths.DELETE_TOPICS)
                names = self._nodes.children(paths.DELETE_TOPICS, watching.fired)
            watching.tell(tell, sorted(names or ()))

        watching = Watching(self._session, read_and_tell)
        return watching.start(wait=wait)
