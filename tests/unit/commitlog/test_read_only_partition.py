"""A reader beside an owner that changes files, also in the middle of a read: at every call that the reader makes."""

import itertools
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import pylog
from pylog.broker.log_cleaner import clean
from pylog.commitlog.read_only_partition import ReadOnlyPartition
from pylog.commitlog.recovery import Checkpoint
from pylog.config import TopicConfig
from pylog.errors import CorruptBatch, DiskFull, OffsetOutOfRange
from pylog.files import DiskFiles
from pylog.kernel import Record
from pylog.logdirs.log_directory import LogDirectory
from pylog.partition import Partition
from pylog.protocol.batch import Batch, Origin, encode, split
from pylog.protocol.isolation import VisibleBatches
from pylog.runtime.signals import WHOLE
from pylog.storage.published import Published
from support.log_copies import copy_log
from support.producer_log import marker
from support.sampling import every

NOW = 1_700_000_000_000
TOPIC_ID = UUID(int=7)
CONFIG = {"segment.bytes": "2000", "index.interval.bytes": "100", "file.delete.delay.ms": "0", "retention.ms": "1000"}
PRODUCER = 9
COMPACTED = CONFIG | {"cleanup.policy": "compact,delete"}


class Watched:
    """Files that do something else right before the call number `at`; `calls` counts them."""

    def __init__(self, files: Any, action: Callable[[], object] = lambda: None, at: int = -1) -> None:
        self.files, self.action, self.at, self.calls = files, action, at, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.files, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self.tick()
            result = found(*args, **kwargs)
            return WatchedFile(self, result) if name == "open" else result

        return call

    def tick(self) -> None:
        self.calls += 1
        if self.calls == self.at:
            self.action()


class WatchedFile:
    def __init__(self, watched: Watched, file: Any) -> None:
        self.watched, self.file = watched, file

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.file, name)
        if name in ("read", "size"):
            self.watched.tick()
        return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is a place for that: hundreds of logs are made, and each syncs."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


class Pair:
    """An owner and a reader of one partition."""

    def __init__(self, path: Path, config: dict[str, str] = CONFIG) -> None:
        path.mkdir(exist_ok=True)
        self.path = str(path / "t-0")
        self.published_at = str(path / ".pylog-published")
        self.config = TopicConfig.loaded(config)
        self.files: Any = Watched(DiskFiles())
        self.now = NOW
        self.life = 0
        self.owner = self._owner()
        self.owner.create(TOPIC_ID, NOW)
        self.watched = Watched(DiskFiles(read_only=True))
        self.reader = self.new_reader()

    def _owner(self) -> Partition:
        self.publishing = Published(self.files, self.published_at, writable=True)
        entry = self.publishing.entry(TOPIC_ID, 0)
        return Partition(self.files, self.path, "t", 0, self.config, entry)

    def new_reader(self) -> ReadOnlyPartition:
        files: Any = self.watched
        published = Published(files, self.published_at, writable=False)
        return ReadOnlyPartition(files, self.path, "t", 0, self.config, find_entry=lambda: published.find(TOPIC_ID, 0))

    def write(self, batch: Batch, origin: Origin = Origin.CLIENT) -> None:
        self.owner.append(batch, epoch=0, now_ms=self.now, origin=origin)
        self.owner.advance_high_watermark(self.owner.next_offset)

    def fill(self, count: int) -> None:
        """Records with five keys, every third in a transaction; those of every other transaction, "!", are aborted."""
        for _ in range(count):
            offset = self.owner.next_offset
            entry = self.owner.producers.entries().get(PRODUCER)
            first = entry.current_txn_first_offset if entry is not None else None
            if offset % 10 == 9 and first is not None:
                self.write(marker(0, producer_id=PRODUCER, abort=first // 10 % 2 == 0), Origin.COORDINATOR)
                continue
            in_transaction = offset % 3 == 0
            text = b"!" if in_transaction and (offset if first is None else first) // 10 % 2 == 0 else b""
            value = text + b"%d:%d:" % (self.life, offset) + b"x" * (offset * 37 % 100)
            record = Record(value, key=b"k%d" % (offset % 5), timestamp=self.now)
            if in_transaction:
                sequence = entry.last_sequence + 1 if entry is not None else 0
                kwargs: Any = {"producer_id": PRODUCER, "producer_epoch": 0, "base_sequence": sequence}
                self.write(encode([record], now_ms=self.now, transactional=True, **kwargs))
            else:
                self.write(encode([record], now_ms=self.now))

    def begin_again(self, durable_offset: int = 0) -> None:
        """Open what is there, as after a kill."""
        checkpoint = Checkpoint(self.owner.start_offset, 0, durable_offset, self.owner.high_watermark, clean=False)
        self.owner.abandon()
        self.owner = self._owner()
        self.owner.open(checkpoint, self.now)
        self.owner.advance_high_watermark(self.owner.next_offset)

    def stop_and_begin_again(self) -> None:
        assert self.owner.close()
        self.publishing.close()
        ended = self.owner
        self.owner = self._owner()
        known = Checkpoint(
            ended.start_offset, ended.durable_offset, ended.durable_offset, ended.high_watermark, published=True
        )
        self.owner.open(known, self.now)
        self.owner.advance_high_watermark(self.owner.next_offset)

    def close(self) -> None:
        self.owner.abandon()
        self.publishing.close()
        self.reader.close()


def values(partition: Any, offset: int, *, committed: bool = False) -> list[tuple[int, bytes]]:
    """Offsets and values of one read from `offset` on."""
    if isinstance(partition, ReadOnlyPartition):
        partition.refresh()
    aborted: Any = []
    if committed:
        found, aborted = partition.read_stable(offset, 1 << 20, upto=partition.last_stable_offset)
    else:
        found = partition.read(offset, 1 << 20, upto=partition.high_watermark)
    if found is None:
        return []
    delivery = VisibleBatches((txn.producer_id, txn.first_offset) for txn in aborted)
    batches = list(split(found.data, check_crc=True))
    assert found.next_offset == batches[-1].next_offset
    given = [batch for batch in batches if delivery.gives(batch)]
    rows = [(record.offset, record.value or b"") for batch in given for record in batch.records("t", 0, offset)]
    assert not committed or not any(value.startswith(b"!") for _, value in rows), "an aborted record"
    # The position goes on behind what was stepped over, too.
    return [*rows, (found.next_offset - 1, b"")] if not rows or rows[-1][0] < found.next_offset - 1 else rows


def everything(partition: Any, *, committed: bool = False) -> list[tuple[int, bytes]]:
    """All there is, read as a consumer does: the position goes on behind what was given."""
    found: list[tuple[int, bytes]] = []
    if isinstance(partition, ReadOnlyPartition):
        partition.refresh()
    position = partition.start_offset
    while piece := values(partition, position, committed=committed):
        found += [row for row in piece if row[1]]
        position = piece[-1][0] + 1
    return found


def roll_and_append(pair: Pair) -> None:
    pair.fill(60)


def retention(pair: Pair) -> None:
    pair.now += 5000
    pair.owner.advance_start(pair.owner.segments[2][0].base_offset + 1)
    assert pair.owner.apply_retention(pair.now) > 0
    pair.owner.purge(pair.now)


def delete_records(pair: Pair) -> None:
    pair.owner.delete_records(33)


def compaction(pair: Pair) -> None:
    assert clean(pair.owner, checkpoint=None, now_ms=pair.now, buffer_bytes=1 << 20) is not None
    pair.owner.purge(pair.now)


def truncation(pair: Pair) -> None:
    """Other records of other sizes under the same offsets."""
    pair.owner.truncate(37, pair.now)
    pair.life += 1
    pair.fill(20)
    pair.owner.purge(pair.now)


def truncation_of_all(pair: Pair) -> None:
    pair.owner.truncate_fully(20, pair.now)
    pair.life += 1
    pair.fill(50)
    pair.owner.purge(pair.now)


def another_owner(pair: Pair) -> None:
    pair.begin_again()
    pair.fill(5)


def writing_after_a_clean_stop(pair: Pair) -> None:
    """Readers may know the seal that the last segment has until then; it gets another one at the end."""
    pair.stop_and_begin_again()
    pair.fill(12)
    pair.stop_and_begin_again()


ACTIONS = (roll_and_append, retention, delete_records, compaction, truncation, truncation_of_all, another_owner)
ACTIONS += (writing_after_a_clean_stop,)


@pytest.mark.parametrize("action", ACTIONS)
def test_between_two_reads_the_owner_does_something(action: Callable[[Pair], None], place: Path) -> None:
    pair = Pair(place, COMPACTED)
    pair.fill(80)
    assert everything(pair.reader) == everything(pair.owner)
    for _ in range(2):
        action(pair)
        pair.reader.refresh()
        for committed in (False, True):
            assert everything(pair.reader, committed=committed) == everything(pair.owner, committed=committed)
        assert pair.reader.last_stable_offset == pair.owner.last_stable_offset
        assert pair.reader.start_offset == pair.owner.start_offset
        assert [s.base_offset for s, _ in pair.reader.segments] == [s.base_offset for s, _ in pair.owner.segments]
        at = pair.now - 1
        upto = pair.owner.high_watermark
        assert pair.reader.offset_for_time(at, upto=upto) == pair.owner.offset_for_time(at, upto=upto)
        assert pair.reader.max_timestamp(upto) == pair.owner.max_timestamp(upto)
        pair.fill(80)
    pair.close()


@pytest.mark.parametrize(("offset", "committed"), [(2, True), (41, False)])
@pytest.mark.parametrize("action", ACTIONS)
def test_in_the_middle_of_a_read_the_owner_does_something(
    action: Callable[[Pair], None], offset: int, committed: bool, place: Path
) -> None:
    """What is given is what was there before, or what was there after: never a mixture, never a hole."""
    at = 0
    while True:
        # A read opens and looks up first, and then does the same for every window.
        at += 1 if at < 6 else 12
        pair = Pair(place / str(at), COMPACTED)
        pair.fill(80)
        pair.reader.refresh()
        before = everything(pair.owner, committed=committed)
        pair.watched.calls, pair.watched.at = 0, at
        pair.watched.action = lambda: action(pair)  # noqa: B023
        try:
            rows = values(pair.reader, offset, committed=committed)
            given: list[tuple[int, bytes]] | None = [row for row in rows if row[1]]
        except OffsetOutOfRange:
            given = None
        after = everything(pair.owner, committed=committed)
        if given is None:
            assert pair.owner.start_offset > offset
        else:
            assert rows and (starts(before, given, offset) or starts(after, given, offset)), f"call {at}"
        done = pair.watched.calls < at
        pair.close()
        if done:
            break
    assert at > 3


def starts(whole: list[tuple[int, bytes]], given: list[tuple[int, bytes]], offset: int) -> bool:
    wanted = [one for one in whole if one[0] >= offset]
    return wanted[: len(given)] == given


@pytest.mark.parametrize("action", ACTIONS)
def test_a_reader_reads_in_the_middle_of_any_change_of_the_owner(action: Callable[[Pair], None], place: Path) -> None:
    """At calls that the owner makes, spread over all of them: also what a reader sees whose owner has died there."""
    calls = calls_of(action, place)
    read_in_the_middle(action, place, range(1, calls + 1, max(1, calls // 4)))


def test_while_a_log_begins_anew_a_reader_misses_nothing(place: Path) -> None:
    """There is a moment in which the new segment is there, and nobody was told yet that the log begins with it."""
    calls = calls_of(truncation_of_all, place)
    read_in_the_middle(truncation_of_all, place, every(3, range(1, calls // 2, 2)))


def calls_of(action: Callable[[Pair], None], place: Path) -> int:
    pair = Pair(place / "counting", COMPACTED)
    pair.fill(80)
    first = pair.files.calls
    action(pair)
    calls = pair.files.calls - first
    pair.close()
    return calls


def read_in_the_middle(action: Callable[[Pair], None], place: Path, moments: Iterable[int]) -> None:
    for at in moments:
        pair = Pair(place / str(at), COMPACTED)
        pair.fill(80)
        before = both(pair.reader)
        given: list[tuple[list[tuple[int, bytes]], ...]] = []

        def look(pair: Pair = pair, given: list[Any] = given) -> None:
            later = pair.new_reader()
            given.extend(both(one) for one in (pair.reader, later))
            later.close()

        pair.files.calls, pair.files.at, pair.files.action = 0, at, look
        action(pair)
        after = both(pair.owner)
        assert len(given) == 2
        for found in given:
            for one, old, new in zip(found, before, after, strict=True):
                start = one[0][0] if one else 0
                assert starts(old, one, start) or starts(new, one, start), f"call {at}"
                if action not in (truncation, truncation_of_all):
                    assert (one or old)[-1][0] >= old[-1][0], f"call {at}"
        pair.close()


def both(partition: Any) -> tuple[list[tuple[int, bytes]], ...]:
    """Everything, under either isolation level."""
    return everything(partition), everything(partition, committed=True)


def test_an_owner_reads_records_and_the_word_of_their_abort_in_one_moment(place: Path) -> None:
    """KAFKA-5376, KAFKA-9807: also when compaction takes both away between two calls of the reader."""
    at = 0
    while True:
        at += 1
        pair = Pair(place / str(at), COMPACTED)
        pair.fill(80)
        before = everything(pair.owner, committed=True)
        pair.files.calls, pair.files.at = 0, at
        # Where the list is read nobody else can change the files.
        pair.files.action = lambda: compaction(pair) if not WHOLE.depth else None  # noqa: B023
        given = [row for row in values(pair.owner, 2, committed=True) if row[1]]
        done = pair.files.calls < at
        after = everything(pair.owner, committed=True)
        assert starts(before, given, 2) or starts(after, given, 2)
        pair.close()
        if done:
            break
    assert at > 2


def test_damage_is_told_and_forgotten_when_it_was_cut_off(place: Path) -> None:
    pair = Pair(place, CONFIG | {"segment.bytes": "100000"})
    pair.fill(80)
    path = Path(pair.owner.segments[0][0].path)
    pair.owner.abandon()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    pair.begin_again(durable_offset=80)
    (damage,) = pair.owner.quarantined
    for partition in (pair.owner, pair.reader, pair.new_reader()):
        assert values(partition, 0)[-1][0] == damage.offset - 1
        with pytest.raises(CorruptBatch) as caught:
            values(partition, damage.offset)
        assert (caught.value.offset, caught.value.position) == (damage.offset, damage.position)
        assert values(partition, damage.next_offset)[0][0] == damage.next_offset
    pair.owner.truncate(damage.offset - 5, pair.now)
    pair.life += 1
    pair.fill(60)
    for _ in range(2):
        assert everything(pair.reader) == everything(pair.owner) == everything(pair.new_reader())
        pair.begin_again()
    assert pair.owner.quarantined == ()
    pair.close()


def test_an_append_costs_a_reader_no_listing_of_the_directory(place: Path) -> None:
    """With 10,000 segments that would be 40,000 names a fetch: only a new segment is worth it."""
    pair = Pair(place, CONFIG | {"segment.bytes": "4000"})
    listed: list[str] = []
    list_dir = pair.watched.files.list_dir
    pair.watched.files.list_dir = lambda path: listed.append(path) or list_dir(path)
    rolls = 0
    for _ in range(100):
        before = len(pair.owner.segments)
        pair.fill(1)
        rolls += len(pair.owner.segments) - before
        assert values(pair.reader, pair.owner.next_offset - 1)
    assert rolls > 1 and len(listed) == rolls
    pair.close()


def test_a_change_of_files_given_up_half_way_is_not_followed(place: Path) -> None:
    """The files may have any names then: whoever reads on has to look at them each time."""
    pair = Pair(place, COMPACTED)
    pair.fill(80)
    pair.owner.roll(pair.now)
    pair.fill(1)
    pair.reader.refresh()
    pair.fill(1)
    assert pair.reader.follow()

    def run_out_of_space(source: str, target: str = "") -> None:
        raise DiskFull(f"no space left for {target or source}")

    # On a file system that copies on write not even a removal has room.
    pair.files.rename = pair.files.remove = run_out_of_space
    with pytest.raises(DiskFull):
        retention(pair)
    del pair.files.rename, pair.files.remove
    pair.reader.refresh()
    pair.fill(1)
    assert not pair.reader.follow(), "no more than a record came to it, but who knows where its files are"
    assert everything(pair.reader) == everything(pair.owner)
    retention(pair)
    pair.reader.refresh()
    pair.fill(1)
    assert pair.reader.follow()
    assert everything(pair.reader) == everything(pair.owner)
    pair.close()


def test_a_full_disk_refuses_an_abort_that_readers_could_not_see(place: Path) -> None:
    """A reader in another process knows the transaction index by its file alone."""
    pair = Pair(place)
    pair.fill(9)
    open_file = pair.files.files.open

    def open_without_room(path: str, **kwargs: Any) -> Any:
        if path.endswith(".txnindex"):
            raise DiskFull(f"no space left for {path}")
        return open_file(path, **kwargs)

    pair.files.files.open = open_without_room
    for _ in range(2):
        with pytest.raises(DiskFull):
            pair.fill(1)
        assert pair.owner.next_offset == 9 and pair.owner.last_stable_offset == 0
        assert everything(pair.reader, committed=True) == everything(pair.owner, committed=True) == []
    pair.files.files.open = open_file
    pair.fill(50)
    assert everything(pair.reader, committed=True) == everything(pair.owner, committed=True) != []
    pair.close()


def test_a_new_owner_shows_no_less_than_the_last_one(place: Path) -> None:
    """Reliability 32: the high watermark goes back for nobody, also while it is recovered."""
    with pylog.open(place / "log", flush="none") as log:
        log.create_topic("t")
        for number in range(20):
            log.topic("t")[0].append([Record(b"%d" % number)])
        copy_log(place / "log", place / "killed")
    with pylog.open(place / "killed", mode="read") as reader:
        view = reader.topic("t")[0]
        assert view.high_watermark == 20
        directory = LogDirectory(DiskFiles(), str(place / "killed"), None)
        entry = directory.entry(reader.topic("t").id, 0)
        partition = Partition(DiskFiles(), str(place / "killed" / "t-0"), "t", 0, TopicConfig(), entry)
        partition.open(directory.checkpoint("t", 0, entry), NOW)
        assert view.high_watermark == 20 and len(list(view.records())) == 20
        partition.abandon()
        directory.close(clean=False)


def test_a_partition_made_while_it_is_measured_shows_published_records(place: Path) -> None:
    """The files hold a record already, and the reader has found no word of the partition: it looks again."""
    pair = Pair(place)
    entry = Published(DiskFiles(read_only=True), pair.published_at, writable=False).find(TOPIC_ID, 0)
    looks = iter([None, entry])
    pair.owner.append(encode([Record(b"0:0:", key=b"k")], now_ms=NOW), epoch=0, now_ms=NOW)
    files = DiskFiles(read_only=True)
    reader = ReadOnlyPartition(files, pair.path, "t", 0, pair.config, find_entry=lambda: next(looks))
    assert (reader.next_offset, reader.high_watermark) == (0, 0)
    pair.owner.advance_high_watermark(1)
    assert values(reader, 0) == [(0, b"0:0:")]
    reader.close()
    pair.close()


@pytest.mark.parametrize("is_rolled", [True, False])
def test_a_batch_with_a_false_place_is_damage_for_a_reader(place: Path, *, is_rolled: bool) -> None:
    pair = Pair(place)

    def write(text: bytes) -> None:
        pair.write(encode([Record(text, timestamp=NOW)], now_ms=NOW))

    write(b"a")
    pair.reader.refresh()
    partitions: list[Partition | ReadOnlyPartition] = [pair.owner, pair.reader]
    for partition in partitions:
        assert partition.read(0, 1 << 20, upto=1) is not None
    path, position = pair.owner.segments[0][0].path, pair.owner.segments[0][0].size
    write(b"b")
    if is_rolled:
        pair.owner.roll(NOW)
    for text in (b"c", b"d", b"e"):
        write(text)
    with open(path, "r+b") as file:
        # No checksum covers where a batch begins: now at 3, where there is another one.
        file.seek(position + 7)
        file.write(b"\x03")
    pair.reader.refresh()
    for partition in partitions:
        with pytest.raises(CorruptBatch) as caught:
            partition.read(1, 1 << 20, upto=5)
        assert caught.value.path == path
    pair.close()


# --- threads ----------------------------------------------------------------------------------------------------------


class Step:
    """Stops a thread at one place until another one lets it go on."""

    def __init__(self) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()

    def stop(self) -> None:
        self.reached.set()
        assert self.go_on.wait(240)


def beside(pair: Pair, look: Callable[[], object], call: int, line: int) -> tuple[list[object], bool]:
    """What two threads find that look: one is stopped at its file call number `call`, before line number `line` of the
    other one, which goes on meanwhile; and whether there is such a line.
    """
    found: list[object] = []
    step, lines = Step(), 0
    tracing = sys.gettrace()  # coverage, say

    def held() -> None:
        pair.watched.calls, pair.watched.at = 0, call
        pair.watched.action = step.stop
        found.append(look())
        step.reached.set()

    thread = threading.Thread(target=held)

    def trace(frame: Any, event: str, _: object) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.endswith(("/segment.py", "/shared.py", "/readable.py")):
            return None
        if event == "line":
            lines += 1
            if lines == line:
                sys.settrace(tracing)
                thread.start()
                # It may have to wait for a lock that is held here.
                step.reached.wait(0.1)
                pair.watched.at = -1
        return trace

    sys.settrace(trace)
    try:
        found.append(look())
    finally:
        sys.settrace(tracing)
    step.go_on.set()
    if thread.ident is not None:
        thread.join()
    return found, lines >= line


def test_the_newest_record_is_the_newest_to_each_of_the_threads_that_look(place: Path) -> None:
    pair = Pair(place, CONFIG | {"segment.bytes": "20000"})
    for age in range(12):
        pair.write(encode([Record(bytes(120), timestamp=NOW + age)], now_ms=NOW))
    newest = pair.owner.next_offset
    pair.write(encode([Record(b"newest", timestamp=NOW + 5000)], now_ms=NOW))

    def look() -> object:
        answer = pair.reader.max_timestamp(pair.reader.high_watermark)
        return None if answer is None else answer.offset

    pair.reader.refresh()
    assert look() == newest
    for call in (2, 3, 5):
        for line in itertools.count(1, 4):
            found, is_there = beside(pair, look, call, line)
            assert set(found) == {newest}, f"call {call}, line {line}"
            if not is_there:
                break
