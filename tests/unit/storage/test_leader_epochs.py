"""The epoch cache against the table of Kafka's LeaderEpochFileCache."""

import errno

import pytest

from pylog.errors import LogNotFound, StorageError
from pylog.files import MemoryFiles
from pylog.storage.leader_epochs import LeaderEpochs
from tests.support.epochs import epochs_at
from tests.support.faults import FaultFiles

PATH = "t-0/leader-epoch-checkpoint"


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_dir("t-0")
    return files


def made(files: MemoryFiles, *entries: tuple[int, int]) -> LeaderEpochs:
    epochs = epochs_at(files, PATH)
    for epoch, start in entries:
        epochs.assign(epoch, start)
    return epochs


def test_an_empty_history_has_no_file(files: MemoryFiles) -> None:
    epochs = epochs_at(files, PATH)
    assert (epochs.latest, epochs.entries) == (-1, [])
    epochs.clear()
    epochs.truncate_end(0)
    epochs.truncate_start(5)
    assert files.stat(PATH) is None


def test_assign_is_on_disk_when_it_returns(files: MemoryFiles) -> None:
    epochs = made(files, (0, 0), (5, 1042))
    assert files.read_file(PATH) == b"0\n2\n0 0\n5 1042\n"
    assert epochs_at(files, PATH).entries == epochs.entries == [(0, 0), (5, 1042)]
    assert epochs.latest == 5


@pytest.mark.parametrize(
    ("epoch", "start", "after"),
    [
        (4, 25, [(0, 0), (2, 10), (4, 20)]),     # the latest epoch goes on
        (4, 15, [(0, 0), (2, 10), (4, 15)]),     # from an earlier offset: replaced
        (5, 30, [(0, 0), (2, 10), (4, 20), (5, 30)]),
        (5, 20, [(0, 0), (2, 10), (5, 20)]),     # an epoch without records is replaced by the next
        (3, 30, [(0, 0), (2, 10), (3, 30)]),     # a later epoch is contradicted
        (7, 5, [(0, 0), (7, 5)]),
        (0, 0, [(0, 0)]),
    ],
)  # fmt: skip
def test_assign_keeps_epochs_and_starts_rising(
    files: MemoryFiles, epoch: int, start: int, after: list[tuple[int, int]]
) -> None:
    epochs = made(files, (0, 0), (2, 10), (4, 20))
    epochs.assign(epoch, start)
    assert epochs.entries == after
    assert epochs_at(files, PATH).entries == after


def test_negative_values_are_misuse(files: MemoryFiles) -> None:
    for epoch, start in ((-1, 0), (0, -1)):
        with pytest.raises(ValueError, match="negative"):
            made(files, (epoch, start))


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(-1, (-1, -1)), (0, (0, 10)), (1, (1, 10)), (2, (2, 20)), (3, (2, 20)), (4, (4, 20 + 13)), (5, (-1, -1))],
)
def test_end_offset_for_an_epoch_is_the_start_of_the_next(
    files: MemoryFiles, asked: int, answer: tuple[int, int]
) -> None:
    assert made(files, (2, 10), (4, 20)).end_offset_for(asked, 33) == answer


def test_end_offset_for_without_epochs(files: MemoryFiles) -> None:
    assert epochs_at(files, PATH).end_offset_for(0, 33) == (-1, -1)


@pytest.mark.parametrize(
    ("offset", "after"),
    [(100, [(2, 10), (4, 20)]), (21, [(2, 10), (4, 20)]), (20, [(2, 10)]), (11, [(2, 10)]), (10, []), (0, [])],
)
def test_truncate_end_drops_later_epochs(files: MemoryFiles, offset: int, after: list[tuple[int, int]]) -> None:
    epochs = made(files, (2, 10), (4, 20))
    epochs.truncate_end(offset)
    assert epochs.entries == epochs_at(files, PATH).entries == after


@pytest.mark.parametrize(
    ("offset", "after"),
    [
        (0, [(2, 10), (4, 20)]), (10, [(2, 10), (4, 20)]), (15, [(2, 15), (4, 20)]), (20, [(4, 20)]),
        (100, [(4, 100)]),
    ],
)  # fmt: skip
def test_truncate_start_keeps_the_epoch_of_the_start(
    files: MemoryFiles, offset: int, after: list[tuple[int, int]]
) -> None:
    epochs = made(files, (2, 10), (4, 20))
    epochs.truncate_start(offset)
    assert epochs.entries == epochs_at(files, PATH).entries == after


def test_clear_drops_all_epochs(files: MemoryFiles) -> None:
    epochs = made(files, (2, 10))
    epochs.clear()
    assert epochs.entries == epochs_at(files, PATH).entries == []


def test_a_failed_write_changes_nothing_in_memory(files: MemoryFiles) -> None:
    epochs = made(files, (2, 10))
    files.remove_dir("t-0")
    with pytest.raises(LogNotFound):
        epochs.assign(3, 20)
    assert epochs.entries == [(2, 10)]


def test_a_damaged_file_is_a_typed_error(files: MemoryFiles) -> None:
    files.replace_file(PATH, b"0\n1\nzero 0\n")
    with pytest.raises(StorageError, match=rf"{PATH}, line 3"):
        epochs_at(files, PATH)


def test_a_full_disk_keeps_no_records_from_being_deleted() -> None:
    files = FaultFiles(MemoryFiles(), error=errno.ENOSPC, once=False)
    files.make_dir("t-0")
    epochs = epochs_at(files, PATH)
    epochs.assign(0, 0)
    epochs.assign(2, 10)
    files.faults.fail_at = 1
    epochs.truncate_start(12)
    assert epochs.entries == [(2, 12)]
    # What is in the file is older, and nothing in it is wrong.
    files.heal()
    assert epochs_at(files, PATH).entries == [(0, 0), (2, 10)]
