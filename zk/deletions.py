"""The topics that are to be deleted: asked for by any broker, done by the controller."""

from collections.abc import Callable

from kazoo.exceptions import NodeExistsError, NoNodeError

from kafka_classic.zk import paths
from kafka_classic.zk.errors import UnknownTopic
from kafka_classic.zk.session import Session
from kafka_classic.zk.watching import Changed, Watching
from kafka_classic.zk.znodes import Check, Create, Znodes


class TopicDeletions:
    """`/admin/delete_topics`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._nodes = Znodes(session)

    def request(self, topic: str) -> None:
        """Asks the controller to delete the topic; may be repeated. UnknownTopic if there is none.

        A request stands only while its topic does (TopicRegistry.delete takes both away at once), so that it cannot
        hit a later topic of the same name.
        """
        while True:
            try:
                self._nodes.transact([Check(paths.topic(topic), -1), Create(paths.delete_topic(topic))])
                return
            except NodeExistsError:
                return
            except NoNodeError:
                if not self._nodes.exists(paths.topic(topic)):
                    raise UnknownTopic(f"there is no topic {topic!r}") from None
                self._nodes.ensure(paths.DELETE_TOPICS)

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
