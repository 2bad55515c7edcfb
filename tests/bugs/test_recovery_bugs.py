"""Old bugs of opening a log again: reliability 2.1, numbers 1 to 6, 10, 15, 18 to 20."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

import pylog
from pylog.commitlog.read_only_partition import ReadOnlyPartition
from pylog.errors import DiskFull, DurabilityUnknown, PartitionFailed, StorageError
from pylog.files import DiskFiles, Files, MemoryFiles
from pylog.kernel import Record
from pylog.logdirs.damage import find_damage
from pylog.logdirs.log_directory import CLEAN_SHUTDOWN, LogDirectory
from pylog.logdirs.repair import repair
from pylog.partition import Checkpoint, Partition
from pylog.protocol.batch import encode, split
from pylog.record import TopicPartition
from pylog.storage.checkpoint import read_offsets, read_properties, write_offsets, write_properties
from pylog.storage.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS
from pylog.storage.producer_state import Producers, snapshot_name
from pylog.storage.segment_files import file_name
from support.partition_log import DIRECTORY, NOW, UNCLEAN, InterruptingFiles, Log, ReadOnlyFiles, committed
from tests.support.crash import CrashFiles
from tests.support.epochs import epochs_at
from tests.support.faults import FaultFiles


def test_kafka_3919_offsets_that_do_not_rise_end_the_log_and_not_the_broker() -> None:
    log = Log(index_interval_bytes=0)
    log.append("a")
    log.append("b", "c")
    path = log.partition.segments[0][0].path
    good = log.partition.size
    overlapping = encode([Record(b"again")], now_ms=NOW, base_offset=2, leader_epoch=0)
    beyond = encode([Record(b"beyond")], now_ms=NOW, base_offset=3, leader_epoch=0)
    log.files.open(path).write(good, overlapping.data, beyond.data)
    partition = log.reopen()
    assert partition.recovered is not None and partition.next_offset == 3
    assert (partition.recovered.position, partition.recovered.offset) == (good, 3)
    assert log.values() == ["a", "b", "c"]
    partition.check()


def test_kafka_10471_a_crash_during_recovery_is_not_a_clean_stop() -> None:
    closed = MemoryFiles()
    LogDirectory(closed, "log", None).close(clean=True)
    closed.make_dir("log/t-0")
    closed.open("log/t-0/00000000000000000000.log", create=True)
    files = CrashFiles(tree=closed.tree())
    assert LogDirectory(files, "log", None).clean
    files.note("opened")
    files.make_dir("log/u-0")
    states = [state for state in (*files.power_cuts(), *files.kills()) if "opened" in state.notes]
    assert states
    for state in states:
        left = MemoryFiles(tree=state.tree)
        assert left.stat(f"log/{CLEAN_SHUTDOWN}") is None
        assert not LogDirectory(left, "log", None).clean


def write_two_epochs(files: Files) -> None:
    epochs = epochs_at(files, "log/checkpoint")
    epochs.assign(1, 0)
    epochs.assign(2, 70)


def read_two_epochs(files: Files) -> object:
    return epochs_at(files, "log/checkpoint").entries


def write_two_offsets(files: Files) -> None:
    for offset in (1, 2):
        write_offsets(files, "log/checkpoint", {TopicPartition("t", 0): offset})


def write_two_identities(files: Files) -> None:
    for node_id in ("1", "2"):
        write_properties(files, "log/checkpoint", {"node.id": node_id})


@pytest.mark.parametrize(
    ("write", "read"),
    [
        (write_two_epochs, read_two_epochs),
        (write_two_offsets, lambda files: read_offsets(files, "log/checkpoint")),
        (write_two_identities, lambda files: read_properties(files, "log/checkpoint")),
    ],
)
def test_kafka_16541_a_checkpoint_is_whole_whenever_the_power_goes(
    write: Callable[[Files], None], read: Callable[[Files], object]
) -> None:
    files = CrashFiles()
    files.make_dir("log")
    write(files)
    files.note("written")
    files.make_dir("elsewhere")
    latest, found = read(files), []
    for state in files.power_cuts(weak=True):
        left = MemoryFiles(tree=state.tree)
        if left.stat("log/checkpoint") is not None:
            found.append(read(left))
            assert "written" not in state.notes or found[-1] == latest
        else:
            assert "written" not in state.notes
    assert len({str(one) for one in found}) == 2, "the first one is seen, and the second"


def test_kafka_1647_partitions_that_cannot_be_opened_keep_their_high_watermarks(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        for partition in log.create_topic("t", partitions=4):
            partition.append([Record(b"x")])
    checkpoint = tmp_path / HIGH_WATERMARKS
    before = read_offsets(DiskFiles(), str(checkpoint))
    damaged = [tmp_path / f"t-{number}" / "partition.metadata" for number in (1, 2)]
    good = [path.read_bytes() for path in damaged]
    for path in damaged:
        path.write_bytes(b"what is this")
    for _ in range(2):
        (tmp_path / CLEAN_SHUTDOWN).unlink(missing_ok=True)
        with pylog.open(tmp_path) as log:
            with pytest.raises(StorageError, match=r"partition\.metadata"):
                log.topic("t")[1].append([Record(b"y")])
            log.topic("t")[0].append([Record(b"y")])
    for name in (HIGH_WATERMARKS, RECOVERY_POINTS):
        offsets = read_offsets(DiskFiles(), str(tmp_path / name))
        assert [offsets[TopicPartition("t", number)] for number in range(4)] == [3, 1, 1, 1]
    assert before.keys() <= offsets.keys()
    for path, data in zip(damaged, good, strict=True):
        path.write_bytes(data)
    with pylog.open(tmp_path) as log:
        assert [[record.value for record in log.topic("t")[i].records()] for i in (1, 2)] == [[b"x"], [b"x"]]


def test_kafka_6683_a_snapshot_tells_nothing_of_an_append_that_failed() -> None:
    files = FaultFiles(MemoryFiles())
    log = Log(files)
    log.append("a", producer_id=5, producer_epoch=0, base_sequence=0)
    files.faults.error, files.faults.once, files.faults.fail_at = 28, False, 1  # ENOSPC
    with pytest.raises(DiskFull):
        log.append("b", producer_id=5, producer_epoch=0, base_sequence=1)
    with pytest.raises(DiskFull):
        log.in_transaction("c", producer_id=6, sequence=0)
    files.heal()
    log.partition.roll(NOW)
    snapshot = Producers("t-0")
    snapshot.load(files.read_file(f"{DIRECTORY}/{snapshot_name(1)}"), 1, NOW)
    assert snapshot.entries() == log.replayed().entries()
    assert log.partition.last_stable_offset == 1
    again = log.append("b", producer_id=5, producer_epoch=0, base_sequence=1)
    assert (again.base_offset, again.duplicate) == (1, False)


def test_kafka_7866_an_offset_is_not_given_twice_after_a_failed_append() -> None:
    def begun(files: FaultFiles) -> Log:
        log = Log(files, index_interval_bytes=0)
        log.in_transaction("a", producer_id=5, sequence=0)
        log.append("b")
        return log

    counted = FaultFiles(MemoryFiles())
    log = begun(counted)
    calls = len(counted.sites)
    log.end(5, commit=False)
    assert len(counted.sites) > calls + 1, "the marker, and its entry in the transaction index"
    ends = set()
    for call in range(calls + 1, len(counted.sites) + 1):
        files = FaultFiles(MemoryFiles(), fail_at=call)
        log = begun(files)
        with pytest.raises(DurabilityUnknown):
            log.end(5, commit=False)
        written = split(files.read_file(f"{DIRECTORY}/{0:020d}.log"))
        end = [batch.next_offset for batch in written][-1]
        ends.add(end)
        # Whether or not the marker is there: nothing follows it until what is there was read.
        with pytest.raises(PartitionFailed):
            log.append("c")
        files.heal()
        assert log.reopen().next_offset == end
        assert log.append("c").base_offset == end
        log.partition.check()
    assert ends == {2, 3}


@pytest.mark.parametrize("checkpoint", [Checkpoint(recovery_point=20, durable_offset=20), UNCLEAN])
@pytest.mark.parametrize("suffixes", [(".index",), (".timeindex",), (".index", ".timeindex")])
def test_kafka_13603_an_empty_segment_without_its_indexes_is_just_empty(
    checkpoint: Checkpoint, suffixes: tuple[str, ...]
) -> None:
    log = Log()
    values = log.fill(20)
    log.partition.roll(NOW)
    for suffix in suffixes:
        log.files.remove(f"{DIRECTORY}/{20:020d}{suffix}")
    partition = log.reopen(checkpoint)
    assert (partition.recovered, partition.quarantined, partition.next_offset) == (None, (), 20)
    assert log.values() == values
    assert log.append("on").base_offset == 20
    partition.check()


def test_kafka_13603_every_crash_after_a_roll_opens() -> None:
    files = CrashFiles()
    log = Log(files)
    values = log.fill(5)
    log.partition.sync()
    files.note("five")
    log.partition.roll(NOW)
    log.partition.sync()
    cuts = [state.tree for state in files.power_cuts() if "five" in state.notes]
    assert len(cuts) > 5
    for tree in cuts:
        log.files = MemoryFiles(tree=tree)
        partition = log.reopen(Checkpoint(clean=False, recovery_point=5, durable_offset=5))
        assert (log.values(), partition.quarantined) == (values, ())


def test_kafka_12153_the_last_stable_offset_never_passes_the_end_of_a_cut_log() -> None:
    for target in range(1, 9):
        files = InterruptingFiles(MemoryFiles())
        log = Log(files)  # type: ignore[arg-type]
        log.append("a")
        log.in_transaction("b", producer_id=5, sequence=0)
        log.in_transaction("c", producer_id=6, sequence=0)
        log.append("d")
        log.end(5, commit=True)
        log.partition.roll(NOW)
        log.append("e")
        log.end(6, commit=False)
        log.append("f")
        seen = []

        def look(log: Log = log, seen: list[int] = seen) -> None:
            partition = log.partition
            assert partition.last_stable_offset <= partition.high_watermark <= partition.next_offset
            seen.append(partition.last_stable_offset)

        for at in range(1, 30):
            files.begin(at, ("truncate", "remove", "rename", "sync_dir", "stat"), look)
            if at == 1:
                log.partition.truncate(target, NOW)
        first_open = [offset for offset, end in ((1, 4), (2, 6)) if offset < target <= end]
        assert log.partition.last_stable_offset == min([*first_open, log.partition.high_watermark])
        assert log.partition.last_stable_offset <= target


def test_kafka_14497_an_open_transaction_is_open_after_a_reopen_too() -> None:
    log = Log()
    log.append("a")
    log.in_transaction("b", producer_id=5, sequence=0)
    log.append("c")
    assert log.partition.last_stable_offset == 1
    for checkpoint in (UNCLEAN, Checkpoint(clean=False, recovery_point=3, durable_offset=3, high_watermark=3)):
        partition = log.reopen(checkpoint)
        partition.advance_high_watermark(3)
        assert partition.last_stable_offset == 1
    log.partition.close()
    partition = log.reopen(Checkpoint(durable_offset=3, high_watermark=3))
    assert partition.last_stable_offset == 1
    log.end(5, commit=True)
    assert partition.last_stable_offset == 4


def test_kafka_6322_a_crash_in_retention_opens_and_keeps_the_other_records() -> None:
    files = CrashFiles()
    log = Log(files, retention_bytes=2000)
    values = log.fill(30)
    log.partition.sync()
    files.note("thirty")
    assert log.partition.apply_retention(NOW) >= 1
    start = log.partition.start_offset
    log.partition.purge(NOW)
    log.partition.sync()
    for state in (*files.power_cuts(weak=True), *files.kills()):
        if "thirty" in state.notes:
            log.files = MemoryFiles(tree=state.tree)
            partition = log.reopen(Checkpoint(clean=False, recovery_point=30, durable_offset=30))
            assert partition.start_offset <= start and partition.next_offset == 30
            assert log.values() == values[partition.start_offset :]
            assert not [name for name in log.files.list_dir(DIRECTORY) if name.endswith(".deleted")]


def test_kafka_6194_a_file_that_is_gone_does_not_stop_a_deletion() -> None:
    log = Log(retention_bytes=0)
    log.fill(30)
    log.partition.apply_retention(NOW)
    gone = [name for name in log.files.list_dir(DIRECTORY) if name.endswith(".deleted")]
    for name in gone[::2]:
        log.files.remove(f"{DIRECTORY}/{name}")
    log.partition.purge(NOW)
    assert not [name for name in log.files.list_dir(DIRECTORY) if name.endswith(".deleted")]
    assert log.append("on").base_offset == 30


def test_kafka_5431_preallocated_zeros_behind_the_last_batch_are_no_records(tmp_path: Path) -> None:
    files = DiskFiles()

    class OnDisk(Log):
        def make(self) -> Partition:
            return Partition(files, str(tmp_path / "t-0"), "t", 0, self.config)

    log = OnDisk(files, preallocate="true", segment_bytes=4000, cleanup_policy="compact,delete")
    values = log.fill(5)
    path = Path(log.partition.segments[0][0].path)
    size = log.partition.size
    path.write_bytes(path.read_bytes()[:size] + bytes(4000 - size))  # what a killed process leaves
    for checkpoint in (UNCLEAN, Checkpoint(durable_offset=5)):
        partition = log.reopen(checkpoint)
        assert (log.values(), partition.next_offset, partition.quarantined) == (values, 5, ())
        found = partition.offset_for_time(NOW + 1, upto=5)
        assert found is None
        partition.check()
        partition.abandon()
        path.write_bytes(path.read_bytes()[:size] + bytes(4000 - size))
    log.reopen()
    log.partition.truncate(3, NOW)
    assert (log.values(), log.append("on").base_offset) == (values[:3], 3)


def opening_costs(batches: int, checkpoint: Checkpoint) -> int:
    files = FaultFiles(MemoryFiles())
    log = Log(files)
    log.fill(batches)
    log.partition.close()
    before = len(files.sites)
    log.reopen(checkpoint)
    return len(files.sites) - before


@pytest.mark.parametrize("clean", [True, False])
def test_kafka_12520_opening_costs_the_same_however_long_the_log_is(clean: bool) -> None:
    few, many = (
        opening_costs(count, Checkpoint(clean=clean, recovery_point=count, durable_offset=count)) for count in (30, 600)
    )
    assert many <= few + 2, "segments below the recovery point were read, or their producers replayed"


def test_kafka_12520_producers_are_replayed_from_the_newest_snapshot_only() -> None:
    log = Log()
    for i in range(40):
        log.append("x" * 100, producer_id=5, producer_epoch=0, base_sequence=i)
    last = log.partition.segments[-1][0].base_offset
    files = InterruptingFiles(log.files)
    log.files = files  # type: ignore[assignment]
    opened: list[str] = []
    inner_open = files.inner.open

    def noted(path: str, *, create: bool = False) -> object:
        opened.append(path)
        return inner_open(path, create=create)

    files.open = noted  # type: ignore[method-assign, assignment]
    log.reopen(Checkpoint(clean=False, recovery_point=40, durable_offset=40))
    assert {path for path in opened if path.endswith(".log")} == {f"{DIRECTORY}/{last:020d}.log"}
    assert log.partition.producers.entries()[5].last_sequence == 39


def test_a_partition_of_another_topic_id_is_not_taken_for_this_one() -> None:
    log = Log()
    assert log.partition.files.read_file(f"{DIRECTORY}/partition.metadata").startswith(b"version: 0\ntopic_id: ")
    with pytest.raises(ValueError, match="zero"):
        Partition(MemoryFiles(), DIRECTORY, "t", 0, log.config).create(UUID(int=0), NOW)


def test_a_power_cut_in_an_exchange_of_segments_keeps_aborted_records_hidden() -> None:
    log = Log(CrashFiles())
    log.in_transaction("aborted", producer_id=5, sequence=0)
    log.append("plain")
    log.end(5, commit=False)
    log.partition.roll(NOW)
    log.append("behind")
    log.partition.sync()
    end = log.partition.next_offset
    log.files.replace_file(f"{DIRECTORY}/{file_name(0, '.index')}", b"nonsense")
    begun = len(log.files.operations)
    repair(log.partition, find_damage(log.partition), "log-repaired", NOW)
    assert log.committed() == ["plain", "behind"]
    alone = {f"{DIRECTORY}/{file_name(0, '.log.swap')}", f"{DIRECTORY}/{file_name(0, '.txnindex')}"}
    gone = {f"{DIRECTORY}/{file_name(0, '.log')}", f"{DIRECTORY}/{file_name(0, '.txnindex.swap')}"}
    renamed_alone = 0
    for state in log.files.power_cuts(weak=True):
        if state.operation <= begun:
            continue
        renamed_alone += alone <= set(state.paths) and not gone & set(state.paths)
        files = MemoryFiles(tree=state.tree)
        reader = ReadOnlyPartition(ReadOnlyFiles(files), DIRECTORY, "t", 0, log.config, find_entry=lambda: None)
        assert committed(reader) == ["plain", "behind"], state.paths
        owner = Partition(files, DIRECTORY, "t", 0, log.config)
        owner.open(Checkpoint(clean=False, recovery_point=end, durable_offset=end, high_watermark=end), NOW)
        assert committed(owner) == ["plain", "behind"], state.paths
    assert renamed_alone


class FullFiles(MemoryFiles):
    """Without room for another file of epochs, where it is `full`."""

    full = False

    def replace_file(self, path: str, data: bytes) -> None:
        if self.full and path.endswith("leader-epoch-checkpoint"):
            raise DiskFull(f"no room for {path}")
        super().replace_file(path, data)


@pytest.mark.parametrize("start", [1, 5])
def test_a_log_killed_at_a_refused_append_opens_on_a_full_disk(start: int) -> None:
    """The epoch of that append was noted already, and forgetting it took room."""
    files = FullFiles()
    log = Log(files)
    log.append("a", epoch=1)
    log.partition.epochs.assign(2, start)
    files.full = True
    partition = log.reopen()
    assert log.values() == ["a"] and partition.epochs.end_offset_for(1, partition.next_offset) == (1, 1)
    files.full = False
    log.append("b", epoch=2)
    assert log.reopen().epochs.entries == [(1, 0), (2, 1)]
