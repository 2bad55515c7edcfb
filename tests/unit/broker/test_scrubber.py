"""Every sealed byte is read in the background: what that writes down, what it finds; and what seals tell besides."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

import pylog
from pylog import Record, TopicPartition, errors
from pylog.broker.log_cleaner import Cleaner
from pylog.broker.scrubber import LOOK_EVERY_MS, Scrubber
from pylog.cli import main
from pylog.files import DiskFiles, File
from pylog.inspect import BatchEntry, Problem, dump_segment, verify
from pylog.logdirs.damage import Findings
from pylog.protocol.batch import encode
from pylog.storage.checkpoint import write_topic_id
from pylog.storage.segment_checksum import CHANGED, NOBODY, NOT_YET, SEAL, mark_of_log, read_seal
from pylog.testing import SimClock
from support.killed import kill
from support.log_copies import copy_log

NOW = 1_700_000_000_000
WEEK_MS = 7 * 24 * 60 * 60 * 1000
KEY = TopicPartition("t", 0)


@pytest.fixture
def clock() -> SimClock:
    return SimClock(NOW)


def opened(path: Path, clock: SimClock) -> pylog.Log:
    return pylog.open(path, clock=clock)


def fill(log: pylog.Log, topic: str, number: int = 0, segments: int = 3) -> None:
    """So many sealed segments of four records each, and one more that is active."""
    for _ in range(segments):
        for turn in range(2):
            view = log.topic(topic)[number]
            view.append([Record(b"%s-%d of %d" % (topic.encode(), number, turn), b"k", NOW + turn)] * 2)
        log.broker.partition(topic, number).roll(NOW)
    log.topic(topic)[number].append([Record(b"last", b"k", NOW)])


@pytest.fixture
def log(tmp_path: Path, clock: SimClock) -> pylog.Log:
    log = opened(tmp_path / "log", clock)
    log.create_topic("t", 2, {"index.interval.bytes": "10"})
    fill(log, "t")
    fill(log, "t", 1)
    return log


def scrubber(log: pylog.Log) -> Scrubber:
    return log.broker.housekeeping.scrubber


def segment(log: pylog.Log, base: int, kind: str = ".log", number: int = 0) -> Path:
    return Path(log.path) / f"t-{number}" / f"{base:020d}{kind}"


def overwrite(path: Path, at: int, value: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[at : at + len(value)] = value
    path.write_bytes(data)


def read_all(log: pylog.Log, number: int = 0) -> list[int]:
    with log.consumer() as consumer:
        key = TopicPartition("t", number)
        consumer.assign([key])
        consumer.seek(key, 0)
        end = consumer.end_offsets([key])[key]
        found: list[int] = []
        while consumer.position(key) < end and (records := consumer.poll(0)):
            found += [record.offset for record in records]
        return found


def problems(log: pylog.Log) -> list[str]:
    found = verify(DiskFiles(), log.path)
    return [f"{Path(one.path).name}: {one.what}" for one in found if isinstance(one, Problem) and not one.harmless]


# --- reading everything -----------------------------------------------------------------------------------------------


def test_a_scrubbed_segment_is_read_again_a_week_later(log: pylog.Log, clock: SimClock) -> None:
    path = segment(log, 4)
    before = read_seal(DiskFiles(), str(segment(log, 4, SEAL)))
    assert before is not None and before.read_ms == NOT_YET and before.next_offset == 8
    assert before.identity == (log.topic("t").id, 0)
    assert not scrubber(log).scrub() and not log.found_damage
    first = read_seal(DiskFiles(), str(segment(log, 4, SEAL)))
    assert first is not None and first.read_ms == NOW and first.log == mark_of_log(DiskFiles(), str(path))
    assert first.indexes == before.indexes
    clock.advance(WEEK_MS - 1)
    scrubber(log).scrub()
    assert read_seal(DiskFiles(), str(segment(log, 4, SEAL))) == first
    clock.advance(1)
    scrubber(log).scrub()
    again = read_seal(DiskFiles(), str(segment(log, 4, SEAL)))
    assert again is not None and again.read_ms == NOW + WEEK_MS and again.log == first.log
    log.close()


def test_indexes_of_scrubbed_segments_do_not_stay_in_memory(log: pylog.Log) -> None:
    log.close()
    with opened(Path(log.path), SimClock(NOW)) as again:
        scrubber(again).scrub(everything=True)
        assert not again.find_damage()
        sealed = again.broker.partition("t", 0).segments[:-1]
        assert [one.tail.offset_index or one.tail.time_index or one.on_disk._aborted for one, _ in sealed] == [None] * 3


def test_the_active_segment_is_not_read(log: pylog.Log) -> None:
    scrubber(log).scrub(everything=True)
    assert not segment(log, 12, SEAL).exists()
    log.close()


def test_a_segment_without_a_seal_gets_one(log: pylog.Log) -> None:
    segment(log, 4, SEAL).unlink()
    log.close()
    segment(log, 4, SEAL).unlink(missing_ok=True)
    with opened(Path(log.path), SimClock(NOW)) as again:
        scrubber(again).scrub()
        seal = read_seal(DiskFiles(), str(segment(again, 4, SEAL)))
        assert seal is not None and seal.read_ms == NOW and seal.next_offset == 8
        assert problems(again) == []


def test_an_epoch_that_has_changed_is_told_though_every_batch_is_good(
    log: pylog.Log, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    scrubber(log).scrub()
    for batch in dump_segment(DiskFiles(), str(segment(log, 8))):
        assert isinstance(batch, BatchEntry)
        overwrite(segment(log, 8), batch.position + 12, (7).to_bytes(4, "big"))
    overwrite(segment(log, 12), 12, (7).to_bytes(4, "big"))
    assert read_all(log) == list(range(13)), "no CRC covers it"
    found = scrubber(log).scrub(everything=True)
    assert found.changed == ((KEY, str(segment(log, 8))),) and not found.damages and not found.indexes
    assert log.found_damage == found and CHANGED in caplog.text
    caplog.clear()
    scrubber(log).scrub(everything=True)
    assert caplog.text == "", "it was told"
    assert any(CHANGED in line for line in problems(log))
    assert log.find_damage().changed == found.changed
    log.close()
    assert main(["repair", "--log", log.path, "--dry-run"]) == 0
    assert CHANGED in capsys.readouterr().out
    assert main(["repair", "--log", log.path, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["type"] == "changed"


def test_damage_is_found_and_forgotten_with_its_segment(log: pylog.Log, caplog: pytest.LogCaptureFixture) -> None:
    overwrite(segment(log, 4), 70, b"XXXX")
    (damage,) = scrubber(log).scrub().damages
    assert (damage.topic, damage.partition, damage.offset, damage.next_offset) == ("t", 0, 4, 6)
    assert "offsets 4 to 5 are damaged" in caplog.text and damage.path in caplog.text
    seal = read_seal(DiskFiles(), str(segment(log, 4, SEAL)))
    assert seal is not None and seal.read_ms == NOT_YET
    log.delete_records({KEY: 8})
    log.alter_config("t", {"retention.bytes": "1"})
    log.apply_retention()
    assert not scrubber(log).scrub()
    log.close()


def test_an_index_that_has_changed_is_found(log: pylog.Log, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log.close()
    overwrite(segment(log, 4, ".index"), 3, b"\x09")
    with opened(tmp_path / "log", SimClock(NOW)) as again:
        assert scrubber(again).scrub().indexes == ((KEY, str(segment(log, 4))),)
        assert "cannot be believed" in caplog.text


def test_a_segment_that_goes_or_fails_while_it_is_read_is_passed_over(
    log: pylog.Log, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = log.broker.partition("t", 0)
    scrub = scrubber(log)

    def meanwhile(act: Callable[[], object]) -> None:
        pause = scrub._pause

        def acted(size: int) -> None:
            monkeypatch.setattr(scrub, "_pause", pause)
            act()
            pause(size)

        monkeypatch.setattr(scrub, "_pause", acted)

    meanwhile(lambda: partition.truncate(2, NOW))
    assert not scrub.scrub() and partition.next_offset == 2
    assert caplog.text == ""
    partition.roll(NOW)
    seal = read_seal(DiskFiles(), str(segment(log, 0, SEAL)))
    assert seal is not None and seal.read_ms == NOT_YET, "it was read before it was cut"

    def fail() -> None:
        raise errors.StorageError("no more")

    meanwhile(fail)
    assert not scrub.scrub()
    assert "could not be read through: no more" in caplog.text
    log.close()


def test_a_full_disk_leaves_it_unsaid(log: pylog.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    segment(log, 4, SEAL).unlink()
    log.close()
    with opened(Path(log.path), SimClock(NOW)) as again:
        files = again.broker.partition("t", 0).files
        inner = files.open

        def full(path: str, *, create: bool = False) -> File:
            if path.endswith(SEAL):
                raise errors.DiskFull("no room")
            return inner(path, create=create)

        def too_full(path: str, data: bytes) -> None:
            raise errors.DiskFull("no room")

        monkeypatch.setattr(files, "open", full)
        monkeypatch.setattr(files, "replace_file", too_full)
        before = segment(log, 8, SEAL).read_bytes()
        assert not scrubber(again).scrub()
        assert not segment(log, 4, SEAL).exists() and segment(log, 8, SEAL).read_bytes() == before
        monkeypatch.undo()
        scrubber(again).scrub()
        for base in (4, 8):
            seal = read_seal(DiskFiles(), str(segment(log, base, SEAL)))
            assert seal is not None and seal.read_ms == NOW


def test_closing_ends_it_in_the_middle_of_a_file(log: pylog.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    scrub = scrubber(log)
    pause = scrub._pause

    def stop(size: int) -> None:
        scrub._stopped.set()
        pause(size)

    monkeypatch.setattr(scrub, "_pause", stop)
    assert not scrub.scrub(everything=True)
    assert all(
        seal is not None and seal.read_ms == NOT_YET
        for seal in (read_seal(DiskFiles(), str(segment(log, base, SEAL))) for base in (0, 4, 8))
    )
    log.close()


def test_scrubbing_begins_with_the_first_append_and_can_be_off(tmp_path: Path) -> None:
    clock = SimClock(NOW)
    with pylog.open(tmp_path / "a", clock=clock, config={"scrub.interval.ms": -1}) as log:
        log.create_topic("t")[0].append([Record(b"x")])
        assert scrubber(log)._due is None
    with pylog.open(tmp_path / "b", clock=clock) as log:
        log.create_topic("t")
        assert scrubber(log)._due is None
        fill(log, "t", segments=1)
        assert scrubber(log)._due == clock.tick_ms() + LOOK_EVERY_MS
        clock.advance(LOOK_EVERY_MS)
        scrubber(log)._work()
        assert scrubber(log)._due == clock.tick_ms() + LOOK_EVERY_MS
        seal = read_seal(DiskFiles(), str(segment(log, 0, SEAL)))
        assert seal is not None and seal.read_ms == clock.wall_ms()
    with pylog.open(tmp_path / "b", mode="read") as log:
        assert not log.found_damage


# --- whose a segment is -----------------------------------------------------------------------------------------------


def swap(log: pylog.Log, base: int) -> None:
    """Let two partitions have each other's segment, with all its files."""
    for kind in (".log", ".index", ".timeindex", SEAL):
        ours, theirs = segment(log, base, kind), segment(log, base, kind, 1)
        data = ours.read_bytes()
        ours.write_bytes(theirs.read_bytes())
        theirs.write_bytes(data)


@pytest.mark.parametrize("mode", ["own", "read"])
def test_a_segment_of_another_partition_is_not_read(log: pylog.Log, mode: str) -> None:
    log.close()
    swap(log, 4)
    with pylog.open(log.path, mode=mode) as again:  # type: ignore[arg-type]
        with pytest.raises(errors.CorruptBatch, match=f"partition 1 of topic id {again.topic('t').id}") as raised:
            read_all(again)
        assert raised.value.path == str(segment(log, 4)) and raised.value.offset == 4
        assert "put it back" in str(raised.value)
        if mode == "own":
            (one,) = again.find_damage("t", 0).damages
            assert (one.offset, one.next_offset, one.position) == (4, 8, 0)
            assert [(found.partition, found.offset) for found in scrubber(again).scrub().damages] == [(0, 4), (1, 4)]
    assert len([line for line in problems(log) if "it was sealed as a segment of partition" in line]) == 2
    swap(log, 4)
    with pylog.open(log.path) as again:
        assert read_all(again) == read_all(again, 1) == list(range(13))
    assert problems(log) == []


def test_a_last_segment_of_another_partition_keeps_its_partition_from_opening(log: pylog.Log) -> None:
    log.close()
    swap(log, 12)
    with pylog.open(log.path) as again, pytest.raises(errors.CorruptBatch, match="put it back"):
        again.topic("t")[0].append([Record(b"x")])
    assert segment(log, 12, SEAL).exists()
    swap(log, 12)
    with pylog.open(log.path) as again:
        assert read_all(again) == list(range(13))


def test_a_segment_of_another_partition_is_dropped_by_a_repair_and_kept(log: pylog.Log, tmp_path: Path) -> None:
    log.close()
    swap(log, 4)
    with pylog.open(log.path) as again:
        kept = again.repair(again.find_damage("t", 0), keep_in=tmp_path / "kept")
        assert read_all(again) == [0, 1, 2, 3, 8, 9, 10, 11, 12]
        assert b"t-1 of 0" in (Path(kept[KEY]) / f"{4:020d}.log").read_bytes()


def test_the_folder_of_another_topic_is_not_read(log: pylog.Log) -> None:
    """All of it, with what says whose it is; and what an earlier topic of the name has left is nothing to read."""
    earlier = log.create_topic("u").id
    log.topic("u")[0].append([Record(b"other", b"k", NOW)])
    log.delete_topic("u")
    log.create_topic("u")
    kill(log)
    folder = Path(log.path) / "t-0"
    shutil.copytree(folder, Path(log.path) / "u-0", dirs_exist_ok=True)
    with pylog.open(log.path, mode="read") as reader:
        assert read_all(reader) == list(range(13))
        with pytest.raises(errors.InconsistentTopicId, match="put it back where it belongs"):
            list(reader.topic("u")[0].records())
    write_topic_id(DiskFiles(), str(Path(log.path) / "u-0"), earlier)
    with pylog.open(log.path, mode="read") as reader:
        assert list(reader.topic("u")[0].records()) == []
    (Path(log.path) / "u-0" / "partition.metadata").write_bytes(b"")
    with pylog.open(log.path, mode="read") as reader, pytest.raises(errors.StorageError):
        list(reader.topic("u")[0].records())


def test_a_folder_without_a_topic_id_belongs_to_the_topic(log: pylog.Log) -> None:
    log.close()
    folder = Path(log.path) / "t-0"
    swap(log, 4)
    (folder / "partition.metadata").unlink()
    with pylog.open(log.path) as again:
        assert read_all(again) == list(range(13))
        assert not segment(log, 4, SEAL).exists()
    assert (folder / "partition.metadata").exists()


def test_after_kafka_had_it_the_seals_say_nothing(log: pylog.Log) -> None:
    log.close()
    (Path(log.path) / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":5}')
    with pylog.open(log.path) as again:
        assert not segment(log, 4, SEAL).exists()
        assert read_all(again) == list(range(13))
        scrubber(again).scrub()
        seal = read_seal(DiskFiles(), str(segment(log, 4, SEAL)))
        assert seal is not None and seal.read_ms != NOT_YET


# --- what followed ----------------------------------------------------------------------------------------------------


def lose(log: pylog.Log, base: int) -> None:
    for kind in (".log", ".index", ".timeindex", ".snapshot", SEAL):
        segment(log, base, kind).unlink(missing_ok=True)


@pytest.mark.parametrize("mode", ["own", "read"])
def test_a_segment_that_is_lost_after_a_kill_is_missed(log: pylog.Log, mode: str) -> None:
    kill(log)
    lose(log, 4)
    with pylog.open(log.path, mode=mode) as again:  # type: ignore[arg-type]
        with pytest.raises(errors.CorruptBatch, match="the segment that began at offset 4 is missing") as raised:
            read_all(again)
        assert raised.value.offset == 4
        with again.consumer() as consumer:
            consumer.assign([KEY])
            consumer.seek(KEY, 8)
            assert [record.offset for record in consumer.poll(0)][:1] == [8]
            with pytest.raises(errors.CorruptBatch, match="is missing"):
                consumer.offsets_for_times({KEY: NOW + 5})
    assert any("the segment that began at offset 4 is missing" in line for line in problems(log))


def test_a_repair_gives_a_lost_segment_up(log: pylog.Log) -> None:
    kill(log)
    lose(log, 4)
    with pylog.open(log.path) as again:
        (lost,) = again.find_damage().damages
        assert (lost.offset, lost.next_offset, lost.bytes_lost) == (4, 8, 0)
        again.repair(again.find_damage())
        assert not again.find_damage()
        assert read_all(again) == [0, 1, 2, 3, 8, 9, 10, 11, 12]
    assert problems(log) == []


@pytest.mark.parametrize("kind", [".index", ".timeindex"])
def test_rebuilt_indexes_keep_the_seals_word_on_the_next_segment(log: pylog.Log, kind: str) -> None:
    kill(log)
    lose(log, 4)
    segment(log, 0, kind).unlink()
    with pylog.open(log.path) as again:
        assert segment(log, 0, kind).exists()
        with pytest.raises(errors.CorruptBatch, match="the segment that began at offset 4 is missing"):
            read_all(again)


def test_compaction_and_retention_leave_no_segment_missing(log: pylog.Log) -> None:
    log.alter_config("t", {"cleanup.policy": "compact,delete"})
    log.clean("t")
    kill(log)
    with pylog.open(log.path) as again:
        assert read_all(again)[-1] == 12
        assert not again.find_damage() and problems(again) == []
        again.delete_records({KEY: 12})
        again.apply_retention()
        assert read_all(again, 1)[-1] == 12
    assert problems(log) == []


def test_files_that_a_crash_leaves_below_the_start_are_no_loss(log: pylog.Log) -> None:
    """Two segments were about to go, and one of them has."""
    log.delete_records({KEY: 8})
    kill(log)
    lose(log, 4)
    with pylog.open(log.path) as again:
        assert not again.find_damage()
        assert again.topic("t")[0].read(8, 1000)
        with again.consumer() as consumer:
            assert consumer.offsets_for_times({KEY: NOW + 5}) == {KEY: None}
    assert problems(log) == []


def test_a_gap_behind_a_segment_that_was_closed_is_no_segment_missing(tmp_path: Path, clock: SimClock) -> None:
    """A follower gets batches with gaps between them; here one begins a segment, and a reader knows an older seal."""
    with opened(tmp_path / "log", clock) as log:
        log.create_topic("t", config={"segment.ms": "1"})
        log.topic("t")[0].append([Record(b"x", timestamp=NOW)] * 4)
    with pylog.open(tmp_path / "log", mode="read") as reader:
        assert read_all(reader) == [0, 1, 2, 3]
        with opened(tmp_path / "log", clock) as log:
            partition = log.broker.partition("t", 0)
            data = bytearray(encode([Record(b"y", timestamp=NOW + 9)] * 2, now_ms=NOW).data)
            data[:8], data[12:16] = (8).to_bytes(8, "big"), bytes(4)
            partition.append_follower(bytes(data), epoch=0, now_ms=NOW)
            partition.sync()
            partition.advance_high_watermark(10)
            assert [one.base_offset for one, _ in partition.segments] == [0, 8]
            seal = read_seal(DiskFiles(), str(segment(log, 0, SEAL)))
            assert seal is not None and seal.next_offset == 8
            partition.publish()
            assert read_all(log) == read_all(reader) == [0, 1, 2, 3, 8, 9]
    assert problems(log) == []


def test_a_folder_without_a_topic_id_is_read_whatever_its_seals_say(log: pylog.Log, tmp_path: Path) -> None:
    """A directory without a list of topics, read by another process: what its seals say of a topic cannot be held
    against anything.
    """
    log.close()
    shutil.rmtree(Path(log.path) / "__cluster_metadata-0")
    for number in (0, 1):
        (Path(log.path) / f"t-{number}" / "partition.metadata").unlink()
    with pylog.open(log.path, mode="read") as reader:
        assert read_all(reader) == list(range(13))
        assert reader.topic("t").id == UUID(int=0) == NOBODY.topic_id


# --- beside other work ------------------------------------------------------------------------------------------------


def test_a_repaired_segment_is_not_repaired_again(log: pylog.Log, tmp_path: Path) -> None:
    overwrite(segment(log, 4), 70, b"XXXX")
    found = scrubber(log).scrub()
    assert log.repair(found, keep_in=tmp_path / "kept")
    left = [offset for offset in range(13) if offset not in (4, 5)]
    assert read_all(log) == left and not log.found_damage
    assert log.repair(found, keep_in=tmp_path / "kept") == {}
    assert log.repair(Findings(indexes=((KEY, str(segment(log, 0))),)), keep_in=tmp_path / "kept") == {}
    assert read_all(log) == left
    log.close()


def test_a_segment_that_is_cut_while_it_is_read_is_not_damaged(
    log: pylog.Log, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    partition, scrub = log.broker.partition("t", 0), scrubber(log)
    scrub.scrub()
    pause = scrub._pause

    def cut(size: int) -> None:
        monkeypatch.setattr(scrub, "_pause", pause)
        partition.truncate(2, NOW)
        log.topic("t")[0].append([Record(b"other", b"k", NOW)])
        partition.roll(NOW)

    monkeypatch.setattr(scrub, "_pause", cut)
    assert not scrub.scrub(everything=True)
    assert caplog.text == "" and problems(log) == []
    log.close()


def test_a_scrubbed_log_is_cleaned_at_the_same_time(log: pylog.Log) -> None:
    """It shares its segments with the cleaner, who reads on in a file that the scrubber is done with."""
    log.alter_config("t", {"cleanup.policy": "compact"})
    partition = log.broker.partition("t", 0)
    cleaning = Cleaner(partition, checkpoint=None, now_ms=NOW, buffer_bytes=1 << 20)
    for _ in cleaning.steps():
        scrubber(log).scrub(everything=True)
    assert cleaning.cleaned is not None and not log.found_damage
    log.close()


def test_an_older_copy_of_a_segment_is_not_taken_for_another_programs(log: pylog.Log) -> None:
    log.close()
    for kind in (".log", ".index"):
        data = segment(log, 4, kind).read_bytes()
        segment(log, 4, kind).write_bytes(data[: len(data) // 2])
    for mode in ("own", "read"):
        with pylog.open(log.path, mode=mode) as again:  # type: ignore[arg-type]
            with pytest.raises(errors.CorruptBatch, match="the file was cut"):
                read_all(again)
            with again.consumer() as consumer, pytest.raises(errors.CorruptBatch, match="the file was cut"):
                consumer.offsets_for_times({KEY: NOW + 5})


def test_a_segment_that_kafka_cleaned_is_not_compared_with_its_seal(log: pylog.Log) -> None:
    """Of a compacted topic, by a Kafka that was killed then: nobody has taken the seals away."""
    log.alter_config("t", {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1"})
    log.close()
    data = segment(log, 4).read_bytes()
    segment(log, 4).write_bytes(data[: len(data) // 2])
    segment(log, 4, ".index").write_bytes(b"")
    with pylog.open(log.path) as again:
        assert read_all(again) == [0, 1, 2, 3, 4, 5, *range(8, 13)]


def test_a_reader_misses_the_first_and_the_last_segment(log: pylog.Log) -> None:
    log.close()
    copy_log(log.path, f"{log.path}-whole")
    lose(log, 0)
    with pylog.open(log.path, mode="read") as reader:
        with pytest.raises(errors.CorruptBatch, match="the segments from here up to offset 4 are missing"):
            read_all(reader)
        with reader.consumer() as consumer, pytest.raises(errors.CorruptBatch, match="are missing"):
            consumer.offsets_for_times({KEY: NOW})
    shutil.rmtree(log.path)
    shutil.move(f"{log.path}-whole", log.path)
    lose(log, 12)
    with (
        pylog.open(log.path, mode="read") as reader,
        reader.consumer() as consumer,
        pytest.raises(errors.CorruptBatch, match="nothing is left"),
    ):
        consumer.offsets_for_times({KEY: NOW + 5})


def test_a_reader_takes_no_heed_of_seals_that_kafka_knew_nothing_of(log: pylog.Log) -> None:
    log.close()
    (Path(log.path) / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":5}')
    swap(log, 4)
    with pylog.open(log.path, mode="read") as reader:
        assert read_all(reader) == list(range(13))
    assert problems(log) == []


def test_a_log_of_which_everything_was_deleted_is_good(log: pylog.Log) -> None:
    log.delete_records({KEY: -1})
    log.close()
    with pylog.open(log.path) as again:
        assert read_all(again) == []
    assert problems(log) == []
