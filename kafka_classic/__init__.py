"""The Kafka of the 2011 LinkedIn paper, alive and in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka_classic.producer import Producer

__version__ = "0.1.0"
__all__ = ["Producer", "__version__"]


def __getattr__(name: str) -> Any:
    # Imported when first asked for: `import kafka_classic` costs nothing.
    if name == "Producer":
        from kafka_classic.producer import Producer

        return Producer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
