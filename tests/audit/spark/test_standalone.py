"""The audit on a real Spark cluster: a standalone master and two workers, out of the pip package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from kafka_classic import Producer
from kafka_classic.audit.session import java_home
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.topics import NewTopic, create_topics
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.ports import PortLeases
from kafka_classic.testing.waiting import until

CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
DEPLOY = "org.apache.spark.deploy"


@contextmanager
def server(folder: Path, name: str, environment: dict[str, str], *arguments: str) -> Iterator[Path]:
    """A daemon of Spark's, and where it logs."""
    log = folder / f"{name}.log"
    with open(log, "wb") as file:
        process = subprocess.Popen([CLASS, *arguments], env=environment, stdout=file, stderr=file)
    try:
        yield log
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def await_line(log: Path, text: str, count: int = 1) -> None:
    def said() -> str:
        return log.read_text(errors="replace")

    until(lambda: said().count(text) >= count, f"{text!r} of {log.name}", 120, sight=said)


def test_the_audit_runs_unchanged_on_a_cluster(kafka_cluster: LocalCluster, tmp_path: Path) -> None:
    with Cluster(kafka_cluster.bootstrap) as client:
        create_topics(client, [NewTopic("far", 4, 1)])
    with Producer(kafka_cluster.bootstrap, audit=True) as producer:
        begin = int(time.time() * 1000) // 60_000 * 60_000 - 600_000
        for number in range(400):
            producer.send("far", b"%d" % number, timestamp=begin + number % 3 * 60_000)
    leases = PortLeases()
    port, web = leases.draw(), leases.draw()
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home(tmp_path)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_OPTS": "-Dspark.worker.ui.retainedExecutors=2",
    }
    master = f"spark://127.0.0.1:{port}"
    try:
        with ExitStack() as stack:
            listen = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web))
            log = stack.enter_context(server(tmp_path, "master", environment, f"{DEPLOY}.master.Master", *listen))
            await_line(log, "Starting Spark master")
            for number in range(2):
                options = ("--cores", "1", "--memory", "600m", "--host", "127.0.0.1", "--webui-port", "0")
                work = ("--work-dir", str(tmp_path / f"work-{number}"))
                worker = (f"{DEPLOY}.worker.Worker", *options, *work, master)
                stack.enter_context(server(tmp_path, f"worker-{number}", environment, *worker))
            await_line(log, "Registering worker", 2)
            command = ["audit", "run", "--bootstrap", kafka_cluster.bootstrap, "--topics", "far", "--json"]
            done = subprocess.run(
                [sys.executable, "-P", "-m", "kafka_classic.cli", *command, "--master", master],
                env={**environment, "PYSPARK_SUBMIT_ARGS": "--conf spark.executor.memory=512m pyspark-shell"},
                capture_output=True,
                text=True,
                timeout=240,
            )
            executors = [log for number in range(2) for log in (tmp_path / f"work-{number}").glob("app-*/*/stderr")]
    finally:
        leases.release_all()
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["verdict"] == "complete"
    assert sum(cell["tiers"]["log"]["count"] for cell in told["cells"]) == 400
    assert len(executors) == 2, "both workers had an executor"
