"""The data directory: one broker's, found again after any stop, with its checkpoints."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path
from uuid import UUID

import pytest

from kafka_classic.log import log as log_module
from kafka_classic.log.checkpoint import read_checkpoint
from kafka_classic.log.directory import CLEAN_MARKER, RECOVERY_POINTS, START_OFFSETS, DirectoryInUse, LogDir
from kafka_classic.log.errors import StorageError
from kafka_classic.log.metadata import WrongOwner, read_meta
from tests.log.batches import NOW_MS, SMALL, a_clock, batch, fill, open_files, path_behind, values

ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
OTHER = UUID("00112233-4455-6677-8899-000000000000")


def opened(path: Path, broker: int = 1, cluster: str = "abc") -> LogDir:
    directory = LogDir(path, broker, cluster, clock=a_clock())
    directory.load()
    return directory


def test_logs_are_found_again_after_a_clean_stop(tmp_path: Path) -> None:
    directory = opened(tmp_path / "data")
    written = {p: fill(directory.open("topic-with-dash", p, ID, SMALL), 30 + p) for p in range(3)}
    directory.close()
    again = LogDir(tmp_path / "data", 1, "abc", clock=a_clock())
    assert again.load() == 3
    assert again.found == {("topic-with-dash", p): ID for p in range(3)}
    assert again.clean
    for partition, expected in written.items():
        assert values(again.open("topic-with-dash", partition, ID, SMALL)) == expected
    assert not (tmp_path / "data" / CLEAN_MARKER).exists()
    again.close()


def test_a_stop_that_was_not_clean_is_noticed_and_recovered_from(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.open("t", 0, ID, SMALL)
    written = fill(log, 30)
    log.flush()
    directory.checkpoint()
    assert read_checkpoint(tmp_path / RECOVERY_POINTS) == {("t", 0): log.end_offset}
    torn = log.segments[-1].path
    with torn.open("ab") as file:
        file.write(b"half a batch")
    directory._unlock()  # as the kernel does when the process is killed
    again = opened(tmp_path)
    assert not again.clean
    assert values(again.open("t", 0, ID, SMALL)) == written
    again.close()


def test_the_marker_is_not_written_when_a_log_failed(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    fill(directory.open("t", 0, ID, SMALL), 3)
    bad = directory.open("t", 1, ID, SMALL)
    bad.failed = StorageError(5, "broken")
    directory.close()
    assert not (tmp_path / CLEAN_MARKER).exists()
    again = opened(tmp_path)
    assert not again.clean
    again.close()


def test_deleted_records_stay_deleted(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.open("t", 0, ID, SMALL)
    fill(log, 10)
    log.advance_start_offset(5)
    directory.checkpoint()
    assert read_checkpoint(tmp_path / START_OFFSETS) == {("t", 0): 5}
    directory._unlock()
    again = opened(tmp_path)
    assert again.open("t", 0, ID, SMALL).start_offset == 5
    again.close()


def test_checkpoints_of_partitions_not_yet_opened_are_kept(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    for partition in (0, 1):
        fill(directory.open("t", partition, ID, SMALL), 10)
    directory.close()
    again = opened(tmp_path)
    again.open("t", 0, ID, SMALL)
    again.checkpoint()
    assert set(read_checkpoint(tmp_path / RECOVERY_POINTS)) == {("t", 0), ("t", 1)}
    again.close()


def test_an_unchanged_checkpoint_is_not_written_again_and_a_late_one_not_over_a_newer(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.open("t", 0, ID, SMALL)
    fill(log, 5)
    log.flush()
    late = directory.checkpoint_job()
    fill(log, 5)
    log.flush()
    directory.checkpoint()
    before = (tmp_path / RECOVERY_POINTS).stat().st_ino
    late()
    directory.checkpoint()
    assert (tmp_path / RECOVERY_POINTS).stat().st_ino == before
    assert read_checkpoint(tmp_path / RECOVERY_POINTS) == {("t", 0): log.end_offset}
    directory.close()


def test_damaged_checkpoints_cost_time_not_data(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    written = fill(directory.open("t", 0, ID, SMALL), 30)
    directory.close()
    for name in (RECOVERY_POINTS, START_OFFSETS):
        (tmp_path / name).write_bytes(b"")
    again = opened(tmp_path)
    assert values(again.open("t", 0, ID, SMALL)) == written
    again.close()


def test_a_dropped_partition_is_gone_at_once_and_may_come_again(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    fill(directory.open("t", 0, ID, SMALL), 30)
    directory.checkpoint()
    directory.drop("t", 0)
    assert not (tmp_path / "t-0").exists()
    directory.checkpoint()
    assert not list(tmp_path.glob("*-delete"))
    assert directory.open("t", 0, OTHER, SMALL).end_offset == 0
    directory.close()
    assert read_checkpoint(tmp_path / RECOVERY_POINTS) == {("t", 0): 0}


def test_a_deletion_that_was_cut_short_is_finished_by_the_next_start(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    directory.open("t", 0, ID, SMALL)
    directory.close()
    (tmp_path / "t-0").rename(tmp_path / "t-0.0123456789abcdef-delete")
    again = LogDir(tmp_path, 1, "abc")
    assert again.load() == 0
    assert not list(tmp_path.glob("t-0*"))
    again.close()


def test_a_folder_of_an_older_topic_of_the_same_name_is_set_aside(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    fill(directory.open("t", 0, ID, SMALL), 30)
    directory.close()
    again = opened(tmp_path)
    fresh = again.open("t", 0, OTHER, SMALL)
    assert fresh.end_offset == 0
    (stray,) = tmp_path.glob("t-0.*-stray")
    assert list(stray.glob("*.log"))
    again.close()
    third = opened(tmp_path)
    assert third.found == {("t", 0): OTHER}
    third.close()


def test_what_the_cluster_does_not_know_is_set_aside(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    for partition in range(3):
        directory.open("t", partition, ID, SMALL)
    directory.close()
    again = opened(tmp_path)
    again.open("t", 1, ID, SMALL)
    strays = [again.set_aside(*key) for key in list(again.found)]
    assert sorted(path.name.split(".")[0] for path in strays) == ["t-0", "t-2"]
    again.close()
    assert (tmp_path / CLEAN_MARKER).exists()
    assert set(read_checkpoint(tmp_path / RECOVERY_POINTS)) == {("t", 1)}


def test_a_clean_stop_does_not_vouch_for_what_was_never_opened(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    for partition in range(2):
        directory.open("t", partition, ID, SMALL)
    directory._unlock()
    again = opened(tmp_path)
    again.open("t", 0, ID, SMALL)
    again.close()
    assert not (tmp_path / CLEAN_MARKER).exists()


def test_opening_twice_gives_the_same_log(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.open("t", 0, ID, SMALL)
    assert directory.open("t", 0, ID, SMALL) is log
    directory.close()


def test_partition_metadata_is_kafkas(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    directory.open("t", 0, ID, SMALL)
    assert (tmp_path / "t-0" / "partition.metadata").read_text() == "version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u_w\n"
    directory.close()


def test_another_brokers_or_clusters_directory_is_refused(tmp_path: Path) -> None:
    opened(tmp_path, 1, "abc").close()
    assert read_meta(tmp_path) == {"version": "0", "broker.id": "1", "cluster.id": "abc"}
    with pytest.raises(WrongOwner, match=r"broker\.id=1, but this broker has broker\.id=2"):
        opened(tmp_path, 2, "abc")
    with pytest.raises(WrongOwner, match=r"cluster\.id=abc, but .* cluster\.id=xyz.*point log\.dirs"):
        opened(tmp_path, 1, "xyz")
    opened(tmp_path, 1, "abc").close()


def test_a_second_process_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    program = (
        "import sys; from pathlib import Path; from kafka_classic.log.directory import *\n"
        "try: LogDir(Path(sys.argv[1]), 1, 'abc')\n"
        "except DirectoryInUse as error: print(error)"
    )
    arguments = [sys.executable, "-P", "-c", program, str(tmp_path)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert "another broker runs on" in done.stdout, done.stderr
    with pytest.raises(DirectoryInUse, match="stop it"):
        LogDir(tmp_path, 1, "abc")
    directory.close()
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert done.stdout == done.stderr == ""


@pytest.mark.parametrize("name", ["../evil", "a/b", "", ".", "..", "a" * 250, "a b", "a\x00"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    directory = opened(tmp_path / "data")
    with pytest.raises(ValueError, match="is no name"):
        directory.open(name, 0, ID, SMALL)
    directory.close()
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_strange_folders_and_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "notes").write_text("mine")
    directory = opened(tmp_path)
    assert directory.found == {}
    directory.open("t", 0, ID, SMALL).append(batch(b"a"))
    directory.close()
    directory.close()
    assert (tmp_path / "lost+found").is_dir()
    assert (tmp_path / "notes").read_text() == "mine"


@pytest.mark.parametrize("restarted", [False, True])
def test_a_new_topic_does_not_inherit_the_offsets_of_a_deleted_namesake(tmp_path: Path, restarted: bool) -> None:
    directory = opened(tmp_path)
    log = directory.open("t", 0, ID, SMALL)
    fill(log, 50)
    log.flush()
    log.advance_start_offset(90)
    older = directory.checkpoint_job()
    directory.checkpoint()
    directory.drop("t", 0)
    if restarted:
        directory._unlock()  # a crash: the checkpoints are those of the deleted log
        directory = opened(tmp_path)
    log = directory.open("t", 0, OTHER, SMALL)
    if not restarted:
        older()  # one that was under way
    written = fill(log, 5)
    directory._unlock()
    again = opened(tmp_path)
    log = again.open("t", 0, OTHER, SMALL)
    assert (log.start_offset, values(log)) == (0, written)
    again.close()


def test_a_directory_that_was_never_loaded_is_left_as_it_is(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.open("t", 0, ID, SMALL)
    fill(log, 50)
    log.advance_start_offset(90)
    directory.checkpoint()
    directory._unlock()
    LogDir(tmp_path, 1, "abc").close()  # a start that failed early
    assert not (tmp_path / CLEAN_MARKER).exists()
    again = opened(tmp_path)
    assert again.open("t", 0, ID, SMALL).start_offset == 90
    again.close()


def test_a_log_that_could_not_be_recovered_is_not_called_clean_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = opened(tmp_path)
    log = directory.open("t", 0, ID, SMALL)
    written = fill(log, 50)
    with log.segments[-1].path.open("ab") as file:
        file.write(bytes(batch(b"torn", base_offset=log.end_offset))[:-1] + b"?")
    directory._unlock()
    directory = opened(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "preadv", out_of_order)
        with pytest.raises(StorageError):
            directory.open("t", 0, ID, SMALL)
    directory.close()
    again = opened(tmp_path)
    assert not again.clean
    assert values(again.open("t", 0, ID, SMALL)) == written
    again.close()


def test_the_marker_is_gone_from_the_disk_before_anything_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path).close()
    at_sync: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        os,
        "fsync",
        lambda fd: at_sync.append((path_behind(fd), (tmp_path / CLEAN_MARKER).exists())),
    )
    directory = opened(tmp_path)
    assert (str(tmp_path), False) in at_sync
    directory.close()


def test_a_checkpoint_that_a_crash_cut_short_is_swept_up(tmp_path: Path) -> None:
    (tmp_path / f"{RECOVERY_POINTS}.1234.tmp").write_bytes(b"0\n1\nt 0")
    opened(tmp_path).close()
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("partition", [0, 10000])
def test_the_longest_name_of_a_topic_can_be_deleted_and_set_aside(tmp_path: Path, partition: int) -> None:
    directory = opened(tmp_path)
    topic = "t" * 249
    directory.open(topic, partition, ID, SMALL)
    directory.drop(topic, partition)
    directory.checkpoint()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    directory.open(topic, partition, ID, SMALL)
    assert directory.set_aside(topic, partition).is_dir()
    assert not directory.folder(topic, partition).exists()
    directory.close()
    assert opened(tmp_path).found == {}


def test_what_was_deleted_leaves_the_disk_on_the_thread_of_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "LARGE", 1000)

    def still_open() -> set[str]:
        names = [path_behind(fd) for fd in open_files()]
        return {name.removesuffix(" (deleted)") for name in names if "(deleted)" in name and str(tmp_path) in name}

    directory = opened(tmp_path)
    log = directory.open("t", 0, ID, SMALL)
    fill(log, 100)
    log.advance_start_offset(log.end_offset)
    gone = {str(segment.path) for segment in log.segments if segment.size >= 1000}
    assert len(log.clean(NOW_MS / 1000)) > 3
    directory.open("u", 0, ID, SMALL)
    directory.drop("u", 0)
    job = directory.checkpoint_job()
    assert not [path for path in gone if Path(path).exists()]
    assert still_open() == gone
    assert len(list(tmp_path.glob("u-0*-delete"))) == 1
    thread = threading.Thread(target=job)
    thread.start()
    thread.join()
    assert still_open() == set()
    assert not list(tmp_path.glob("u-0*"))
    directory.close()


def out_of_order(*_: object) -> int:
    raise OSError(errno.EIO, "the disk is out of order")
