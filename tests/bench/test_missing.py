"""Who cannot run here is named, with what brings it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.peers import activemq, java, rabbitmq
from bench.peers.activemq import ActiveMQ
from bench.peers.apache_kafka import ApacheKafka
from bench.peers.rabbitmq import RabbitMQ


def test_rabbitmq_is_brought_by_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(rabbitmq, "SCRIPT", tmp_path / "rabbitmq-server")
    assert "package rabbitmq-server" in RabbitMQ().missing()


def test_activemq_is_brought_by_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(activemq, "HOME", tmp_path)
    assert "package activemq" in ActiveMQ().missing()


def test_a_client_library_that_lacks_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "here.jar").touch()
    monkeypatch.setattr(java, "find", lambda jar: tmp_path / jar if (tmp_path / jar).exists() else None)
    why = java.missing(("here.jar", "amqp-client.jar"), "librabbitmq-client-java")
    assert why.startswith("amqp-client.jar not found")
    assert "package librabbitmq-client-java" in why


def test_a_jar_is_found_in_the_first_folder_that_has_it(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    (tmp_path / "two/a.jar").touch()
    places = [tmp_path / "one", tmp_path / "two"]
    assert java.find("a.jar", places) == tmp_path / "two/a.jar"
    assert java.find("b.jar", places) is None


def test_without_a_compiler_a_jdk_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None if program == "javac" else f"/bin/{program}")
    assert "default-jdk-headless" in java.missing((), "none")


def test_apache_kafka_is_asked_for_by_kafka_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    assert ApacheKafka().missing().startswith("KAFKA_HOME is not set")
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    assert "has no bin/kafka-storage.sh" in ApacheKafka().missing()
