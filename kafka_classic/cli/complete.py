"""Tab completion of the names of topics and groups, asked of the cluster if it answers quickly, else nothing."""

from __future__ import annotations

import typer


def topic_names(context: typer.Context, incomplete: str) -> list[str]:
    """The topics whose names begin like this; a cluster that does not answer must not hold up the shell."""
    from kafka_classic.cli.options import DEFAULT_BOOTSTRAP
    from kafka_classic.cli.reach import connect

    bootstrap = context.params.get("bootstrap") or DEFAULT_BOOTSTRAP
    try:
        with connect(bootstrap, connect_timeout=0.5, deadline=0.5) as cluster:
            cluster.request_timeout = 0.5
            return sorted(name for name in cluster.metadata().topics if name.startswith(incomplete))
    except Exception:
        return []


def group_names(context: typer.Context, incomplete: str) -> list[str]:
    """The groups in ZooKeeper whose names begin like this."""
    from kafka_classic.cli.reach import connect_zookeeper

    try:
        from kafka_classic.zk.offsets import OffsetRegistry

        with connect_zookeeper(context.params.get("zookeeper"), timeout=0.5) as session:
            return [name for name in OffsetRegistry(session).groups() if name.startswith(incomplete)]
    except Exception:
        return []
