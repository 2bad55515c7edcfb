"""Batches of producers, transaction markers, and a log of them beside the `Producers` that follow from it."""

import struct

from pylog.files import MemoryFiles
from pylog.kernel import Record
from pylog.protocol.batch import Batch, Origin, encode
from pylog.storage.producer_state import AppendPlan, ProducerEntry, Producers, Snapshots, Verification, snapshot_offsets
from pylog.storage.transaction_index import AbortedTxn

T0 = 1_700_000_000_000
DAY = 86_400_000
MAX_SEQUENCE = 2**31 - 1
DIRECTORY = "t-0"


def data(
    offset: int, *, producer_id: int = 7, epoch: int = 0, sequence: int = 0, count: int = 1, txn: bool = False,
    timestamp: int = T0,
) -> Batch:  # fmt: skip
    return encode(
        [Record(b"v", timestamp=timestamp)] * count, now_ms=timestamp, producer_id=producer_id, producer_epoch=epoch,
        base_sequence=sequence, transactional=txn, base_offset=offset,
    )  # fmt: skip


def control(key: bytes | None, value: bytes | None, offset: int = 0, **kwargs: int) -> Batch:
    record = Record(value, key=key, timestamp=kwargs.pop("timestamp", T0))
    return encode(
        [record], now_ms=T0, base_offset=offset, transactional=True, control=True,
        producer_id=kwargs.get("producer_id", 7), producer_epoch=kwargs.get("epoch", 0),
    )  # fmt: skip


def marker(offset: int, *, abort: bool = False, coordinator_epoch: int = 0, **kwargs: int) -> Batch:
    return control(struct.pack(">hh", 0, 0 if abort else 1), struct.pack(">hi", 0, coordinator_epoch), offset, **kwargs)


class Log:
    """The batches of a partition, and the producers that follow from them."""

    def __init__(self, **kwargs: bool) -> None:
        self.producers = Producers("t-0", **kwargs)
        self.end_offset = 0
        self.files = MemoryFiles()
        self.files.make_dir(DIRECTORY)
        self.batches: list[Batch] = []
        self.aborted: list[AbortedTxn] = []

    def plan(
        self, *batches: Batch, origin: Origin = Origin.CLIENT, version: int = -1, guard: object = None
    ) -> AppendPlan:
        marked = [(batch, batch.marker()) for batch in batches]
        assert guard is None or isinstance(guard, Verification)
        return self.producers.plan(marked, origin=origin, transaction_version=version, guard=guard)

    def append(self, *batches: Batch, **kwargs: object) -> AppendPlan:
        plan = self.plan(*batches, **kwargs)
        if plan.duplicate is None:
            self.batches += batches
            self.aborted += self.producers.apply(plan)
            self.end_offset = batches[-1].next_offset
        return plan

    def data(self, *, guard: Verification | None = None, origin: Origin = Origin.CLIENT, **kwargs: int) -> AppendPlan:
        return self.append(data(self.end_offset, **kwargs), guard=guard, origin=origin)

    def end(self, *, version: int = -1, origin: Origin = Origin.COORDINATOR, **kwargs: int) -> AppendPlan:
        return self.append(marker(self.end_offset, **kwargs), origin=origin, version=version)

    def entry(self, producer_id: int = 7) -> ProducerEntry:
        return self.producers.entries()[producer_id]

    @property
    def snapshots(self) -> Snapshots:
        """As whoever opens the files finds them."""
        return Snapshots(self.files, DIRECTORY, snapshot_offsets(self.files, DIRECTORY))

    def snapshot(self) -> None:
        file = self.snapshots.take(self.producers, self.end_offset)
        if file is not None:
            file.close()

    def reload(self, end: int, *, start: int = 0, now_ms: int = T0) -> None:
        """Truncate at `end`, and bring the producers there from the files."""
        self.batches = [batch for batch in self.batches if batch.last_offset < end]
        self.end_offset = self.snapshots.restore(self.producers, start, end, now_ms)
        self.replay(end)

    def replay(self, end: int) -> None:
        left = [batch for batch in self.batches if batch.base_offset >= self.end_offset]
        self.aborted += self.producers.replay([(batch, batch.marker()) for batch in left])
        self.end_offset = end

    def names(self) -> list[str]:
        return self.files.list_dir(DIRECTORY)
