"""Is the broker at this port well? It serves, and a controller has told it of the cluster. For the containers' checks.

    python -S healthy.py 9092

With the standard library alone, because it runs every few seconds: our own client would take half a second of CPU to
import. It asks for the metadata of no topic (Metadata, version 1) and looks at who is said to be the controller.
"""

import socket
import struct
import sys

QUESTION = struct.pack(">hhih7si", 3, 1, 0, 7, b"healthy", 0)
PATIENCE_S = 5.0


def controller(host: str, port: int) -> int:
    """The id of the controller as this broker knows it; -1 before it was told."""
    with socket.create_connection((host, port), PATIENCE_S) as connection:
        connection.sendall(struct.pack(">i", len(QUESTION)) + QUESTION)
        answer = connection.makefile("rb")
        body = answer.read(struct.unpack(">i", answer.read(4))[0])
    at = 8  # after the correlation id and the count of brokers
    for _ in range(struct.unpack_from(">i", body, 4)[0]):
        at += 4  # the broker's id
        at += 2 + struct.unpack_from(">h", body, at)[0]  # its host
        at += 4  # its port
        at += 2 + max(0, struct.unpack_from(">h", body, at)[0])  # its rack, if it has one
    return int(struct.unpack_from(">i", body, at)[0])


if __name__ == "__main__":
    try:
        known = controller("127.0.0.1", int(sys.argv[1]))
    except (OSError, struct.error) as error:
        sys.exit(f"the broker does not answer: {error}")
    if known < 0:
        sys.exit("the broker has heard of no controller")
