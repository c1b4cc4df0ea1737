"""A durable log that knows nothing of sockets or ZooKeeper."""
