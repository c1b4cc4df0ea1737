"""A SparkSession that starts anywhere: a Java that is found, defaults for one machine, quiet, folders of its own.

    spark = spark_session("my job")                        # local[*], or --master of spark-submit
    spark = spark_session("my job", "spark://host:7077", {"spark.executor.memory": "4g"})

What the caller names is stronger than these defaults. Under spark-submit its settings hold, all but three of SQL's.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_classic.zk.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The second number: a task whose Python worker dies is tried again, as on a cluster. Spark's own local[*] gives up.
LOCAL = "local[*,4]"
# What our jobs count on, also in a session that others configured. Days and hours are those of UTC everywhere.
SQL = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_VECTOR = "jdk.incubator.vector"
_LOG4J = """\
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
# A job that no worker takes waits for ever: its cluster has too little memory, or cannot reach the driver.
logger.scheduler.name = org.apache.spark.scheduler.TaskSchedulerImpl
logger.scheduler.level = warn
"""
_WRAPPER = """\
#!/bin/sh
# Spark asks for a module that this Java runtime does not have, and does well without it.
for argument; do
  shift
  [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def spark_session(
    name: str = "kafka-classic",
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    *,
    log_level: str = "error",
) -> SparkSession:
    """Return the running session, or start one: Java found, our data source's settings on."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # Under spark-submit the JVM runs already, with what its user chose.
        return _configured(builder, {**SQL, **({"spark.master": master} if master else {}), **(conf or {})})
    chosen = master or LOCAL
    folder = Path(tempfile.mkdtemp(prefix="kafka-classic-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with _environment(_launch_environment(folder, chosen)):
        settings = {"spark.master": chosen, **SQL, **defaults(chosen, folder, log_level), **(conf or {})}
        return _configured(builder, settings)


def _configured(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession:
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def defaults(master: str, folder: Path, log_level: str = "error") -> dict[str, str]:
    """Return the settings that a job of ours runs with where nothing else is said."""
    log4j = folder / "log4j2.properties"
    log4j.write_text(_LOG4J.format(level=log_level))
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": log_level.upper(),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j.as_uri()}",
        "spark.sql.shuffle.partitions": str(max(2, min(16, 2 * (os.cpu_count() or 1)))),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        # A module of the user's in the working directory must not shadow what is installed.
        "spark.executorEnv.PYTHONSAFEPATH": "1",
    }
    if master.startswith("local"):
        settings |= {
            "spark.local.dir": str(folder / "local"),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    return settings


def java_home(folder: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Return a JAVA_HOME that Spark starts on; where the runtime lacks a module of Spark's, a wrapper's in `folder`."""
    java = find_java(environ).absolute()
    real = java.resolve()
    if java.name == "java" and java.parent.name == "bin" and _has_vector(real.parent.parent):
        return real.parent.parent
    wrapper = folder / "java" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(_WRAPPER.format(module=_VECTOR, java=real))
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    return wrapper.parent.parent


def _has_vector(home: Path) -> bool:
    """Whether the runtime names the module in its `release` file; one that does not say gets the wrapper."""
    try:
        release = (home / "release").read_text(errors="replace")
    except OSError:
        return False
    return _VECTOR in release


def _launch_environment(folder: Path, master: str) -> dict[str, str]:
    named = {
        "JAVA_HOME": str(java_home(folder)),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONSAFEPATH": "1",
    }
    if master.startswith("local"):
        named["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
    return named


@contextmanager
def _environment(named: Mapping[str, str]) -> Iterator[None]:
    """These variables for the JVM that is started meanwhile, and for nobody after it."""
    before = {key: os.environ.get(key) for key in named}
    os.environ.update(named)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value
