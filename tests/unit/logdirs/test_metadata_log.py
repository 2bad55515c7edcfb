"""What a metadata log begins with, and how it is summed up; what else it does is tested through the log
(test_log.py).
"""

import uuid
from contextlib import suppress
from errno import EIO, ENOSPC

import pytest

from pylog.errors import CorruptBatch, StorageError
from pylog.files import Files, MemoryFiles, join
from pylog.kernel import walk
from pylog.logdirs.log_directories import Directories
from pylog.logdirs.metadata_log import MetadataLog
from pylog.protocol.metadata_changes import create_topic, remove_topic
from pylog.protocol.metadata_image import FEATURES, encode_record
from pylog.storage.checkpoint import write_topic_id
from support.sampling import every
from tests.support.faults import FaultFiles

METADATA = "data/__cluster_metadata-0"


def opened(files: Files, *, snapshot_after: int = 20 << 20) -> MetadataLog:
    return MetadataLog(Directories(files, ["data"], None), lambda: 1_700_000_000_000, snapshot_after)


def close(metadata_log: MetadataLog) -> None:
    partition = metadata_log.partition
    metadata_log.close()
    metadata_log.directory.write_checkpoints([partition] if partition is not None else [])
    metadata_log.directory.close(clean=True)


def add_topic(metadata_log: MetadataLog, name: str) -> None:
    replicas = {0: [(metadata_log.directory.node_id, metadata_log.directory.directory_id)]}
    metadata_log.commit(create_topic(name, uuid.uuid4(), replicas, leader=metadata_log.directory.node_id))


def test_a_new_log_begins_with_the_features_of_a_new_cluster() -> None:
    files = MemoryFiles()
    metadata_log = opened(files)
    assert metadata_log.image.features == {}
    add_topic(metadata_log, "t")
    assert metadata_log.image.features == FEATURES
    spans, _, _ = walk(files.read_file(f"data/__cluster_metadata-0/{0:020d}.log"))
    assert len(spans) == 2, "who leads; features, node and topic in one batch"
    close(metadata_log)
    again = opened(files)
    assert again.image.features == FEATURES
    end = again.partition and again.partition.next_offset
    add_topic(again, "u")
    assert again.partition is not None
    assert again.partition.next_offset == (end or 0) + 2, "the topic and its partition: the rest is there already"
    close(again)


def test_an_image_seen_before_a_change_stays_the_same() -> None:
    metadata_log = opened(MemoryFiles())
    before = metadata_log.image
    add_topic(metadata_log, "t")
    assert (dict(before.topics), sorted(metadata_log.image.topics["t"].partitions)) == ({}, [0])
    close(metadata_log)


def test_a_log_that_an_older_pylog_began_gets_its_features_with_the_next_change() -> None:
    files = MemoryFiles()
    older = opened(files)
    older.image.features["nothing"] = 0  # as if they were there: they are not written
    add_topic(older, "t")
    close(older)
    metadata_log = opened(files)
    assert (metadata_log.image.topics.keys(), metadata_log.image.features) == ({"t"}, {})
    add_topic(metadata_log, "u")
    assert (metadata_log.image.topics.keys(), metadata_log.image.features) == ({"t", "u"}, FEATURES)
    close(metadata_log)


# --- snapshots --------------------------------------------------------------------------------------------------------


def grown(files: MemoryFiles, *names: str) -> MemoryFiles:
    """A topic a run, and a snapshot a run."""
    for name in names:
        metadata_log = opened(files, snapshot_after=1)
        add_topic(metadata_log, name)
        close(metadata_log)
    return files


def files_of(files: MemoryFiles, suffix: str) -> list[str]:
    return [name for name in files.list_dir(METADATA) if name.endswith(suffix)]


def topics(files: MemoryFiles) -> list[str]:
    metadata_log = opened(files)
    found = list(metadata_log.image.topics)
    close(metadata_log)
    return found


def flip(files: MemoryFiles, name: str) -> None:
    data = bytearray(files.read_file(join(METADATA, name)))
    data[-40] ^= 1
    files.replace_file(join(METADATA, name), bytes(data))


def kill(files: MemoryFiles) -> None:
    files.remove("data/.kafka_cleanshutdown")


def test_a_small_metadata_log_is_not_summed_up() -> None:
    files = MemoryFiles()
    for name in "ab":
        metadata_log = opened(files)
        add_topic(metadata_log, name)
        close(metadata_log)
    assert files_of(files, ".checkpoint") == []


def test_two_snapshots_stay_and_the_log_from_the_older_one_on() -> None:
    files = grown(MemoryFiles(), "a", "b")
    assert len(files_of(files, ".checkpoint")) == 2
    grown(files, "c", "d")
    older, newer = files_of(files, ".checkpoint")
    assert [name[:20] for name in files_of(files, ".log")] == [older[:20], newer[:20]]
    metadata_log = opened(files)
    assert metadata_log.partition is not None
    assert metadata_log.partition.start_offset == int(older[:20])
    assert list(metadata_log.image.topics) == ["a", "b", "c", "d"]
    close(metadata_log)


def test_an_unchanged_metadata_log_is_not_summed_up_again() -> None:
    files = grown(MemoryFiles(), "a", "b")
    before = files_of(files, ".checkpoint"), files_of(files, ".log")
    close(opened(files, snapshot_after=1))
    close(opened(files, snapshot_after=1))
    assert (files_of(files, ".checkpoint"), files_of(files, ".log")) == before


def test_a_snapshot_is_due_when_the_log_has_grown_by_a_part_of_the_last() -> None:
    files = MemoryFiles()
    metadata_log = opened(files)
    for number in range(100):
        add_topic(metadata_log, f"many-{number}")
    close(metadata_log)
    (snapshot,) = files_of(files, ".checkpoint")
    stat = files.stat(join(METADATA, snapshot))
    assert stat is not None
    metadata_log = opened(files)
    for number in range(stat.size // 4 // 230):
        add_topic(metadata_log, f"more-{number}")
    close(metadata_log)
    assert files_of(files, ".checkpoint") == [snapshot], "grown by less than a quarter"
    metadata_log = opened(files)
    for number in range(100):
        add_topic(metadata_log, f"last-{number}")
    close(metadata_log)
    assert len(files_of(files, ".checkpoint")) == 2


@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_newest_snapshot_loses_nothing(*, clean: bool) -> None:
    files = grown(MemoryFiles(), "a", "b", "c")
    flip(files, files_of(files, ".checkpoint")[-1])
    if not clean:
        kill(files)
    assert topics(files) == ["a", "b", "c"]
    assert topics(grown(files, "d", "e")) == ["a", "b", "c", "d", "e"]


def test_a_log_without_a_good_snapshot_is_refused_and_untouched() -> None:
    files = grown(MemoryFiles(), "a", "b", "c")
    for name in files_of(files, ".checkpoint"):
        flip(files, name)
    kill(files)
    before = files_of(files, ".checkpoint"), files_of(files, ".log")
    for _ in range(2):
        directories = Directories(files, ["data"], None)
        with pytest.raises(CorruptBatch, match="from a backup"):
            MetadataLog(directories, lambda: 0)
        directories.release()
    assert (files_of(files, ".checkpoint"), files_of(files, ".log")) == before


def test_a_log_goes_on_from_a_snapshot_alone() -> None:
    files = grown(MemoryFiles(), "a", "b")
    newest = files_of(files, ".checkpoint")[-1]
    for name in files.list_dir(METADATA):
        if name not in (newest, "partition.metadata"):
            files.remove(join(METADATA, name))
    for name in (".pylog-published", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        files.remove(join("data", name))
    metadata_log = opened(files)
    add_topic(metadata_log, "c")
    assert metadata_log.partition is not None
    assert metadata_log.partition.start_offset == int(newest[:20])
    assert metadata_log.epoch == int(newest[21:31]) + 1
    close(metadata_log)
    assert topics(files) == ["a", "b", "c"]


def summing_up(kept: MemoryFiles, fail_at: int | None, error: int) -> tuple[MetadataLog, FaultFiles]:
    """A log with two snapshots, and a change, before a call fails."""
    grown(kept, "a", "b")
    files = FaultFiles(kept, error=error)
    metadata_log = opened(files, snapshot_after=1)
    add_topic(metadata_log, "c")
    if fail_at is not None:
        files.faults.fail_at = len(files.sites) + fail_at
    return metadata_log, files


@pytest.mark.parametrize("error", [ENOSPC, EIO])
def test_a_fault_at_any_step_of_a_snapshot_loses_nothing(error: int) -> None:
    metadata_log, files = summing_up(MemoryFiles(), None, error)
    before = len(files.sites)
    metadata_log.take_snapshot()
    calls = len(files.sites) - before
    for fail_at in every(2, range(1, calls + 1)):
        kept = MemoryFiles()
        metadata_log, files = summing_up(kept, fail_at, error)
        with suppress(StorageError):
            metadata_log.take_snapshot()
        assert files.failed
        if metadata_log.partition is not None and metadata_log.partition.failed:
            metadata_log.directories.release()
        else:
            close(metadata_log)
        assert topics(kept) == ["a", "b", "c"]
        assert topics(grown(kept, "d", "e")) == ["a", "b", "c", "d", "e"]


def test_a_folder_that_a_deleted_topic_has_left_is_known_after_snapshots() -> None:
    files = MemoryFiles()
    metadata_log = opened(files, snapshot_after=1)
    add_topic(metadata_log, "left")
    add_topic(metadata_log, "gone")
    left, gone = metadata_log.image.topics["left"].id, metadata_log.image.topics["gone"].id
    files.make_dir("data/left-0")
    write_topic_id(files, "data/left-0", left)
    metadata_log.commit(remove_topic(left) + remove_topic(gone))
    close(metadata_log)
    grown(files, "a", "b", "c")
    metadata_log = opened(files)
    assert metadata_log.image.removed == {left: "left"}
    close(metadata_log)


def test_a_run_that_only_reads_takes_no_snapshot() -> None:
    files = MemoryFiles()
    metadata_log = opened(files)
    add_topic(metadata_log, "a")
    close(metadata_log)
    before = files_of(files, "")
    close(opened(files, snapshot_after=1))
    assert files_of(files, "") == before


def test_no_snapshot_is_taken_within_a_transaction_of_records() -> None:
    files = MemoryFiles()
    metadata_log = opened(files, snapshot_after=1)
    metadata_log.commit([encode_record("BeginTransactionRecord", {"name": "more"})])
    close(metadata_log)
    assert files_of(files, ".checkpoint") == []


def test_a_metadata_log_that_lost_its_segments_is_not_begun_anew() -> None:
    files = MemoryFiles()
    metadata_log = opened(files)
    add_topic(metadata_log, "t")
    close(metadata_log)
    path = f"data/__cluster_metadata-0/{0:020d}.log"
    log = files.read_file(path)
    files.remove(path)
    before = files.tree()
    with pytest.raises(CorruptBatch, match=r"its segments are missing; the metadata log cannot be read.*restore it"):
        opened(files)
    after = files.tree()
    assert {name: data for name, data in after.items() if "__cluster" in name} == {
        name: data for name, data in before.items() if "__cluster" in name
    }
    files = MemoryFiles(tree=after | {path: log})
    assert list(opened(files).image.topics) == ["t"]
