"""What a run leaves behind: a log that is opened, written to and closed over and over costs its next open the same."""

from errno import ENOSPC
from itertools import pairwise

import pytest

from crash.engine import CLOCK
from crash.nodes import append, make_node
from pylog.broker.read_only_broker import ReadOnlyBroker
from pylog.broker.replica_manager import EndedRoles, ReplicaManager
from pylog.config import NodeConfig
from pylog.controller.roles import Lead
from pylog.files import Files, MemoryFiles, join
from pylog.logdirs.log_directories import Directories
from pylog.logdirs.metadata_log import MetadataLog
from pylog.protocol.messages import NewTopic, Session
from pylog.protocol.messages.topics import MetadataRequest
from pylog.protocol.metadata_changes import take_leadership
from pylog.protocol.metadata_image import METADATA_TOPIC_ID
from pylog.segment import UNINDEXED_BYTES_MAX
from tests.support.faults import FaultFiles

METADATA = "log/__cluster_metadata-0"
SNAPSHOTS = NodeConfig(metadata_log_max_record_bytes_between_snapshots=1)


def opened(files: Files) -> ReplicaManager:
    return make_node(files, ("log",))


def run(files: MemoryFiles, topic: str = "t") -> None:
    """Open, append, close."""
    node = opened(files)
    append(node, topic, 0, b"value")
    node.close()


def new(files: MemoryFiles) -> MemoryFiles:
    node = opened(files)
    node.changes.create_topic(NewTopic("t"))
    node.close()
    return files


def killed(files: MemoryFiles) -> None:
    """Open, append, and leave it at that."""
    node = opened(files)
    append(node, "t", 0, b"value")
    node.directories.release()


def sizes(files: MemoryFiles, path: str = "log") -> dict[str, int]:
    """The size of every file, by its path."""
    found: dict[str, int] = {}
    for name in files.list_dir(path):
        stat = files.stat(join(path, name))
        assert stat is not None
        found |= sizes(files, join(path, name)) if stat.is_dir else {join(path, name): stat.size}
    return found


def epochs(files: MemoryFiles) -> list[tuple[int, int]]:
    node = opened(files)
    found = node.roles.partition("t", 0).epochs.entries
    node.close()
    return found


# --- epochs -----------------------------------------------------------------------------------------------------------


def test_after_a_clean_close_a_leader_goes_on_in_its_epoch() -> None:
    files = new(MemoryFiles())
    run(files)
    run(files)
    before = sizes(files, METADATA)
    for _ in range(3):
        run(files)
    assert sizes(files, METADATA) == before
    assert epochs(files) == [(1, 0)]


def test_after_a_kill_a_leader_takes_a_new_epoch() -> None:
    files = new(MemoryFiles())
    run(files)
    killed(files)
    run(files)
    run(files)
    assert epochs(files) == [(1, 0), (2, 2)], "one more, in the run after the kill"


def test_a_leader_that_was_made_by_hand_goes_on_in_its_epoch_after_a_clean_close() -> None:
    files = new(MemoryFiles())
    run(files)
    node = opened(files)
    node.roles.lead(Lead(topic="t", partition=0, leader_epoch=7, replicas=(1,)), EndedRoles())
    append(node, "t", 0, b"value")
    node.close()
    run(files)
    run(files)
    assert epochs(files) == [(1, 0), (7, 1)]


def test_a_leader_that_the_metadata_log_has_deposed_takes_a_new_epoch() -> None:
    files = new(MemoryFiles())
    run(files)
    metadata_log = MetadataLog(Directories(files, ["log"], None), CLOCK.wall_ms)
    # As a controller does when a node stops.
    metadata_log.commit(take_leadership(metadata_log.image.topics["t"].id, 0, -1))
    metadata_log.close()
    metadata_log.directory.close(clean=True)
    run(files)
    assert epochs(files) == [(1, 0), (3, 1)]


def test_a_log_that_kafka_closed_goes_on_in_a_new_epoch() -> None:
    files = new(MemoryFiles())
    run(files)
    files.replace_file("log/.kafka_cleanshutdown", b'{"version":0,"brokerEpoch":12}')
    run(files)
    run(files)
    assert epochs(files) == [(1, 0), (2, 1)]


def test_a_log_without_a_known_end_takes_a_new_epoch() -> None:
    files = new(MemoryFiles())
    run(files)
    files.remove("log/.pylog-published")
    run(files)
    assert epochs(files) == [(1, 0), (2, 1)]


def test_after_a_kill_the_old_epoch_is_over_even_if_the_next_run_only_reads() -> None:
    files = new(MemoryFiles())
    run(files)
    killed(files)
    opened(files).close()
    run(files)
    run(files)
    assert [start for _, start in epochs(files)] == [0, 2]


def test_an_epoch_whose_offsets_were_cut_off_does_not_go_on() -> None:
    files = new(MemoryFiles())
    for _ in range(3):
        run(files)
    node = opened(files)
    node.roles.partition("t", 0).truncate(1, 0)
    node.close()
    run(files)
    run(files)
    assert [start for _, start in epochs(files)] == [0, 1]


def test_an_epoch_written_and_cut_in_one_run_does_not_go_on() -> None:
    files = new(MemoryFiles())
    run(files)
    node = opened(files)
    append(node, "t", 0, b"value")
    node.roles.partition("t", 0).truncate(1, 0)
    node.close()
    run(files)
    assert [start for _, start in epochs(files)] == [0, 1]


def test_a_node_that_can_end_no_epoch_does_not_close_cleanly() -> None:
    kept = new(MemoryFiles())
    run(kept)
    run(kept)
    files = FaultFiles(kept, error=ENOSPC)
    node = make_node(files, ("log",))
    node.roles.partition("t", 0).truncate(1, 0)
    files.faults.fail_at = len(files.sites) + 1
    node.close()
    assert not opened(kept).directories.first.clean


# --- what is left on the disk -----------------------------------------------------------------------------------------


def counts(files: MemoryFiles) -> dict[str, int]:
    """How many files there are, and how large those are that a run may add to."""
    found = sizes(files)
    logs = [size for path, size in found.items() if path.startswith(METADATA) and path.endswith(".log")]
    return {
        "files": len(found),
        "metadata": sum(logs),
        "epochs": sum(size for path, size in found.items() if path.endswith("leader-epoch-checkpoint")),
        "published": found["log/.pylog-published"],
    }


def test_the_metadata_log_does_not_grow_by_runs_without_changes() -> None:
    files = new(MemoryFiles())
    for _ in range(2):
        run(files)
    before = counts(files)
    for _ in range(60):
        run(files)
    assert counts(files) == before


@pytest.mark.parametrize("ends", ["cleanly", "killed"])
def test_the_metadata_log_is_bounded_whatever_runs_write_into_it(ends: str) -> None:
    files, found = new(MemoryFiles()), list[dict[str, int]]()
    for _ in range(60):
        node = make_node(files, ("log",), NodeConfig(metadata_log_max_record_bytes_between_snapshots=1000))
        node.cluster_changes.allocate_producer_ids()
        append(node, "t", 0, b"value")
        if ends == "cleanly":
            node.close()
        else:
            node.checkpoint()
            node.directories.release()
        found.append(counts(files))
    for what in ("files", "metadata", "published"):
        assert max(now[what] for now in found[30:]) <= max(now[what] for now in found[:30])
    again = opened(files)
    assert again.image.next_producer_id == 60_000
    assert again.roles.partition("t", 0).next_offset == 60


def test_topics_that_are_made_and_deleted_leave_nothing_behind() -> None:
    files, found = new(MemoryFiles()), list[dict[str, int]]()
    for _ in range(20):
        node = make_node(files, ("log",), NodeConfig(metadata_log_max_record_bytes_between_snapshots=1000))
        for name in "abc":
            node.changes.create_topic(NewTopic(name, 2))
            append(node, name, 0, b"value")
        for name in "abc":
            node.changes.delete_topic(name, EndedRoles())
        node.close()
        found.append(counts(files))
    for what in ("metadata", "published"):
        assert max(now[what] for now in found[10:]) <= max(now[what] for now in found[:10])
    assert max(now["files"] for now in found) < 60
    assert max(now["epochs"] for now in found) < 40, "one epoch each, from an offset with some digits"
    assert len(opened(files).image.removed) < 20


def test_short_runs_leave_index_entries_now_and_then() -> None:
    """Each counts anew, as Kafka does: all of the segment lay behind the last entry, and was read at the next open."""
    files = new(MemoryFiles())
    for _ in range(20):
        node = opened(files)
        for _ in range(6):
            append(node, "t", 0, bytes(2000))
        node.close()
    segment = opened(files).roles.partition("t", 0).segments[0][0]
    positions = [position for _, position in segment.offsets]
    gaps = [after - before for before, after in pairwise([0, *positions, segment.size])]
    assert max(gaps) < UNINDEXED_BYTES_MAX + 20_000
    assert len(positions) >= 3


# --- readers ----------------------------------------------------------------------------------------------------------


def read_beside(files: MemoryFiles) -> ReadOnlyBroker:
    return ReadOnlyBroker(files, ["log"], config=NodeConfig(), clock=CLOCK, node_id=1)


def known(reader: ReadOnlyBroker) -> list[str]:
    metadata = reader.handle(MetadataRequest.of(), Session()).result()
    return sorted(topic.name for topic in metadata.topics)


def test_a_reader_begins_with_the_newest_snapshot() -> None:
    files = new(MemoryFiles())
    node = make_node(files, ("log",), SNAPSHOTS)
    for name in "abc":
        node.changes.create_topic(NewTopic(name))
        node.checkpoint()
    node.changes.create_topic(NewTopic("d"))
    assert known(read_beside(files)) == ["a", "b", "c", "d", "t"]


def test_a_reader_that_the_metadata_log_has_left_behind_goes_on_with_a_snapshot() -> None:
    """It left out the records that were gone."""
    files = new(MemoryFiles())
    node = make_node(files, ("log",), SNAPSHOTS)
    reader = read_beside(files)
    assert known(reader) == ["t"]
    for name in "abc":
        node.changes.create_topic(NewTopic(name))
        node.checkpoint()
    assert node.directories.first.entry(METADATA_TOPIC_ID, 0).read().start_offset > 10
    assert known(reader) == ["a", "b", "c", "t"]
    node.changes.delete_topic("b", EndedRoles())
    assert known(reader) == ["a", "c", "t"]
