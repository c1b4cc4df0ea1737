"""Tab completion of topic names, asked of the cluster if it answers quickly, else nothing."""

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
