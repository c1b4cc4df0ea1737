"""Which partition of the offsets topic keeps a group: the broker that leads it is the group's coordinator."""


def java_hash(text: str) -> int:
    """`String.hashCode()` of Java: over UTF-16, in 32 bits with a sign."""
    value = 0
    raw = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(raw), 2):
        value = (31 * value + (raw[at] << 8 | raw[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_of(group: str, partitions: int) -> int:
    """As Kafka: the hash's absolute value, and 0 for the one number that has none in 32 bits."""
    value = java_hash(group)
    return 0 if value == -(1 << 31) else abs(value) % partitions
