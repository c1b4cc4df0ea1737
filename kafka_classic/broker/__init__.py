"""The gevent server, its request handlers, purgatory, and the place where all is wired together."""
