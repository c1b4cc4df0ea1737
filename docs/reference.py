"""Write the reference pages that are made from the code: `make docs`, or python -P docs/reference.py [--check].

docs/settings.md comes from the typed settings, docs/protocol.md from the table of APIs. With --check nothing is
written: the exit code is 1 when a page is not what the code says.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from kafka_classic.consumer import ConsumerSettings
from kafka_classic.producer import ProducerSettings
from kafka_classic.settings import MAX_INT, MAX_LONG, BrokerSettings, Kind, Setting, TopicSettings
from kafka_classic.wire.apis import CONTROL, FLEXIBLE_FROM, NAMED_UPTO, SERVED, Api

DOCS = Path(__file__).resolve().parent
_UNITS = (("day", 86_400_000), ("hour", 3_600_000), ("min", 60_000), ("s", 1000))
_TIMES = {".ms": 1, ".seconds": 1000, ".minutes": 60_000}
_SIZES = (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10))


SETTINGS = """<!-- made by `make docs`: change the code it comes from, not this page -->

# Settings

Names and defaults are Kafka's; the consumer's are those of Kafka 0.8, whose consumer it is. They are checked when a
broker or a client starts: a misspelt one is refused with the nearest right name, a value out of range with the range.
Sizes are in bytes. Of a [broker](#broker), a [topic](#topic), our [producer](#producer), the paper's
[consumer](#consumer); what to set so that nothing is lost: [operating](operating.md#to-lose-nothing).

## Broker

`kafka-classic broker --config server.properties --set NAME=VALUE`, or `kafka-classic up --set NAME=VALUE` for all
brokers of this machine. They are read when the broker starts: to change one is to restart it. Kafka's `log.dir`,
`log.retention.hours`, `log.retention.minutes` and `log.roll.hours` are understood too.

{broker}
## Topic

`kafka-classic topics create NAME --config NAME=VALUE`, and `topics alter`, which holds at once. What a topic does not
set is the broker's setting in the last column. A classic topic (`--classic`) is flushed after 500 messages or 200 ms
unless it says otherwise.

{topic}
## Producer

`Producer(bootstrap, linger_ms=5)` or `Producer(bootstrap, {{"linger.ms": 5}})`.

{producer}
## Consumer

`ConsumerConnector(zookeeper, group, auto_offset_reset="smallest")`, or a dict with dots in the names.

{consumer}"""

PROTOCOL = """<!-- made by `make docs`: change the code it comes from, not this page -->

# The protocol

A broker speaks Kafka's wire protocol: these APIs, in these versions, are what it answers an ApiVersions request with.
Anything else closes the connection, as in Kafka, but for an ApiVersions request of another version: that is answered
with UNSUPPORTED_VERSION and what is served, so that a newer client can come down to it.

Which clients that serves, and how far: [the README](../README.md#what-works-with-which-client).

*Flexible from*: the first version with compact lengths and tag buffers (KIP-482). *Topics*: from which version on
requests name topics by their id.

## From clients

{clients}
Produce is announced from version 0, as by Kafka 4: librdkafka takes a broker without it for one that knows no message
sets. Versions below 3 are refused when they come.

## Among brokers

The controller's word to the others, as in Kafka with ZooKeeper. The controller's epoch fences what a former one still
sends. Nothing else keeps others from sending them: there is no security yet.

{brokers}
Followers fetch by the Fetch request that consumers send, and ask by OffsetForLeaderEpoch where to cut their logs.

## Not served

{others}.
"""


def settings_page() -> str:
    """Every setting of broker, topic, producer and consumer."""
    return SETTINGS.format(
        broker=_settings(BrokerSettings.TABLE),
        topic=_settings(TopicSettings.TABLE),
        producer=_settings(ProducerSettings.TABLE),
        consumer=_settings(ConsumerSettings.TABLE),
    )


def _settings(table: Mapping[str, Setting]) -> str:
    synonyms = any(setting.synonym for setting in table.values())
    headings = ["name", "type", "default", "range", "what it does", *(["broker's setting"] if synonyms else [])]
    return _table(headings, [_setting(setting, synonyms) for setting in table.values()])


def _setting(setting: Setting, synonyms: bool) -> list[str]:
    kind = {Kind.LIST: "list", Kind.LONG: "integer", Kind.INT: "integer"}.get(setting.kind, setting.kind.name.lower())
    default = setting.text(setting.default)
    shown = f"`{default}`" if default else "(empty)"
    plain = _plain(setting)
    row = [
        f"`{setting.name}`", kind, f"{shown} ({plain})" if plain else shown, _range(setting), setting.doc,
    ]  # fmt: skip
    return [*row, f"`{setting.synonym}`" if setting.synonym else ""] if synonyms else row


def _plain(setting: Setting) -> str:
    """A number in words that a person reads: 7 days, 1 GB."""
    value = setting.default
    if value == sys.float_info.max:
        return "no limit"
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        return ""
    if value == (MAX_LONG if setting.kind is Kind.LONG else MAX_INT):
        return "no limit"
    time = next((factor for ending, factor in _TIMES.items() if setting.name.endswith(ending)), 0)
    if time:
        value *= time
        for unit, size in _UNITS:
            if value >= size and value % size == 0:
                count = value // size
                return f"{count} {unit}{'s' if unit in ('day', 'hour') and count > 1 else ''}"
        return ""
    if setting.name.endswith(".backlog.size"):
        return ""  # connections
    if "bytes" in setting.name or setting.name.endswith((".size", ".memory")):
        for unit, size in _SIZES:
            if value >= size and value % size == 0:
                return f"{value // size} {unit}"
    return ""


def _range(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(f"`{choice}`" if choice else "(empty)" for choice in setting.choices)
    if setting.low is None:
        return ""
    if setting.high is None or setting.high in (MAX_INT, MAX_LONG, sys.float_info.max):
        return f"{setting.low} or more"
    return f"{setting.low} to {setting.high}"


def protocol_page() -> str:
    """Every API and the versions of it that a broker serves."""
    return PROTOCOL.format(
        clients=_apis(api for api in SERVED if api not in CONTROL),
        brokers=_apis(api for api in SERVED if api in CONTROL),
        others=", ".join(_name(api) for api in Api if api not in SERVED),
    )


def _apis(apis: Iterable[Api]) -> str:
    rows = []
    for api in sorted(apis):
        low, high = SERVED[api]
        flexible = FLEXIBLE_FROM[api]
        named = NAMED_UPTO.get(api)
        rows.append(
            [
                _name(api),
                str(int(api)),
                f"{low} to {high}" if low < high else str(low),
                str(max(flexible, low)) if flexible <= high else "",
                "" if named is None else f"by id from {named + 1}",
            ]
        )
    return _table(["API", "key", "versions", "flexible from", "topics"], rows)


def _name(api: Api) -> str:
    return "".join(part.capitalize() for part in api.name.split("_"))


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [[*headings]]
    lines.append(["---"] * len(lines[0]))
    lines += [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


PAGES: dict[str, Callable[[], str]] = {"settings.md": settings_page, "protocol.md": protocol_page}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, fail when a page is not up to date")
    options = parser.parse_args()
    stale = []
    for name, make in PAGES.items():
        path, text = DOCS / name, make()
        if options.check and (not path.exists() or path.read_text(encoding="utf-8") != text):
            stale.append(name)
        if not options.check:
            path.write_text(text, encoding="utf-8")
    if stale:
        print(f"not what the code says: {', '.join(stale)}; run `make docs`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
