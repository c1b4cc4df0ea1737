"""ApiVersions: what this broker serves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kio.schema.api_versions.v4.request import ApiVersionsRequest

from kafka_classic.wire.bodies import api_versions_body
from kafka_classic.wire.errors import Error

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker
    from kafka_classic.broker.connection import Connection

SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(broker: Broker, connection: Connection, request: ApiVersionsRequest) -> Any:
    """The table of APIs; a client of version 3 or later that misnames itself is told so, as Kafka does."""
    for text in (request.client_software_name, request.client_software_version):
        if text and SOFTWARE.fullmatch(text) is None:
            return api_versions_body(Error.invalid_request)
    return api_versions_body()
