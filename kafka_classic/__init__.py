"""The Kafka of the 2011 LinkedIn paper, alive and in Python."""

__version__ = "0.1.0"
