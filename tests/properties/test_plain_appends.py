"""What is appended in one step is what the ordinary way makes of it: the same answers, numbers and bytes.

Two partitions on a disk get the same; one of them takes plain batches in one step, the other one never. Small segments
and an index entry for nearly every batch bring them to all that is not plain. Where there is no compiled kernel both go
the ordinary way.
"""

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from uuid import UUID

import hypothesis.strategies as st
from hypothesis import example, given

from pylog.commitlog.plain_rules import Duty
from pylog.config import TopicConfig
from pylog.errors import PylogError
from pylog.files import DiskFiles
from pylog.kernel import Appended, GroupAppends, pure
from pylog.partition import Partition
from pylog.protocol.batch import Batch, Origin, encode, encode_marker
from pylog.storage.producer_state import Verification
from pylog.storage.published import Published
from tests.support.general_appends import general_partition
from tests.support.topic_values import BOUNDED, VALUES

NOW = 1_700_000_000_000
TOPIC_ID = UUID(int=7)
CONFIG = {"segment.bytes": "9000", "index.interval.bytes": "200", "segment.ms": "5000", "segment.index.bytes": "120"}


TIMED = ("pylog-listing",)
"""Files that know when they, or others, were written."""
KINDS = [BOUNDED, *({name: value} for name, values in VALUES.items() for value in values)]
DUTIES = {
    "hidden": Duty(has_followers=True, syncs=False),
    "visible": Duty(has_followers=False, syncs=False),
    "durable": Duty(has_followers=False, syncs=True),
}


class Side:
    """A partition in a directory of its own, and what it publishes."""

    def __init__(self, kind: Callable[..., Partition], folder: Path) -> None:
        folder.mkdir()
        self.files = DiskFiles()
        self.published = Published(self.files, str(folder / "published"), writable=True)
        self.folder = folder
        config = TopicConfig.loaded(CONFIG)
        entry = self.published.entry(TOPIC_ID, 0)
        self.partition = kind(self.files, str(folder / "t-0"), "t", 0, config, entry, topic_id=TOPIC_ID)
        self.partition.create(TOPIC_ID, NOW)
        appends = pure.GroupAppends if kind is general_partition else GroupAppends
        self.group = appends(threading.Lock(), nullcontext(), self.general, self.general, self.show, self.general)

    def general(self, *_: object) -> None:
        """`put` appends a batch that is not plain."""

    def show(self, partition: Any) -> None:
        if partition.high_watermark < partition.durable_offset:
            partition.advance_high_watermark(partition.durable_offset)

    def put(self, batch: Batch, epoch: int, now_ms: int, how: str, guard: Verification | None = None) -> Appended:
        partition = self.partition
        partition.take_duty(DUTIES[how])
        origin = Origin.COORDINATOR if batch.is_control else Origin.CLIENT
        if how == "durable":
            appended = self.group.append(partition, batch, epoch, now_ms)
        else:
            appended = partition.state.fast_append(
                batch, epoch, now_ms, guard=guard, is_coordinator=origin is Origin.COORDINATOR
            )
        is_shown = appended is not None and partition.state.rules.is_shown
        if appended is None:
            appended = partition.append(batch, epoch=epoch, now_ms=now_ms, origin=origin, guard=guard)
            if how == "durable":
                partition.sync(appended.next_offset)
                self.show(partition)
        if how == "visible" and not is_shown:
            partition.advance_high_watermark(partition.next_offset)
        return appended

    def facts(self) -> Any:
        segments = [
            (segment.base_offset, end, segment.size, segment.largest_timestamp, segment._largest()[1],
             list(segment.offsets), list(segment.times))
            for segment, end in self.partition.segments
        ]  # fmt: skip
        index_bytes = [
            Path(index.path).stat().st_size
            for segment, _ in self.partition.segments[-1:]
            for index in (segment.offsets, segment.times)
        ]
        published = (self.folder / "published").read_bytes()
        producers = self.partition.producers
        return (
            self.partition.state.numbers(),
            producers.entries(),
            producers.first_unstable_offset,
            segments,
            index_bytes,
            published,
        )

    def bytes(self) -> dict[str, bytes]:
        paths = [path for path in self.folder.rglob("*") if path.is_file() and path.name not in TIMED]
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in paths}


@contextmanager
def sides() -> Iterator[tuple[Side, Side]]:
    with tempfile.TemporaryDirectory() as folder:
        both = Side(Partition, Path(folder, "plain")), Side(general_partition, Path(folder, "ordinary"))
        yield both
        for side in both:
            side.partition.close()
            side.published.close()
        assert both[0].bytes() == both[1].bytes()


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except PylogError as error:
        return type(error)


rows = st.lists(st.tuples(st.integers(-3000, 3000), st.integers(0, 120)), min_size=1, max_size=4)
appends = st.tuples(
    st.just("append"), rows, st.sampled_from(["plain"] * 6 + ["idempotent", *["transactional"] * 2]),
    st.integers(0, 20), st.sampled_from(["hidden", "visible", "durable"]), st.integers(1, 12),
)  # fmt: skip
steps = (
    appends
    | appends
    | appends
    | st.tuples(
        st.sampled_from(["sync", "truncate", "start", "advance", "epoch", "roll", "commit", "abort", "late"]),
        st.integers(0, 9),
    )
    | st.tuples(st.just("configure"), st.sampled_from([{}, *KINDS]))
)


class Run:
    """One run: the same steps for both sides."""

    def __init__(self, both: tuple[Side, Side]) -> None:
        self.both = both
        self.epoch = 0
        self.now = NOW
        self.sequences = {1: 0, 2: 0}
        self.producer_epochs = {1: 0, 2: 0}

    def step(self, what: str, *given: Any) -> None:
        answers = [outcome(getattr(self, what), side, *given) for side in self.both]
        assert answers[0] == answers[1]
        if what == "append" and given[1] != "plain" and isinstance(answers[0], Appended):
            self.sequences[self.producer(given[1])] += len(given[0])
        if what in ("commit", "abort") and given[0] and isinstance(answers[0], Appended):
            self.producer_epochs[2] += 1
            self.sequences[2] = 0
        self.epoch += what == "epoch"
        self.now += 100 + 4000 * (what == "late")
        facts = [side.facts() for side in self.both]
        assert facts[0] == facts[1]

    @staticmethod
    def producer(kind: str) -> int:
        return 1 if kind == "idempotent" else 2

    def append(self, side: Side, rows: list[tuple[int, int]], kind: str, older: int, how: str) -> Appended:
        records = [(b"v" * size, b"k", self.now + age, ()) for age, size in rows]
        stamps: dict[str, Any] = {}
        guard = None
        if kind != "plain":
            producer_id = self.producer(kind)
            sequence, epoch = self.sequences[producer_id], self.producer_epochs[producer_id]
            stamps = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
            if kind == "transactional" and older % 4:
                guard = side.partition.start_verification(2, sequence, epoch, self.now, supports_epoch_bump=True)
        batch = encode(records, now_ms=self.now, transactional=kind == "transactional", **stamps)
        # An epoch that is over, now and then.
        return side.put(batch, self.epoch - (older == 0), self.now, how, guard)

    def sync(self, side: Side, _: int) -> int:
        return side.partition.sync()

    def truncate(self, side: Side, back: int) -> bool:
        return side.partition.truncate(max(side.partition.next_offset - back, 0), self.now)

    def start(self, side: Side, share: int) -> None:
        side.partition.advance_start(side.partition.high_watermark * share // 9)

    def advance(self, side: Side, back: int) -> bool:
        return side.partition.advance_high_watermark(side.partition.next_offset - back)

    def epoch_begins(self, side: Side) -> None:
        side.partition.begin_epoch(self.epoch + 1)

    def roll(self, side: Side, _: int) -> int:
        return side.partition.roll(self.now)

    def commit(self, side: Side, kind: int, *, is_abort: bool = False) -> Appended:
        # The epoch rises with the end of a transaction, unless `kind` is 0.
        epoch = self.producer_epochs[2] + (kind > 0)
        marker = encode_marker(2, epoch, is_abort=is_abort, coordinator_epoch=max(kind - 8, 0), now_ms=self.now)
        return side.put(marker, self.epoch, self.now, "visible" if kind % 2 else "hidden")

    def abort(self, side: Side, kind: int) -> Appended:
        return self.commit(side, kind, is_abort=True)

    def configure(self, side: Side, kind: dict[str, str]) -> None:
        side.partition.reconfigure(TopicConfig.loaded(CONFIG | kind))

    def late(self, side: Side, _: int) -> None:
        """Nothing but time passes."""


HIDDEN_AND_DURABLE = [
    ("append", [(0, 0)], "plain", 1, "hidden", 1),
    ("sync", 0),
    ("append", [(0, 0)], "plain", 1, "durable", 1),
]

RECORD = ("append", [(0, 0)], "transactional", 1)
OTHER = ("append", [(0, 0)], "plain", 1)
TRANSACTIONS = [
    (*RECORD, "visible", 1), ("commit", 1),
    (*RECORD, "visible", 2), (*OTHER, "visible", 1), ("commit", 1),
    (*RECORD, "hidden", 1), ("commit", 2), (*RECORD, "hidden", 1), ("advance", 1), ("advance", 0), ("commit", 9),
    (*RECORD, "visible", 1), ("commit", 8), ("abort", 9), (*RECORD, "durable", 1), ("commit", 9), ("truncate", 2),
]  # fmt: skip


@given(st.lists(steps, max_size=40))
@example(HIDDEN_AND_DURABLE)
@example(TRANSACTIONS)
def test_the_fast_append_equals_the_general_one(steps: list[tuple[Any, ...]]) -> None:
    with sides() as both:
        run = Run(both)
        for what, *given in steps:
            if what == "epoch":
                for side in both:
                    run.epoch_begins(side)
                run.epoch += 1
            else:
                for _ in range(given.pop() if what == "append" else 1):
                    run.step(what, *given)
