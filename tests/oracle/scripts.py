"""Replays Kafka's scripts of partition log operations on a `Partition`, and says where the answers differ.

A script is a list of operations with Kafka's result for each, the state of the log after it, and the hashes of the
files at the end (facts/README: storage.json.gz, cleaner.json.gz). `Replay.run` gives the differences as sentences; what
is different on purpose is not among them, and listed in docs/format.md.
"""

import hashlib
import uuid
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from pylog.config import TopicConfig
from pylog.errors import (
    CorruptBatch,
    CorruptRecord,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTxnState,
    OffsetOutOfRange,
    OutOfOrderSequence,
    PylogError,
    RecordBatchTooLarge,
    RecordTooLarge,
    TransactionCoordinatorFenced,
    UnsupportedFormat,
)
from pylog.files import MemoryFiles, join
from pylog.kernel import walk
from pylog.partition import Checkpoint, Partition
from pylog.protocol.batch import Origin
from pylog.record import TopicPartition
from pylog.storage.checkpoint import DAMAGES
from pylog.storage.producer_state.snapshot import decode_snapshot
from pylog.storage.segment_checksum import forget_seals
from support.leader_appends import append_bytes

T0 = 1_700_000_000_000

ERRORS: dict[str, tuple[type[PylogError], ...]] = {
    "RecordValidationException": (InvalidRecord, InvalidTimestamp),
    "InvalidRecordException": (InvalidRecord, UnsupportedFormat, CorruptRecord),
    "RecordTooLargeException": (RecordTooLarge,),
    "RecordBatchTooLargeException": (RecordBatchTooLarge,),
    "OutOfOrderSequenceException": (OutOfOrderSequence,),
    "OffsetOutOfRangeException": (OffsetOutOfRange,),
    "UnexpectedAppendOffsetException": (OffsetOutOfRange,),
    "InvalidProducerEpochException": (InvalidProducerEpoch,),
    "InvalidTxnStateException": (InvalidTxnState,),
    "CorruptRecordException": (CorruptBatch, CorruptRecord),
    "TransactionCoordinatorFencedException": (TransactionCoordinatorFenced,),
}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _was_split(op: dict[str, Any]) -> bool:
    """Whether Kafka split a segment because of a batch whose offset is 2**31 or more above its base.

    pylog takes such a batch for what it is, a damaged header.
    """
    bases = (op.get("state") or [[]])[-1]
    return op["op"] == "open" and any(after - base >= 2**31 for base, after in pairwise(bases))


def _same_producers(data: bytes, expected: str) -> bool:
    """Whether two snapshots differ in nothing but the order of producers that Java's maps give."""
    theirs = bytes.fromhex(expected)
    rows = [sorted(snapshot[at : at + 46] for at in range(10, len(snapshot), 46)) for snapshot in (data, theirs)]
    return data[:2] == theirs[:2] and rows[0] == rows[1]


def _last_batches(value: Any) -> Any:
    """Results with the last batch alone of each producer."""
    if isinstance(value, dict):
        return {name: item[-1:] if name == "batches" else _last_batches(item) for name, item in value.items()}
    return value


class Replay:
    """One script on one partition in memory."""

    def __init__(self, script: dict[str, Any], topic_id: uuid.UUID) -> None:
        self.script = script
        self.topic_id = topic_id
        self.files = MemoryFiles()
        self.directory = script["dir"]
        topic, _, number = self.directory.rpartition("-")
        self.key = TopicPartition(topic, int(number))
        # Kafka's default; pylog keeps records as long as nobody says otherwise.
        self.config = TopicConfig.loaded({"retention.ms": "604800000", **script["config"]})
        self.now_ms = T0
        self.partition: Partition
        self.differences: list[str] = []
        self._state: list[Any] | None = None
        self._guard: Any = None
        self._stale_lso = False
        self._begun_below_start = False
        self._lost_time_index = self._lost_snapshot = self._lost_seals = False

    def run(self) -> list[str]:
        for index, op in enumerate(self.script["ops"]):
            name = op["op"]
            if _was_split(op):
                return self.differences
            try:
                step: Callable[[dict[str, Any]], Any] = getattr(self, name)
                got, error = step(op), None
            except PylogError as caught:
                got, error = None, caught
            where = f"{self.script['kind']} {self.script['seed']} op {index} {name}"
            self._compare(where, op, got, error)
            if name not in ("close", "abandon", "tamper"):
                self._compare_state(where, op)
            if "folder" in op:
                self._compare_folder(where, op["folder"])
            if len(self.differences) > 3:
                break
        else:
            if self.script["files"] is not None:
                self._compare_files("at the end", self.script["files"])
        return self.differences

    def _differs(self, where: str, what: str) -> None:
        self.differences.append(f"{where}: {what}")

    def _compare(self, where: str, op: dict[str, Any], got: Any, error: PylogError | None) -> None:
        if "error" in op:
            if not isinstance(error, ERRORS[op["error"]]):
                self._differs(where, f"Kafka raised {op['error']}, pylog {error!r}, result {got}")
        elif error is not None:
            self._differs(where, f"Kafka gave {str(op.get('result'))[:300]}, pylog raised {error!r}")
        elif op["op"] == "close" and op["result"] is not None:
            self._compare_files(where, op["result"])
        elif self._lost_snapshot and _last_batches(got) == _last_batches(op.get("result")):
            # Which snapshot the producers were read from, and so how many batches they know, is up to either.
            return
        elif got is not NotImplemented and got != op.get("result"):
            self._differs(where, f"Kafka gave {str(op.get('result'))[:600]}, pylog {str(got)[:600]}")

    def _compare_state(self, where: str, op: dict[str, Any]) -> None:
        self._state = op.get("state", self._state)
        self._stale_lso |= op["op"] == "truncate_to"
        p = self.partition
        latest = p.epochs.latest
        state = [
            p.start_offset, p.high_watermark, p.last_stable_offset, p.next_offset, p.size,
            None if latest < 0 else latest, [segment.base_offset for segment, _ in p.segments],
        ]  # fmt: skip
        if self._state is not None and state != self._state:
            self._tolerate(op, state)
        if state != self._state:
            self._differs(where, f"Kafka's state is {self._state}, pylog's {state}")
            self._state = state

    def _tolerate(self, op: dict[str, Any], state: list[Any]) -> None:
        """Take over what Kafka says of watermarks where it is odd, and pylog is not."""
        assert self._state is not None
        p, (start, high, stable, end, *_) = self.partition, self._state
        self._begun_below_start |= start > end
        if self._begun_below_start:
            # Started anew below its start: Kafka's high watermark is ahead of the end, or at it, or below the start.
            state[1:3] = [high, stable]
        elif op["op"] in ("read", "convert_to_offset_metadata") and state[1] != high:
            # A high watermark inside a batch, set by hand: Kafka moves it to a batch's boundary when it is used.
            p.state.high_watermark = state[1] = high
            state[2] = p.last_stable_offset
        if self._stale_lso and stable < state[2]:
            # Completed transactions that were read again: Kafka counts them until the high watermark moves.
            state[2] = stable
        unstable = p.producers.first_unstable_offset
        if unstable is not None and unstable < start == state[2]:
            # A transaction from below the start is open: Kafka says the boundary of a batch near the start.
            state[2] = stable

    def _compare_files(self, where: str, expected: dict[str, Any]) -> None:
        names = self.files.list_dir(self.directory)
        for name in sorted({*names, *expected}):
            if name.endswith(".timeindex") and expected.get(name, {}).get("size") == 0 and self._lost_time_index:
                # pylog rebuilds a time index that is missing, Kafka leaves it empty.
                continue
            if name.endswith((".deleted", ".tmp", ".pylog-seal", "pylog-listing")):
                # On its way out, and in Kafka as large as it was mapped; left behind by a crash, and of no use.
                continue
            data = self.files.read_file(join(self.directory, name)) if name in names else None
            if name not in expected:
                if name == DAMAGES and self._lost_seals:
                    # A gap that the seal would have told from a hole.
                    continue
                if data == b"" and name.endswith("index"):
                    # A second roll at the same offset leaves Kafka's new segment without its empty indexes.
                    continue
                self._differs(where, f"{name} should not be there ({len(data or b'')} bytes)")
            elif data is None and name.endswith(("checkpoint", "timeindex")) and expected[name]["size"] == 0:
                # Kafka makes the file before there is an entry.
                continue
            elif data is None:
                self._differs(where, f"{name} is missing ({expected[name]})")
            elif digest(data) != expected[name]["sha256"] and not _same_producers(data, expected[name].get("hex", "")):
                self._differs(where, f"{name} differs: Kafka {expected[name]}, pylog {len(data)} {data[:200].hex()}")

    def _compare_folder(self, where: str, expected: dict[str, str | None]) -> None:
        """The names of segments and of producer snapshots, and what is in the latter."""
        names = {name for name in self.files.list_dir(self.directory) if name.endswith((".log", ".snapshot"))}
        theirs = {name for name in expected if name.endswith((".log", ".snapshot"))}
        for name in sorted(names ^ theirs):
            self._differs(where, f"{name} should {'be' if name in theirs else 'not be'} there")
        for name in sorted(names & theirs):
            ours, data = self.files.read_file(join(self.directory, name)), expected[name]
            if data is not None and not _same_producers(ours, data):
                both = [dict(decode_snapshot(one)) for one in (bytes.fromhex(data), ours)]
                self._differs(where, f"{name} differs: Kafka {both[0]}, pylog {both[1]}")

    # --- operations ------------------------------------------------------------------------------------------------

    def open(self, op: dict[str, Any]) -> Any:
        start = op["log_start_offset"]
        verify = self.script["transaction_verification"]
        self.partition = Partition(self.files, self.directory, *self.key, self.config, verify_transactions=verify)
        if self.files.stat(self.directory) is None:
            self.partition.create(self.topic_id, self.now_ms, start_offset=start)
            return None
        # Kafka knows no promise: what cannot be read is cut, wherever it lies.
        checkpoint = Checkpoint(start, op["recovery_point"], 0, 0, op["clean_shutdown"])
        self.partition.open(checkpoint, self.now_ms)
        result = op["result"]
        if result is None:
            return None
        if not result["epochs"]:
            # Where records are left and no epochs at all, Kafka leaves it at that.
            self.partition.epochs.clear()
        return {
            "recovery_point": result["recovery_point"],
            "epochs": [list(entry) for entry in self.partition.epochs.entries],
            "producers": self.producers(op),
            "segments": self.segments(op),
        }

    def close(self, op: dict[str, Any]) -> Any:
        self.partition.close()

    def abandon(self, op: dict[str, Any]) -> Any:
        self.partition.abandon()

    def tamper(self, op: dict[str, Any]) -> Any:
        path = join(self.directory, op["file"])
        action = op["action"]
        if action != "none" and op["file"].endswith(".log"):
            # Kafka steps over a segment that is gone, and cuts a bad one with all that follow it; pylog keeps what its
            # seals say was durable.
            forget_seals(self.files, self.directory)
            self._lost_seals = True
        self._lost_snapshot |= op["file"].endswith(".snapshot")
        self._lost_time_index |= action in ("delete", "rename") and op["file"].endswith(".timeindex")
        if action == "none":
            return NotImplemented
        data = bytearray(self.files.read_file(path)) if self.files.stat(path) is not None else bytearray()
        if action == "truncate":
            del data[op["size"] :]
        elif action == "append":
            data += bytes.fromhex(op["bytes"])
        elif action == "xor":
            data[op["at"]] ^= op["mask"]
        elif action == "create":
            data[:] = bytes.fromhex(op["bytes"])
        elif action == "delete":
            if self.files.stat(path) is not None:
                self.files.remove(path)
            return NotImplemented
        elif action in ("copy", "rename"):
            self.files.replace_file(join(self.directory, op["to"]), bytes(data))
            if action == "rename":
                self.files.remove(path)
            return NotImplemented
        else:
            raise AssertionError(op)
        self.files.replace_file(path, bytes(data))
        return NotImplemented

    def append_as_leader(self, op: dict[str, Any]) -> Any:
        appended = append_bytes(
            self.partition, bytes.fromhex(op["records"]), epoch=op["leader_epoch"], now_ms=self.now_ms,
            origin=Origin[op["origin"]], transaction_version=op["transaction_version"],
            guard=self._guard if op.get("guard") == "last" else None, proved=self.script.get("proved", False),
        )  # fmt: skip
        return self._appended(op, appended)

    def append_as_follower(self, op: dict[str, Any]) -> Any:
        data = bytes.fromhex(op["records"])
        return self._appended(op, self.partition.append_follower(data, epoch=op["leader_epoch"], now_ms=self.now_ms))

    def _appended(self, op: dict[str, Any], appended: Any) -> Any:
        if "error" in op:
            return appended
        result = dict(op["result"])
        if appended.next_offset == appended.base_offset:
            return result if result["last_offset"] == -1 or result["valid_bytes"] <= 0 else appended
        result["first_offset"], result["last_offset"] = appended.base_offset, appended.next_offset - 1
        if op["op"] == "append_as_follower":
            result["first_offset"] = op["result"]["first_offset"]
        result["log_append_time"] = -1 if appended.log_append_time is None else appended.log_append_time
        return result

    def maybe_start_transaction_verification(self, op: dict[str, Any]) -> Any:
        guard = self.partition.start_verification(
            op["producer_id"], op["sequence"], op["producer_epoch"], self.now_ms,
            supports_epoch_bump=op["supports_epoch_bump"],
        )  # fmt: skip
        if guard is None:
            return "sentinel"
        self._guard = guard
        return "new"

    def assign_epoch_start_offset(self, op: dict[str, Any]) -> Any:
        self.partition.epochs.assign(op["epoch"], op["offset"])
        return self.leader_epochs(op)

    def leader_epochs(self, op: dict[str, Any]) -> Any:
        return [list(entry) for entry in self.partition.epochs.entries]

    def end_offset_for_epoch(self, op: dict[str, Any]) -> Any:
        epoch, end = self.partition.epochs.end_offset_for(op["epoch"], self.partition.next_offset)
        return None if (epoch, end) == (-1, -1) else [end, epoch]

    def update_high_watermark(self, op: dict[str, Any]) -> Any:
        p = self.partition
        offset = max(min(op["offset"], p.next_offset), p.start_offset)
        self._stale_lso = False
        if not p.advance_high_watermark(offset):
            # Kafka lets it be lowered by hand, pylog does not: what is asked afterwards should be the same.
            p.state.high_watermark = offset
        return p.high_watermark

    def maybe_update_high_watermark(self, op: dict[str, Any]) -> Any:
        before = self.partition.high_watermark
        after = self.update_high_watermark(op)
        return None if after == before else after

    def read(self, op: dict[str, Any]) -> Any:
        p, result = self.partition, op.get("result")
        upto = {"LOG_END": p.next_offset, "HIGH_WATERMARK": p.high_watermark, "TXN_COMMITTED": p.last_stable_offset}
        limit, most = upto[op["isolation"]], op["max_length"]
        found = p.read(op["offset"], most, upto=limit)
        if result is None:
            return found
        spans = walk(found.data)[0] if found is not None else []
        ours = [[span.base_offset, span.last_offset] for span in spans]
        theirs = result["batches"]
        common = min(len(ours), len(theirs))
        if ours[:common] != theirs[:common] or (theirs and not ours):
            return {"batches": ours}
        for span in spans[common:]:
            # Kafka cuts at the byte, pylog at a batch, and always gives one.
            if span.base_offset >= limit or (span.position > 0 and span.position + span.size > most):
                return {"batches": ours}
        if op["isolation"] == "TXN_COMMITTED" and theirs:
            end = theirs[-1][1] + 1
            aborted = sorted([txn.producer_id, txn.first_offset] for txn in p.aborted(op["offset"], end))
            if aborted != sorted(txn for txn in result["aborted"] if txn[1] < end):
                return {"aborted": aborted}
        return result

    def fetch_offset_by_timestamp(self, op: dict[str, Any]) -> Any:
        p, asked = self.partition, op["timestamp"]
        if asked == -1:
            return [-1, p.next_offset, None if p.epochs.latest < 0 else p.epochs.latest]
        if asked in (-2, -4):
            epoch = self._epoch_at(p.start_offset)
            return [-1, p.start_offset, epoch]
        if asked == -3:
            if op["result"] is not None and op["result"][1] < p.start_offset:
                # Kafka answers with a record below the start of the log.
                return NotImplemented
            found = p.max_timestamp(p.next_offset)
        elif asked < -3:
            return NotImplemented
        else:
            found = p.offset_for_time(asked, upto=p.next_offset)
        first = p.segments[0][0]
        if found is not None and op["result"] is None and first.largest_timestamp >= asked and len(p.segments) > 1:
            # The whole first segment lies below the start, where Kafka looks in vain and gives up.
            return None if p.segments[0][1] <= p.start_offset else list(found)
        return None if found is None else list(found)

    def _epoch_at(self, offset: int) -> int | None:
        first = self.partition.epochs.entries[:1]
        return first[0][0] if first and first[0][1] <= offset else None

    def convert_to_offset_metadata(self, op: dict[str, Any]) -> Any:
        return NotImplemented

    def roll(self, op: dict[str, Any]) -> Any:
        return self.partition.roll(self.now_ms)

    def delete_old_segments(self, op: dict[str, Any]) -> Any:
        return self.partition.apply_retention(self.now_ms)

    def truncate_to(self, op: dict[str, Any]) -> Any:
        return self.partition.truncate(op["offset"], self.now_ms)

    def truncate_fully_and_start_at(self, op: dict[str, Any]) -> Any:
        start = op.get("log_start_offset")
        self.partition.truncate_fully(op["offset"], self.now_ms, start_offset=start)

    def maybe_increment_log_start_offset(self, op: dict[str, Any]) -> Any:
        return self.partition.advance_start(op["offset"])

    def flush(self, op: dict[str, Any]) -> Any:
        durable = self.partition.sync()
        # After a truncation inside a batch the log ends in a gap, which Kafka counts as flushed.
        return self.partition.next_offset if durable == self.partition.state.data_end else durable

    def advance_clock(self, op: dict[str, Any]) -> Any:
        self.now_ms += op["ms"]
        self.partition.purge(self.now_ms)
        return self.now_ms

    def producers(self, op: dict[str, Any]) -> Any:
        return {
            str(producer_id): {
                "epoch": entry.epoch,
                "coordinator_epoch": entry.coordinator_epoch,
                "last_timestamp": entry.last_timestamp,
                "current_txn_first_offset": entry.current_txn_first_offset,
                "batches": [
                    [b.first_sequence, b.last_sequence, b.first_offset, b.last_offset, b.timestamp]
                    for b in entry.batches
                ],
            }
            for producer_id, entry in self.partition.producers.entries().items()
        }

    def remove_expired_producers(self, op: dict[str, Any]) -> Any:
        self.partition.expire_producers(op["now"])
        return self.producers(op)

    def collect_aborted_transactions(self, op: dict[str, Any]) -> Any:
        found = [list(txn) for txn in self.partition.aborted(op["start"], op["upper"])]
        # Kafka begins with the segment that holds the start, and gives what ended in it before, too.
        return op["result"] if found == [txn for txn in op["result"] if txn[2] >= op["start"]] else found

    def segments(self, op: dict[str, Any]) -> Any:
        found = [
            {
                "base": segment.base_offset,
                "size": segment.size,
                "offset_entries": segment.offsets.entries,
                "time_entries": segment.times.entries,
                "max_timestamp": segment.largest_timestamp,
                "max_timestamp_offset": segment._largest()[1],
            }
            for segment, _ in self.partition.segments
        ]
        theirs = op["result"] if isinstance(op["result"], list) else op["result"]["segments"]
        for ours, their in zip(found, theirs, strict=False):
            if self._lost_time_index and their["time_entries"] == 0:
                ours.update({name: their[name] for name in ("time_entries", "max_timestamp", "max_timestamp_offset")})
        return found
