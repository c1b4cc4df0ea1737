"""Connections and the metadata cache, on plain sockets and threads."""
