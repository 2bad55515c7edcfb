"""What an owner publishes and readers see, also when a write stops in the middle."""

import os
import uuid
from errno import ENOSPC
from pathlib import Path

import pytest
from crc32c import crc32c

from pylog.errors import DiskFull, LogNotFound, ReadOnly, StorageError, UnsupportedFormat
from pylog.files import DiskFiles, MemoryFiles
from pylog.kernel import SLOT_BYTES
from pylog.kernel.format import SLOT
from pylog.storage.published import ENTRY_BYTES, Published, PublishedState
from tests.support.faults import FaultFiles

PATH = "d/.pylog-published"
CLICKS, ORDERS = uuid.UUID(int=7), uuid.UUID(int=8)


def state(number: int) -> PublishedState:
    return PublishedState(1, number, number + 1, number + 2, number + 3, 2**62 + number)


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_dir("d")
    return files


def overwrite(files: MemoryFiles, position: int, data: bytes) -> None:
    file = files.open(PATH)
    file.write(position, data)
    file.close()


def test_publish_and_read(files: MemoryFiles) -> None:
    owner = Published(files, PATH, writable=True)
    entry = owner.entry(CLICKS, 3)
    assert entry.read() is None
    for number in range(5):
        entry.publish(state(number))
        assert entry.read() == state(number)
    assert owner.entry(CLICKS, 3).read() == state(4)
    assert owner.entry(CLICKS, 4).read() is None
    owner.sync()
    owner.close()
    again = Published(files, PATH, writable=True)
    entry = again.entry(CLICKS, 3)
    assert entry.read() == state(4)
    entry.publish(PublishedState(generation=2, failed=True))
    assert Published(files, PATH, writable=False).entry(CLICKS, 3).read() == PublishedState(generation=2, failed=True)
    assert files.open(PATH).size() == 3 * ENTRY_BYTES


def test_a_reader_in_another_process_sees_new_numbers(tmp_path: Path) -> None:
    path = str(tmp_path / ".pylog-published")
    with pytest.raises(LogNotFound):
        Published(DiskFiles(read_only=True), path, writable=False)
    owner = Published(DiskFiles(), path, writable=True)
    reader = Published(DiskFiles(read_only=True), path, writable=False)
    assert reader.find(CLICKS, 0) is None
    seen = reader.entry(CLICKS, 0)
    assert seen.read() is None
    mine = owner.entry(CLICKS, 0)
    assert seen.read() is None
    for number in range(3):
        mine.publish(state(number))
        assert seen.read() == state(number)
    found = reader.find(CLICKS, 0)
    assert found is not None
    assert found.read() == state(2)
    with pytest.raises(ReadOnly, match="only the owner"):
        seen.publish(state(0))
    owner.close()
    reader.close()


def test_entries_do_not_mix(files: MemoryFiles) -> None:
    owner = Published(files, PATH, writable=True)
    entries = {(topic, p): owner.entry(topic, p) for topic in (CLICKS, ORDERS) for p in range(20)}
    for number, entry in enumerate(entries.values()):
        entry.publish(state(number))
    reader = Published(files, PATH, writable=False)
    assert [reader.entry(*key).read() for key in entries] == [state(number) for number in range(40)]


@pytest.mark.parametrize("bytes_written", [0, 1, 8, 30, 59, 60, 63])
def test_a_torn_slot_leaves_the_state_before(files: MemoryFiles, bytes_written: int) -> None:
    owner = Published(files, PATH, writable=True)
    entry = owner.entry(CLICKS, 0)
    for number in range(3):
        entry.publish(state(number))
    before = files.read_file(PATH)
    entry.publish(state(3))
    after = files.read_file(PATH)
    changed = [i for i in range(len(before)) if before[i] != after[i]]
    slot = ENTRY_BYTES + (32 if changed[0] < ENTRY_BYTES + 128 else 128)
    overwrite(files, 0, after[: slot + bytes_written] + before[slot + bytes_written :])
    reopened = Published(files, PATH, writable=True).entry(CLICKS, 0)
    assert reopened.read() == state(2)
    reopened.publish(state(9))
    assert reopened.read() == state(9)


def test_two_damaged_slots_are_an_error_for_readers_alone(files: MemoryFiles) -> None:
    entry = Published(files, PATH, writable=True).entry(CLICKS, 0)
    entry.publish(state(0))
    entry.publish(state(1))
    for slot in (32, 128):
        overwrite(files, ENTRY_BYTES + slot, b"\xff" * 8)
    reader = Published(files, PATH, writable=False).entry(CLICKS, 0)
    with pytest.raises(StorageError, match=r"\.pylog-published, position 288: both slots"):
        reader.read()
    assert entry.read() is None
    entry.publish(state(2))
    assert entry.read() == reader.read() == state(2)


@pytest.mark.parametrize("at", [0, 1], ids=["sequence", "generation"])
def test_a_count_that_leaves_no_room_for_others_is_damage(files: MemoryFiles, at: int) -> None:
    """Whatever is believed can be followed: one that is forged at the end stops no owner."""
    for count, is_believed in ((2**61, True), (2**61 + 1, False), (2**62, False), (2**64 - 1, False)):
        slots = Published(files, PATH, writable=True).entry(uuid.UUID(int=1 + count % 1000), 1)
        numbers = [0, 4, *[9] * 7]
        numbers[at] = count
        body = SLOT.pack(*numbers, 0, 0, 0)
        data = body + crc32c(body, crc32c(slots.key)).to_bytes(4, "little")
        sequence, found = slots.newest(data.ljust(2 * SLOT_BYTES, b"\0"))
        assert (found is not None) is is_believed, count
        if found is not None:
            slots.sequence = sequence
            slots.publish((found[0] + 2, *found[1:]))  # type: ignore[arg-type]
            assert slots.sequence == sequence + 1


def test_half_an_entry_at_the_end_is_written_over(files: MemoryFiles) -> None:
    Published(files, PATH, writable=True).entry(CLICKS, 0).publish(state(0))
    overwrite(files, 2 * ENTRY_BYTES, b"x" * 100)
    assert Published(files, PATH, writable=False).entry(ORDERS, 0).read() is None
    owner = Published(files, PATH, writable=True)
    owner.entry(ORDERS, 0).publish(state(1))
    assert files.open(PATH).size() == 3 * ENTRY_BYTES
    assert Published(files, PATH, writable=False).entry(CLICKS, 0).read() == state(0)
    assert Published(files, PATH, writable=False).entry(ORDERS, 0).read() == state(1)


def test_a_damaged_key_loses_its_entry_alone(files: MemoryFiles) -> None:
    owner = Published(files, PATH, writable=True)
    for partition in range(3):
        owner.entry(CLICKS, partition).publish(state(partition))
    overwrite(files, 2 * ENTRY_BYTES, b"\xff")
    reader = Published(files, PATH, writable=False)
    assert [reader.entry(CLICKS, p).read() for p in range(3)] == [state(0), None, state(2)]
    owner = Published(files, PATH, writable=True)
    owner.entry(CLICKS, 1).publish(state(5))
    assert reader.entry(CLICKS, 1).read() == state(5)


def test_a_header_that_was_not_finished(files: MemoryFiles) -> None:
    files.replace_file(PATH, b"PYLOG")
    assert Published(files, PATH, writable=False).entry(CLICKS, 0).read() is None
    Published(files, PATH, writable=True).entry(CLICKS, 0).publish(state(0))
    assert Published(files, PATH, writable=False).entry(CLICKS, 0).read() == state(0)


def test_other_files_are_refused(files: MemoryFiles) -> None:
    files.replace_file(PATH, b"x" * 1000)
    with pytest.raises(StorageError, match="position 0: this is not"):
        Published(files, PATH, writable=True)
    files.remove(PATH)
    Published(files, PATH, writable=True)
    header = bytearray(files.read_file(PATH))
    overwrite(files, 8, b"\x02")
    with pytest.raises(StorageError, match="position 0"):
        Published(files, PATH, writable=False)
    header[8] = 2
    header[16:20] = crc32c(bytes(header[:16])).to_bytes(4, "little")
    overwrite(files, 0, bytes(header))
    with pytest.raises(UnsupportedFormat, match="version 2"):
        Published(files, PATH, writable=False)


def test_an_entry_that_is_being_written_is_looked_at_again(files: MemoryFiles) -> None:
    owner = Published(files, PATH, writable=True)
    owner.entry(CLICKS, 0).publish(state(0))
    owner.entry(ORDERS, 0).publish(state(1))
    whole = files.read_file(PATH)
    # All of its bytes are there, and not all of them are what they will be.
    overwrite(files, 2 * ENTRY_BYTES, bytes(ENTRY_BYTES))
    reader = Published(files, PATH, writable=False)
    assert (reader.find(CLICKS, 0) is None, reader.find(ORDERS, 0)) == (False, None)
    overwrite(files, 2 * ENTRY_BYTES, whole[2 * ENTRY_BYTES :])
    found = reader.find(ORDERS, 0)
    assert found is not None and found.read() == state(1)


def test_the_place_of_a_deleted_topic_goes_to_a_new_partition(files: MemoryFiles) -> None:
    owner = Published(files, PATH, writable=True)
    for number in range(3):
        owner.entry(CLICKS, number).publish(state(number))
    owner.entry(ORDERS, 0).publish(state(9))
    owner.close()
    owner = Published(files, PATH, writable=True)
    owner.free({ORDERS})
    for number in range(1, 5):
        entry = owner.entry(ORDERS, number)
        assert entry.read() is None
        entry.publish(state(10 + number))
    assert files.open(PATH).size() == 6 * ENTRY_BYTES, "three places again, and one more"
    for place in (owner, Published(files, PATH, writable=False)):
        found = [place.entry(ORDERS, number).read() for number in range(5)]
        assert found == [state(9), *(state(10 + number) for number in range(1, 5))]
        assert place.find(CLICKS, 0) is None


def test_a_reader_sees_that_a_place_has_gone_to_another_partition(files: MemoryFiles) -> None:
    owner = Published(files, PATH, writable=True)
    owner.entry(CLICKS, 0).publish(state(1))
    owner.close()
    reader = Published(files, PATH, writable=False)
    before = reader.entry(CLICKS, 0)
    assert before.read() == state(1)
    assert reader.find(ORDERS, 0) is None
    owner = Published(files, PATH, writable=True)
    owner.free({ORDERS})
    entry = owner.entry(ORDERS, 0)
    assert before.read() is None
    entry.publish(state(2))
    assert before.read() is None
    assert before.read() is None
    assert reader.find(CLICKS, 0) is None
    assert reader.entry(ORDERS, 0).read() == state(2)


def test_a_place_that_could_not_be_given_away_is_given_next(files: MemoryFiles) -> None:
    owner = Published(files, PATH, writable=True)
    owner.entry(CLICKS, 0)
    owner.close()
    faults = FaultFiles(files, error=ENOSPC)
    owner = Published(faults, PATH, writable=True)
    owner.free(())
    faults.faults.fail_at = 1 + len(faults.sites)
    with pytest.raises(DiskFull):
        owner.entry(ORDERS, 0)
    owner.entry(ORDERS, 0).publish(state(2))
    assert files.open(PATH).size() == 2 * ENTRY_BYTES
    assert Published(files, PATH, writable=False).entry(ORDERS, 0).read() == state(2)


def test_a_file_of_more_entries_than_there_can_be_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "published"
    Published(DiskFiles(), str(path), writable=True).close()
    os.truncate(path, 6 << 30)
    for writable in (True, False):
        with pytest.raises(StorageError, match="has 6442450944 bytes, and such a file has 268435456 at most"):
            Published(DiskFiles(), str(path), writable=writable)
