"""`pylog repair` and `Log.repair`: what cannot be read is shown, kept beside the log, and dropped; all else stays."""

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

import pylog
from pylog import Record, TopicPartition
from pylog.cli import main
from pylog.config import TopicConfig
from pylog.errors import CorruptBatch, ReadOnly, UnknownTopicOrPartition
from pylog.files import Files, MemoryFiles
from pylog.logdirs.damage import Findings, find_damage, look
from pylog.logdirs.log_directory import LogDirectory
from pylog.logdirs.repair import copies_folder, repair
from pylog.partition import Checkpoint, Partition
from pylog.protocol.batch import encode, split
from pylog.storage.checkpoint import read_damages, write_damages
from pylog.storage.segment_files import file_name
from support.partition_log import DIRECTORY, NOW, Log
from tests.support.crash import CrashFiles

KEPT = "log-repaired/now/t-0"
STRIDE = 1 if os.environ.get("PYLOG_FAULTS") == "every" else 12
"""Of how many moments of a crash one is looked at; `make faults` takes every one."""
PROMISED = Checkpoint(clean=False, durable_offset=60, high_watermark=60)


def flip(files: Files, path: str, position: int, mask: int = 1) -> None:
    data = bytearray(files.read_file(path))
    data[position] ^= mask
    files.replace_file(path, bytes(data))


def rows(partition: Partition, offset: int = 0) -> list[tuple[int, bytes | None]]:
    found: list[tuple[int, bytes | None]] = []
    offset = max(offset, partition.start_offset)
    while (piece := partition.read(offset, 300, upto=partition.next_offset)) is not None:
        for batch in split(piece.data, check_crc=True):
            found += [(record.offset, record.value) for record in batch.records("t", 0, offset)]
        offset = piece.next_offset
    return found


def positions(partition: Partition, index: int) -> list[tuple[int, int, int]]:
    """Of each batch of a segment: its position, base offset and next offset."""
    segment = partition.segments[index][0]
    return [
        (window.position + span.position, span.base_offset, span.last_offset + 1)
        for window in segment.scan(check_crc=False) for span in window.spans
    ]  # fmt: skip


class Damaged:
    """A log of 60 records, reopened after its owner died; `hurt` does something to the file of a segment."""

    def __init__(
        self, hurt: Callable[["Damaged"], object], *, declared: bool = True, files: Files | None = None
    ) -> None:
        self.log = Log(files)
        self.log.fill(60)
        self.partition = self.log.partition
        self.before = rows(self.partition)
        self.partition.sync()
        if not declared:
            self.partition.close()
        hurt(self)
        self.partition = self.log.reopen(
            PROMISED if declared else PROMISED.__class__(durable_offset=60, high_watermark=60)
        )

    @property
    def files(self) -> Files:
        return self.log.files

    def flip(self, segment: int, batch: int, at: int = 70, mask: int = 1) -> None:
        """Flip bits of a batch."""
        path = self.partition.segments[segment][0].path
        flip(self.files, path, positions(self.partition, segment)[batch][0] + at, mask)

    def cut(self, segment: int, size: int) -> None:
        """Take bytes off the end of a segment's file."""
        path = self.partition.segments[segment][0].path
        data = self.files.read_file(path)
        self.files.replace_file(path, data[:-size])

    def repair(self) -> Findings:
        found = find_damage(self.partition)
        repair(self.partition, found, KEPT, NOW)
        return found

    def check(self, lost: set[int]) -> None:
        """Everything but `lost` is there, reading steps over the gap, and nothing remembers it; now and reopened."""
        for _ in range(2):
            assert rows(self.partition) == [row for row in self.before if row[0] not in lost]
            for offset in range(60):
                following = next((row for row in self.before if row[0] >= offset and row[0] not in lost), None)
                found = self.partition.read(offset, 1, upto=60)
                assert (found is None) == (following is None)
            self.partition.check()
            assert self.partition.next_offset == 60
            assert find_damage(self.partition) == Findings()
            assert read_damages(self.files, DIRECTORY) == {}
            assert not [name for name in self.files.list_dir(DIRECTORY) if name.endswith(".cleaned")]
            self.partition = self.log.reopen(PROMISED)
            assert self.partition.quarantined == ()


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize(("segment", "batch"), [(0, 0), (1, 3), (2, -1), (-1, 0), (-1, -1)])
def test_damaged_records_become_a_gap_and_the_rest_stays(segment: int, batch: int, declared: bool) -> None:
    log = Damaged(lambda log: log.flip(segment, batch), declared=declared)
    found = log.repair()
    (damage,) = found.damages
    assert (damage.topic, damage.partition, damage.next_offset - damage.offset) == ("t", 0, 1)
    assert "CRC" in damage.reason or "crc" in damage.reason
    log.check({damage.offset})


def test_several_parts_of_several_segments_are_dropped_at_once() -> None:
    def hurt(log: Damaged) -> None:
        for segment, batch in ((0, 1), (0, 5), (1, 0), (-1, 1)):
            log.flip(segment, batch)

    log = Damaged(hurt)
    found = log.repair()
    assert len(found.damages) == 4
    log.check({damage.offset for damage in found.damages})


@pytest.mark.parametrize(("segment", "declared"), [(1, True), (1, False), (-1, True)])
def test_a_cut_file_keeps_its_remaining_records(segment: int, declared: bool) -> None:
    log = Damaged(lambda log: log.cut(segment, 200), declared=declared)
    found = log.repair()
    lost = {offset for damage in found.damages for offset in range(damage.offset, damage.next_offset)}
    assert lost
    log.check(lost)


@pytest.mark.parametrize("declared", [True, False])
def test_a_batch_that_lies_in_the_next_segment_is_dropped(declared: bool) -> None:
    def forge(log: Damaged) -> None:
        segment, end = log.partition.segments[0]
        forged = encode([(b"forged", b"k", NOW, ())], now_ms=NOW, base_offset=end + 2, leader_epoch=9)
        log.files.replace_file(segment.path, log.files.read_file(segment.path) + bytes(forged.data))

    log = Damaged(forge, declared=declared)
    (damage,) = log.repair().damages
    assert damage.offset == damage.next_offset == log.partition.segments[0][1]
    log.check(set())


def test_the_old_files_are_kept_with_a_list_of_dropped_parts() -> None:
    log = Damaged(lambda log: log.flip(1, 3))
    segment = log.partition.segments[1][0]
    wanted = {name: log.files.read_file(f"{DIRECTORY}/{name}") for name in log.files.list_dir(DIRECTORY)}
    (damage,) = log.repair().damages
    names = [file_name(segment.base_offset, kind) for kind in (".index", ".log", ".pylog-seal", ".timeindex")]
    assert log.files.list_dir(KEPT) == [*names, "pylog-damages"]
    for name in names:
        assert log.files.read_file(f"{KEPT}/{name}") == wanted[name]
    end = damage.position + damage.bytes_lost
    assert read_damages(log.files, KEPT) == {
        segment.base_offset: [(damage.position, end, damage.offset, damage.next_offset)]
    }


@pytest.mark.parametrize(("at", "mask"), [(7, 64), (7, 1), (15, 1), (15, 64), (11, 8), (16, 1)])
def test_a_header_that_the_crc_does_not_cover_costs_its_own_batch_alone(at: int, mask: int) -> None:
    """Base offset, leader epoch, length and magic: the neighbours say which batch it is."""
    log = Damaged(lambda log: log.flip(1, 4, at, mask), declared=False)
    found = log.repair()
    (damage,) = found.damages
    assert damage.next_offset - damage.offset == 1, found
    log.check({damage.offset})


def test_a_batch_that_claims_to_lie_beyond_its_segment_is_dropped() -> None:
    log = Damaged(lambda log: log.flip(1, -1, 6), declared=False)
    (damage,) = log.repair().damages
    assert "beyond" in damage.reason
    log.check({damage.offset})


def test_damage_that_was_not_found_before_is_not_dropped() -> None:
    log = Damaged(lambda log: log.flip(1, 3))
    found = find_damage(log.partition)
    segment = log.partition.segments[1][0]
    flip(log.files, segment.path, positions(log.partition, 1)[-1][0] + 70)
    before = {name: log.files.read_file(f"{DIRECTORY}/{name}") for name in log.files.list_dir(DIRECTORY)}
    with pytest.raises(CorruptBatch, match="it was not found before") as caught:
        repair(log.partition, found, KEPT, NOW)
    assert caught.value.path == segment.path
    assert {name: log.files.read_file(f"{DIRECTORY}/{name}") for name in log.files.list_dir(DIRECTORY)} == before
    assert len(find_damage(log.partition).damages) == 2


def test_damage_behind_the_end_of_a_file_was_never_in_it() -> None:
    log = Log()
    values = log.fill(3)
    write_damages(log.files, DIRECTORY, {0: [(100_000, 200_000, 1, 2)]})
    partition = log.reopen(Checkpoint(durable_offset=3, high_watermark=3))
    assert partition.quarantined == () and find_damage(partition) == Findings()
    log.partition.advance_high_watermark(3)
    assert log.values() == values


def test_a_segment_that_is_gone_meanwhile_is_passed_over() -> None:
    log = Damaged(lambda log: log.flip(0, 3))
    found = find_damage(log.partition)
    log.partition.truncate_fully(60, NOW)
    repair(log.partition, found, KEPT, NOW)
    assert log.files.stat(KEPT) is None


def test_records_that_are_appended_during_the_search_are_no_damage() -> None:
    log = Damaged(lambda log: None, declared=False)
    active, _ = log.partition.segments[-1]
    seen: list[int] = []

    def append(size: int) -> None:
        seen.append(size)
        log.log.append("more")

    assert look(log.partition, active, append).findings == Findings()
    assert seen


def with_transactions() -> tuple[Log, list[str]]:
    """A closed log with aborted and committed transactions over several segments; and what read_committed sees."""
    log = Log()
    for number in range(30):
        log.in_transaction(f"{number} {'x' * 200}", producer_id=number % 3, sequence=number // 3)
        if number % 5 == 4:
            for producer_id in range(3):
                log.end(producer_id, commit=number % 2 == 0)
    seen = log.committed()
    log.partition.close()
    return log, seen


@pytest.mark.parametrize("snapshots", [True, False])
def test_a_transaction_index_that_is_lost_is_made_from_the_log(snapshots: bool) -> None:
    log, seen = with_transactions()
    names = log.files.list_dir(DIRECTORY)
    lost = [name for name in names if name.endswith(".txnindex")][:-1]
    assert len(lost) > 1
    for name in names:
        if name in lost or (name.endswith(".snapshot") and not snapshots):
            log.files.remove(f"{DIRECTORY}/{name}")
    closed = Checkpoint(high_watermark=log.partition.next_offset)
    partition = log.reopen(closed)
    with pytest.raises(CorruptBatch, match="pylog repair"):
        log.committed()
    found = find_damage(partition)
    assert (found.damages, len(found.indexes)) == ((), len(lost))
    repair(partition, found, KEPT, NOW)
    assert log.committed() == seen
    partition.check()
    assert find_damage(partition) == Findings()
    partition.close()
    log.reopen(closed)
    assert log.committed() == seen


def test_bad_indexes_are_written_anew() -> None:
    log = Damaged(lambda log: flip(log.files, f"{DIRECTORY}/{file_name(0, '.index')}", 3), declared=False)
    assert log.partition.segments[0][0].offsets.entries == 0
    found = log.repair()
    assert (found.damages, [path for _, path in found.indexes]) == ((), [f"{DIRECTORY}/{file_name(0, '.log')}"])
    assert log.partition.segments[0][0].offsets.entries > 0
    assert log.files.stat(KEPT) is None
    log.check(set())


def test_aborted_records_stay_hidden_when_their_marker_is_given_up() -> None:
    log = Log()
    log.in_transaction("aborted", producer_id=5, sequence=0)
    log.end(5, commit=False)
    log.append("plain")
    log.partition.roll(NOW)
    log.append("more")
    segment = log.partition.segments[0][0]
    log.partition.close()
    flip(log.files, segment.path, positions(log.partition, 0)[1][0] + 70)
    log.reopen(Checkpoint(durable_offset=4, high_watermark=4))
    found = find_damage(log.partition)
    repair(log.partition, found, KEPT, NOW)
    assert [(damage.offset, damage.next_offset) for damage in found.damages] == [(1, 2)]
    assert log.committed() == ["plain", "more"]
    log.reopen(Checkpoint(durable_offset=4, high_watermark=4))
    assert log.committed() == ["plain", "more"]


def test_producers_and_epochs_survive_a_repair() -> None:
    log = Log()
    for at in range(30):
        log.append("x" * 100, producer_id=3, producer_epoch=0, base_sequence=at, epoch=at // 10)
    log.partition.close()
    segment = log.partition.segments[1][0]
    flip(log.files, segment.path, positions(log.partition, 1)[1][0] + 70)
    log.reopen(Checkpoint(durable_offset=30, high_watermark=30))
    producers, epochs = log.partition.producers.entries(), log.partition.epochs.entries
    repair(log.partition, find_damage(log.partition), KEPT, NOW)
    for _ in range(2):
        assert (log.partition.epochs.entries, log.partition.epochs.latest) == (epochs, 2)
        assert log.partition.producers.entries()[3].last_sequence == producers[3].last_sequence == 29
        assert log.append("x" * 100, producer_id=3, producer_epoch=0, base_sequence=29, epoch=2).duplicate
        log.reopen(Checkpoint(clean=False, durable_offset=30, high_watermark=30))


def test_copies_lie_beside_the_log_directory_each_in_a_folder_of_its_own() -> None:
    files = MemoryFiles()
    assert copies_folder(files, "data/", 0) == "data-repaired/19700101T000000.000Z"
    files.make_dir("data-repaired/19700101T000000.000Z")
    assert copies_folder(files, "data", 0) == "data-repaired/19700101T000000.000Z-2"
    assert copies_folder(files, "data", 1, "elsewhere") == "elsewhere/19700101T000000.001Z"
    for inside in ("data", "data/", "data/kept"):
        with pytest.raises(ValueError, match="lies in the log directory"):
            copies_folder(files, "data", 0, inside)


# --- crashes ----------------------------------------------------------------------------------------------------------


COUNT = 21


class Place:
    """A partition in a log directory, opened as its owner opens it."""

    def __init__(self, files: Files) -> None:
        self.files = files
        config = TopicConfig.loaded({"segment.bytes": "600", "index.interval.bytes": "100"})
        self.directory = LogDirectory(files, "log", 1)
        entry = self.directory.entry(UUID(int=7), 0)
        self.partition = Partition(files, "log/t-0", "t", 0, config, entry, checkpoints=self.directory.checkpoints)
        if files.stat("log/t-0") is None:
            self.partition.create(UUID(int=7), NOW)
        else:
            self.partition.open(self.directory.checkpoint("t", 0, entry), NOW)

    def fill(self) -> None:
        for at in range(COUNT):
            self.partition.append(encode([Record(b"%d" % at * 20, timestamp=NOW)], now_ms=NOW), epoch=0, now_ms=NOW)
        self.partition.sync()
        self.partition.advance_high_watermark(COUNT)

    def readable(self) -> tuple[list[tuple[int, bytes | None]], set[int]]:
        """The records that can be read, and the offsets that raise."""
        found: list[tuple[int, bytes | None]] = []
        raising: set[int] = set()
        for offset in range(COUNT):
            try:
                piece = self.partition.read(offset, 1, upto=COUNT)
                batch = next(iter(split(piece.data, check_crc=True))) if piece is not None else None
            except CorruptBatch:
                raising.add(offset)
                continue
            if batch is not None and batch.base_offset == offset:
                found += [(record.offset, record.value) for record in batch.records("t", 0)]
        return found, raising


def hurt_by_flips(files: Files, partition: Partition) -> set[int]:
    lost = set()
    for segment, batch in ((0, 2), (-1, 1)):
        position, base, _ = positions(partition, segment)[batch]
        path = partition.segments[segment][0].path
        flip(files, path, position + 65)
        # The next open reads it anew, if it is to be told of it.
        files.remove(path.removesuffix(".log") + ".index")
        lost.add(base)
    return lost


def hurt_silently(files: Files, partition: Partition) -> set[int]:
    position, base, _ = positions(partition, 0)[2]
    flip(files, partition.segments[0][0].path, position + 65)
    return {base}


def hurt_by_a_cut(files: Files, partition: Partition) -> set[int]:
    segment, end = partition.segments[-1]
    position, base, _ = positions(partition, -1)[-1]
    files.replace_file(segment.path, files.read_file(segment.path)[: position + 5])
    return set(range(base, end))


@pytest.mark.parametrize(
    ("hurt", "closed"), [(hurt_by_flips, True), (hurt_by_flips, False), (hurt_silently, True), (hurt_by_a_cut, False)]
)
def test_a_crash_at_any_moment_leaves_the_damage_or_the_gap(
    hurt: Callable[[Files, Partition], set[int]], closed: bool
) -> None:
    memory = MemoryFiles()
    place = Place(memory)
    place.fill()
    before = rows(place.partition)
    if closed:
        place.partition.close()
        place.directory.write_checkpoints([place.partition])
        place.directory.close(clean=True)
    lost = hurt(memory, place.partition)
    wanted = [row for row in before if row[0] not in lost]
    damaged = {segment.path: memory.read_file(segment.path) for segment, _ in place.partition.segments}
    files = CrashFiles(tree=tree_of(memory))
    place = Place(files)
    place.partition.sync()
    place.directory.write_checkpoints([place.partition])
    assert (read_damages(files, "log/t-0") == {}) == (hurt is hurt_silently)
    files.note("opened")
    repair(place.partition, find_damage(place.partition), KEPT, NOW)
    files.note("repaired")
    seen, known = set(), set()
    for state in (*files.kills(), *files.power_cuts(samples=0)):
        moment = (state.key, state.notes)
        if "opened" not in state.notes or moment in known:
            continue
        known.add(moment)
        if len(known) % STRIDE:
            continue
        again = Place(MemoryFiles(tree=state.tree))
        found, raising = again.readable()
        assert found == wanted, state.operation
        assert raising <= lost, state.operation
        assert not raising or "repaired" not in state.notes
        told = [part for parts in read_damages(again.files, "log/t-0").values() for part in parts]
        for offset in raising if hurt is not hurt_silently else ():
            assert any(begin <= offset < end for _, _, begin, end in told), state.operation
        for path, data in damaged.items():
            # A file that is not as it was any more has been kept.
            copy = f"{KEPT}/{path.rpartition('/')[2]}"
            kept = again.files.read_file(copy if again.files.read_file(path) != data else path)
            assert kept == data, state.operation
        seen.add(frozenset(raising))
        repair(again.partition, find_damage(again.partition), KEPT + "-again", NOW)
        assert again.readable() == (wanted, set())
        again.partition.check()
    assert frozenset() in seen and frozenset(lost) in seen


def tree_of(files: MemoryFiles) -> dict[str, bytes | None]:
    tree: dict[str, bytes | None] = {}

    def add(path: str) -> None:
        for name in files.list_dir(path):
            child = f"{path}/{name}"
            stat = files.stat(child)
            if stat is not None and stat.is_dir:
                tree[child] = None
                add(child)
            else:
                tree[child] = files.read_file(child)

    tree["log"] = None
    add("log")
    return tree


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log with damage in `clicks-0`, offsets 3 and 30; `users` is sound."""
    path = tmp_path / "data"
    with pylog.open(path) as log:
        log.create_topic("clicks", partitions=2)
        log.create_topic("users")
        for at in range(40):
            log.topic("clicks")[0].append([Record(b"%d" % at * 40)])
            log.topic("clicks")[1].append([Record(b"%d" % at)])
            log.topic("users")[0].append([Record(b"%d" % at)])
            if at % 20 == 10:
                log.broker.partition("clicks", 0).roll(0)
        places = {
            base: (segment.path, window.position + span.position)
            for segment, _ in log.broker.partition("clicks", 0).segments
            for window in segment.scan(check_crc=True) for span in window.spans for base in [span.base_offset]
        }  # fmt: skip
    for offset in (3, 30):
        file, position = places[offset]
        content = bytearray(Path(file).read_bytes())
        content[position + 65] ^= 1
        Path(file).write_bytes(content)
    return path


def run(data: Path, *words: str) -> int:
    return main(["repair", "--log", str(data), *words])


def contents(path: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in path.rglob("*") if one.is_file() and "clicks-0" in str(one)}


def values(data: Path, topic: str = "clicks", partition: int = 0) -> list[int]:
    with (
        pylog.open(data, mode="read") as log,
        log.consumer(auto_offset_reset="earliest", consumer_timeout_ms=0) as consumer,
    ):
        consumer.assign([TopicPartition(topic, partition)])
        return [record.offset for record in consumer]


class Terminal(io.StringIO):
    """Somebody who types."""

    def isatty(self) -> bool:
        return True


def test_a_dry_run_shows_the_damage_and_changes_nothing(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(data)
    assert run(data, "--dry-run") == 0
    out, err = capsys.readouterr()
    rows = [line.split() for line in out.splitlines()]
    assert [row[0] for row in rows] == ["PARTITION", "clicks-0", "clicks-0"]
    assert [row[1:4] for row in rows[1:]] == [["3", "to", "3"], ["30", "to", "30"]]
    assert "would drop 2 offsets in" in err and "of 2 files" in err
    assert contents(data) == before
    assert not (data.parent / "data-repaired").exists()


def test_the_command_repairs_after_consent(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(data)
    assert run(data) == 1
    assert "give --yes" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", Terminal("no\n"))
    assert run(data) == 1
    assert "Drop 2 offsets in" in capsys.readouterr().err
    assert contents(data) == before and not (data.parent / "data-repaired").exists()
    with pytest.raises(CorruptBatch):
        values(data)
    monkeypatch.setattr(sys, "stdin", Terminal("yes\n"))
    assert run(data) == 0
    out = capsys.readouterr().out
    assert "clicks-0: dropped what could not be read; the files as they were are in" in out
    assert values(data) == [at for at in range(40) if at not in (3, 30)]
    assert values(data, "users") == values(data, "clicks", 1) == list(range(40))
    (kept,) = (data.parent / "data-repaired").glob("*/clicks-0")
    assert len(list(kept.glob("*.log"))) == 2
    for file in kept.glob("*.log"):
        assert file.read_bytes() == before[str(data / "clicks-0" / file.name)]
    assert main(["verify", "--log", str(data)]) == 0
    assert run(data, "--yes") == 0
    assert "nothing had to be dropped" in capsys.readouterr().err


def test_the_command_repairs_one_partition_with_copies_elsewhere(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(data, "users", "--yes") == 0 == run(data, "clicks:1", "--yes")
    with pytest.raises(CorruptBatch):
        values(data)
    assert run(data, "clicks:0", "--yes", "--json", "--keep", str(data.parent / "kept")) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["type"] for one in told] == ["damage", "damage", "kept"]
    assert [(one["offset"], one["next_offset"]) for one in told[:2]] == [(3, 4), (30, 31)]
    assert Path(told[2]["path"]).parts[-3] == "kept" and Path(told[2]["path"]).is_dir()
    assert len(values(data)) == 38


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nothing",), "no topic 'nothing'"),
        (("clicks:7",), "no partition 7"),
        (("--yes", "--keep", "{data}/kept"), "lies in the log directory"),
    ],
)
def test_the_command_names_damage_that_it_cannot_repair(
    data: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    before = contents(data)
    assert run(data, *(word.format(data=data) for word in words)) == 1
    assert said in capsys.readouterr().err
    assert contents(data) == before


def test_a_directory_that_is_no_log_is_not_made_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "nowhere") == 1
    assert "nowhere" in capsys.readouterr().err and not (tmp_path / "nowhere").exists()
    assert run(tmp_path, "a:b") == 2


def test_a_log_with_another_owner_is_left_alone(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pylog.open(data):
        assert run(data, "--yes") == 1
        assert "owns this log" in capsys.readouterr().err


@pytest.mark.parametrize("unreadable", ["clicks-0/pylog-damages", "clicks-1/partition.metadata", "meta.properties"])
def test_an_unreadable_metadata_log_stops_a_repair(
    data: Path, capsys: pytest.CaptureFixture[str], unreadable: str
) -> None:
    (data / unreadable).write_bytes(b"\xff nonsense\n")
    before = contents(data)
    assert run(data, "--yes") == 1
    assert unreadable.rpartition("/")[2] in capsys.readouterr().err
    assert contents(data) == before
    assert not (data.parent / "data-repaired").exists()


def test_damage_that_opening_has_found_is_dropped_too(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for index in (data / "clicks-0").glob("*.index"):
        index.unlink()
    with pylog.open(data) as log:
        log.broker.partition("clicks", 0)
        assert [(one.offset, one.next_offset) for one in log.quarantined] == [(3, 4), (30, 31)]
    assert main(["verify", "--notes", "--log", str(data)]) == 1
    assert "note: " in (out := capsys.readouterr().out) and "offsets 30 to 30 are quarantined" in out
    assert main(["segment", "dump", str(data / "clicks-0" / "pylog-damages")]) == 0
    assert "offset: 30 nextOffset: 31" in capsys.readouterr().out
    assert run(data, "--yes") == 0
    assert values(data) == [at for at in range(40) if at not in (3, 30)]
    assert (data / "clicks-0" / "pylog-damages").read_text() == "0\n0\n"
    capsys.readouterr()
    assert main(["verify", "--log", str(data)]) == 0
    assert (said := capsys.readouterr()).out == "" and "no problems" in said.err


def test_a_log_that_is_in_use_here_is_repaired_under_its_readers(data: Path) -> None:
    with pylog.open(data) as log:
        found = log.find_damage("clicks")
        assert [damage.offset for damage in found.damages] == [3, 30]
        (folder,) = log.repair(found).values()
        assert Path(folder).is_dir()
        partition = log.topic("clicks")[0]
        assert [record.offset for record in partition.records()] == [at for at in range(40) if at not in (3, 30)]
        partition.append([Record(b"more")])
        assert log.repair(Findings()) == {}
        with pytest.raises(UnknownTopicOrPartition):
            log.find_damage("clicks", 7)
    with pylog.open(data, mode="read") as log, pytest.raises(ReadOnly):
        log.find_damage()
