"""The workloads whose crashes are enumerated (reliability: crash-point enumeration)."""

from collections.abc import Callable

from pylog.config import NodeConfig
from pylog.kernel import Record
from pylog.protocol.batch import Batch, encode
from pylog.protocol.compression import Codec
from pylog.storage.segment_files import file_name
from tests.support.crash import CrashFiles

from .engine import NOW, Recoverable, Workload
from .nodes import NodeRun
from .partitions import SMALL, Run

WORKLOADS: dict[str, Workload] = {}
ROOMY = SMALL | {"segment.bytes": "4000"}
COMPACT = ROOMY | {"cleanup.policy": "compact", "file.delete.delay.ms": "1000"}


def workload(function: Callable[[CrashFiles], Recoverable]) -> Callable[[CrashFiles], Recoverable]:
    """Put a workload on the list."""
    name = function.__name__
    WORKLOADS[name] = Workload(name, function)
    return function


# --- appending --------------------------------------------------------------------------------------------------------


@workload
def append_sync(files: CrashFiles) -> Run:
    run = Run(files)
    for count in (1, 2, 1, 3):
        run.append(count)
    return run


@workload
def append_interval(files: CrashFiles) -> Run:
    run = Run(files, flush="interval")
    for count in (1, 1, 1, 2, 1):
        run.append(count)
    return run


@workload
def append_none(files: CrashFiles) -> Run:
    run = Run(files, flush="none")
    for count in (1, 2, 1, 1):
        run.append(count)
    return run


@workload
def append_large(files: CrashFiles) -> Run:
    run = Run(files, ROOMY)
    for size in (700, 20, 1300):
        run.append(1, size)
    return run


@workload
def append_compressed(files: CrashFiles) -> Run:
    run = Run(files, ROOMY)
    for codec in (Codec.ZSTD, Codec.LZ4):
        run.append(4, 100, codec=codec)
    return run


@workload
def append_group_commit(files: CrashFiles) -> Run:
    """Several are appended before one sync covers them."""
    run = Run(files, ROOMY, flush="none")
    for _ in range(2):
        for _ in range(3):
            run.append()
        run.sync()
    return run


@workload
def append_follower(files: CrashFiles) -> Run:
    run = Run(files)
    run.follow(_batch(0, 1, 2), _batch(2, 1))
    run.follow(_batch(3, 2), _batch(6, 2, 2))
    return run


def _batch(base: int, epoch: int, count: int = 1) -> Batch:
    records = [Record(b"%d from a leader" % (base + at), timestamp=NOW + base + at) for at in range(count)]
    batch = encode(records, now_ms=NOW)
    batch.stamp(base, epoch)
    return batch


@workload
def preallocate(files: CrashFiles) -> Run:
    run = Run(files, SMALL | {"preallocate": "true"})
    for _ in range(5):
        run.append(1, 60)
    run.reopen()
    run.append()
    return run


# --- segments and checkpoints -----------------------------------------------------------------------------------------


@workload
def roll_by_size(files: CrashFiles) -> Run:
    run = Run(files)
    for _ in range(7):
        run.append(1, 100)
    return run


@workload
def roll_without_sync(files: CrashFiles) -> Run:
    run = Run(files, flush="none")
    for _ in range(6):
        run.append(1, 100)
    run.sync()
    return run


@workload
def roll_on_demand(files: CrashFiles) -> Run:
    run = Run(files)
    run.append()
    run.partition.roll(NOW)
    run.partition.roll(NOW)
    run.append()
    run.partition.roll(NOW)
    return run


@workload
def scrub(files: CrashFiles) -> Run:
    """What was read through is cut, and written to again, and read through again."""
    run = Run(files)
    for _ in range(5):
        run.append(1, 100)
    run.scrub()
    run.truncate(3)
    run.append(1, 100)
    run.scrub()
    run.append(1, 100)
    run.reopen()
    run.append(1, 100)
    run.scrub()
    return run


@workload
def index_rebuild(files: CrashFiles) -> Run:
    """An index is gone, or nonsense, when the log is opened."""
    run = Run(files)
    for _ in range(6):
        run.append(1, 60)
    tree = dict(list(files.kills())[-1].tree)
    del tree["log/t-0/00000000000000000000.index"]
    tree["log/t-0/00000000000000000000.timeindex"] = b"\xff" * 12
    run = run.crashed(tree, run.version)
    run.append()
    return run


@workload
def repair(files: CrashFiles) -> Run:
    """A batch of a closed log is damaged, and an index of another segment."""
    run = Run(files)
    for _ in range(8):
        run.append(1, 60)
    run.place.close()
    tree = dict(list(files.kills())[-1].tree)
    bases = [segment.base_offset for segment, _ in run.partition.segments]
    for path in (f"log/t-0/{file_name(bases[0], '.log')}", f"log/t-0/{file_name(bases[1], '.index')}"):
        data = bytearray(tree[path] or b"")
        data[min(70, len(data) - 1)] ^= 1
        tree[path] = bytes(data)
    version = run.version._replace(records=run.version.records[1:])
    run = run.crashed(tree, version, damaged=frozenset({0}))
    run.repair()
    run.append()
    return run


@workload
def epoch_checkpoint(files: CrashFiles) -> Run:
    run = Run(files)
    for _ in range(3):
        run.lead()
        run.append()
    run.lead()
    run.lead()
    run.append(2)
    return run


@workload
def watermark_checkpoint(files: CrashFiles) -> Run:
    run = Run(files)
    run.append()
    run.checkpoint()
    run.append(2)
    run.checkpoint()
    return run


@workload
def clean_restart(files: CrashFiles) -> Run:
    run = Run(files)
    run.append()
    run.reopen()
    run.append()
    run.reopen()
    run.reopen()
    return run


@workload
def recovery(files: CrashFiles) -> Run:
    """A torn tail over three segments is recovered, and again."""
    run = Run(files, flush="interval")
    for _ in range(2):
        for _ in range(4):
            run.append(1, 100)
        run.sync()
        kept = run.version
        run.append(1, 30)
        tree = dict(list(run.files.kills())[-1].tree)
        torn = run.partition.segments[-1][0].path
        tree[torn] = (tree[torn] or b"")[:-7]
        run = run.crashed(tree, kept)
        run.append(1, 30)
    return run


# --- the end of the log -----------------------------------------------------------------------------------------------


@workload
def truncate(files: CrashFiles) -> Run:
    run = Run(files, ROOMY)
    for _ in range(4):
        run.append()
    run.truncate(2)
    run.append(1, 40)
    return run


@workload
def truncate_and_write_the_same_sizes(files: CrashFiles) -> Run:
    """What was cut off must not come back behind what is written in its place."""
    run = Run(files, ROOMY)
    for _ in range(4):
        run.append()
    run.truncate(1)
    run.lead()
    run.number += 10
    run.append()
    run.append()
    return run


@workload
def truncate_segments(files: CrashFiles) -> Run:
    run = Run(files)
    for _ in range(7):
        run.append(1, 100)
    run.truncate(1)
    run.append()
    return run


@workload
def truncate_lazily(files: CrashFiles) -> Run:
    run = Run(files, flush="none")
    for _ in range(4):
        run.append(1, 100)
    run.sync()
    run.truncate(2)
    run.append(1, 30)
    run.sync()
    return run


@workload
def truncate_fully(files: CrashFiles) -> Run:
    run = Run(files)
    for _ in range(3):
        run.append(1, 100)
    run.truncate_fully(50)
    run.append()
    run.truncate_fully(10)
    run.append()
    return run


# --- the start of the log ---------------------------------------------------------------------------------------------


@workload
def delete_records(files: CrashFiles) -> Run:
    run = Run(files)
    run.append(3)
    run.append(1, 100)
    run.delete_records(2)
    run.checkpoint()
    run.append(1, 100)
    run.delete_records(4)
    return run


@workload
def delete_records_lazily(files: CrashFiles) -> Run:
    """What is deleted for good need not have been durable."""
    run = Run(files, flush="none")
    run.append(2)
    run.delete_records(1)
    run.append(2, 100)
    run.sync()
    run.append(1, 100)
    run.delete_records(4)
    run.append()
    return run


@workload
def delete_records_at_intervals(files: CrashFiles) -> Run:
    run = Run(files, flush="interval")
    for _ in range(4):
        run.append(1, 100)
    run.delete_records(3)
    run.checkpoint()
    run.append()
    run.delete_records(5)
    return run


@workload
def delete_records_of_a_reopened_log(files: CrashFiles) -> Run:
    """What was published when it was opened says less than was deleted since."""
    run = Run(files)
    run.append(3)
    run.reopen()
    run.delete_records(2)
    run.reopen()
    run.delete_records(3)
    return run


@workload
def truncate_below_what_was_deleted(files: CrashFiles) -> Run:
    """The start goes down with the end, and the log grows past where it started before."""
    run = Run(files, ROOMY)
    for _ in range(4):
        run.append()
    run.delete_records(3)
    run.checkpoint()
    run.truncate(1)
    for _ in range(3):
        run.append()
    return run


@workload
def truncate_fully_below_what_was_deleted(files: CrashFiles) -> Run:
    run = Run(files)
    run.truncate_fully(50)
    run.append(3)
    run.delete_records(52)
    run.checkpoint()
    run.truncate_fully(49)
    for _ in range(5):
        run.append()
    return run


@workload
def delete_records_and_segments(files: CrashFiles) -> Run:
    run = Run(files)
    for _ in range(7):
        run.append(1, 100)
    run.delete_records(5)
    run.retain()
    run.partition.purge(NOW + 10**9)
    run.append()
    run.checkpoint()
    return run


@workload
def retention_by_size(files: CrashFiles) -> Run:
    run = Run(files, SMALL | {"retention.bytes": "500"})
    for _ in range(7):
        run.append(1, 100)
    run.retain()
    run.append()
    run.partition.purge(NOW + 10**9)
    run.checkpoint()
    return run


@workload
def retention_of_everything(files: CrashFiles) -> Run:
    run = Run(files, SMALL | {"retention.ms": "1000"})
    for _ in range(4):
        run.append(1, 100)
    run.retain(NOW + 10**9)
    run.partition.purge(NOW + 10**12)
    run.append()
    return run


# --- the middle of the log --------------------------------------------------------------------------------------------


def _keys(run: Run) -> Run:
    for key in (b"a", b"b", b"a", b"b", b"a"):
        run.append(1, 60, key=key)
        run.append(1, 60, key=key)
        run.partition.roll(NOW)
    return run


@workload
def compaction(files: CrashFiles) -> Run:
    run = _keys(Run(files, COMPACT))
    run.compact()
    run.append(1, key=b"c")
    run.partition.purge(NOW + 10**9)
    return run


@workload
def compaction_in_groups(files: CrashFiles) -> Run:
    run = _keys(Run(files, COMPACT | {"segment.bytes": "600"}))
    run.compact()
    run.append(1, key=b"c")
    run.sync()
    return run


@workload
def compaction_twice(files: CrashFiles) -> Run:
    run = _keys(Run(files, COMPACT))
    run.compact()
    _keys(run)
    run.compact()
    run.partition.purge(NOW + 10**9)
    return run


# --- producers and transactions ---------------------------------------------------------------------------------------


@workload
def producer_snapshots(files: CrashFiles) -> Run:
    run = Run(files)
    for sequence in range(6):
        run.append(1, 100, producer_id=9, producer_epoch=0, base_sequence=sequence)
    run.reopen()
    run.append(1, 10, producer_id=9, producer_epoch=0, base_sequence=6)
    return run


@workload
def transactions_commit(files: CrashFiles) -> Run:
    run = Run(files)
    for sequence in range(3):
        run.append(1, 100, producer_id=9, producer_epoch=0, base_sequence=sequence, transactional=True)
    run.append()
    run.end_transaction(9, abort=False)
    return run


@workload
def transactions_abort(files: CrashFiles) -> Run:
    run = Run(files)
    for sequence in range(2):
        for producer in (8, 9):
            run.append(1, 60, producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=True)
    run.end_transaction(9, abort=True)
    run.append(1, 100)
    run.end_transaction(8, abort=True)
    run.append(1, 10, producer_id=9, producer_epoch=0, base_sequence=2, transactional=True)
    return run


@workload
def transactions_truncated(files: CrashFiles) -> Run:
    run = Run(files)
    run.append(1, 100, producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    run.append(1, 100, producer_id=9, producer_epoch=0, base_sequence=1, transactional=True)
    run.end_transaction(9, abort=True)
    run.append(1, 100)
    run.truncate(2)
    run.end_transaction(9, abort=True)
    return run


# --- topics -----------------------------------------------------------------------------------------------------------


@workload
def topic_create(files: CrashFiles) -> NodeRun:
    run = NodeRun(files)
    run.create("a", 2)
    run.append("a", 0)
    run.create("b")
    run.append("a", 1)
    run.append("b", 0)
    return run


@workload
def topic_delete(files: CrashFiles) -> NodeRun:
    run = NodeRun(files)
    run.create("a")
    run.create("b")
    run.append("a", 0)
    run.append("b", 0)
    run.delete("a")
    run.append("b", 0)
    return run


@workload
def topic_recreate(files: CrashFiles) -> NodeRun:
    run = NodeRun(files)
    run.create("a")
    run.append("a", 0)
    run.append("a", 0)
    run.checkpoint()
    run.delete("a")
    run.create("a")
    run.append("a", 0)
    return run


@workload
def metadata_snapshots(files: CrashFiles) -> NodeRun:
    """The metadata log is summed up after each change of the topics."""
    run = NodeRun(files, config=NodeConfig(metadata_log_max_record_bytes_between_snapshots=1))
    run.create("a")
    run.checkpoint()
    run.create("b")
    run.append("a", 0)
    run.checkpoint()
    run.delete("b")
    run.reopen()
    run.create("b")
    run.checkpoint()
    run.append("b", 0)
    return run


@workload
def topic_move(files: CrashFiles) -> NodeRun:
    """There and back again, of a topic whose name has dots, as the names of folders on their way have."""
    run = NodeRun(files, ("log", "other"))
    run.create("a.b-0.c")
    run.append("a.b-0.c", 0)
    run.append("a.b-0.c", 0)
    for path in ("other", "log"):
        run.move("a.b-0.c", 0, path)
        run.append("a.b-0.c", 0)
    return run


@workload
def topic_move_after_a_deletion(files: CrashFiles) -> NodeRun:
    """What was deleted in each place stays so when it comes back to the other one."""
    run = NodeRun(files, ("log", "other"))
    run.create("a")
    for _ in range(3):
        run.append("a", 0)
    for path in ("other", "log"):
        run.delete_records("a", 0)
        run.move("a", 0, path)
    run.delete_records("a", 0)
    return run


@workload
def leader_change(files: CrashFiles) -> NodeRun:
    """Every open takes a new epoch, in the metadata log, before the first append. Closes drop what was deleted."""
    run = NodeRun(files)
    run.create("a")
    for _ in range(3):
        run.append("a", 0)
        run.roll("a", 0)
        run.append("a", 0)
        run.delete_records("a", 0)
        run.reopen()
    run.append("a", 0)
    return run
