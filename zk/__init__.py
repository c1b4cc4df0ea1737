"""One kazoo session, the znode paths, one small class per registry, and the embedded ZooKeeper server."""
