"""What can go wrong with the registries, each with a message that says what to do."""


class ZooKeeperUnreachable(ConnectionError):
    """No answer within the session timeout. A write that ended so may still be done by ZooKeeper later."""


class SessionReplaced(ZooKeeperUnreachable):
    """The session in which this was begun has expired: what it held is gone, and nothing was written."""


class ConsumerIdTaken(RuntimeError):
    """Another live session is registered under this consumer id."""


class GroupNotEmpty(RuntimeError):
    """Consumers are registered in the group."""


class VersionConflict(RuntimeError):
    """Somebody else changed the znode since it was read: read it again and decide anew."""


class BrokerIdTaken(RuntimeError):
    """Another live broker is registered under this broker id."""


class TopicExists(ValueError):
    """A topic of this name is there already."""


class UnknownTopic(LookupError):
    """There is no topic of this name."""


class ZooKeeperFailed(RuntimeError):
    """The embedded server did not come to serve; the message holds the tail of its log."""


class ControllerFenced(RuntimeError):
    """Another controller was elected since: this one must write nothing more."""
