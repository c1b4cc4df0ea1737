"""What can go wrong between a client and a broker: each with Kafka's code, and a message that says what to do."""

from __future__ import annotations

import errno
import socket

from kafka_classic.wire.errors import Error, KafkaError


class Unreachable(KafkaError):
    """No connection could be made."""


class ConnectionLost(KafkaError):
    """The connection ended, or was ended, before the answer was whole. The request may have been carried out."""


class RequestTimedOut(KafkaError):
    """No answer came in time. The request may have been carried out."""


class Refused(KafkaError):
    """The cluster understood the request and said no: to try the same again is no use."""

    @property
    def retriable(self) -> bool:
        return False


class UnknownTopic(Refused):
    """There is no such topic or partition.

    Kafka's clients try this code again for a minute; whoever misspelt a name wants to hear it at once.
    """


class Closed(KafkaError):
    """The connection was closed on our own side."""


def unreachable(address: str, error: OSError) -> Unreachable:
    """Say in a person's words why a broker cannot be connected to."""
    hint = "is it running? try `kafka-classic status`"
    if isinstance(error, socket.gaierror):
        reason, hint = "its host name is unknown", "check the address for a misspelling"
    elif isinstance(error, TimeoutError):
        reason, hint = "it does not answer", "is the address right, and no firewall between?"
    elif error.errno == errno.ECONNREFUSED:
        reason = "connection refused"
    else:
        reason = (error.strerror or str(error)).lower()
    return Unreachable(Error.network_exception, f"cannot reach broker {address}: {reason}; {hint}")
