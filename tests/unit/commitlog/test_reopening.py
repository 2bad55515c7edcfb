"""A partition that was closed cleanly is as it was left until somebody writes to it."""

import pytest

from pylog.errors import CorruptBatch, RecordBatchTooLarge
from pylog.files import Files, MemoryFiles, join
from pylog.partition import Checkpoint
from pylog.storage.segment_checksum import SEAL
from pylog.storage.segment_files import file_name
from support.partition_log import DIRECTORY, NOW, InterruptingFiles, Log
from tests.support.faults import FaultFiles


def closed(files: Files | None = None, **config: object) -> Log:
    """Several segments, and an aborted transaction in the last one."""
    log = Log(files, **config)
    log.fill(40)
    log.in_transaction("gone", producer_id=1, sequence=0)
    log.end(1, commit=False)
    assert log.partition.close()
    return log


def reopened(log: Log) -> None:
    end = log.partition.next_offset
    log.reopen(Checkpoint(high_watermark=end, durable_offset=end, recovery_point=end, published=True))


def contents(log: Log) -> dict[str, bytes]:
    return {name: log.files.read_file(join(DIRECTORY, name)) for name in log.files.list_dir(DIRECTORY)}


def seal_of(log: Log) -> str:
    return join(DIRECTORY, file_name(log.partition.segments[-1][0].base_offset, SEAL))


def calls_of(log: Log, files: Files) -> list[str]:
    """What is asked of the files by an opening, reads and a close."""
    watched = FaultFiles(files)
    log.files = watched
    reopened(log)
    log.values()
    log.committed()
    log.partition.check()
    log.partition.close()
    log.files = files
    return [site.rpartition(" ")[2] for site in watched.sites]


def test_a_run_that_only_reads_changes_nothing() -> None:
    log = closed()
    before = contents(log)
    changes = {"write", "truncate", "remove", "rename", "replace_file", "create", "sync", "sync_dir", "set_modified"}
    assert not changes.intersection(calls_of(log, log.files))
    assert contents(log) == before


def test_the_seal_goes_before_the_first_byte_is_written() -> None:
    files = InterruptingFiles(MemoryFiles())
    log = closed(files)  # type: ignore[arg-type]
    reopened(log)
    assert files.stat(seal_of(log)) is not None  # type: ignore[attr-defined]
    seen: list[bool] = []
    files.begin(1, ("write",), lambda: seen.append(files.inner.stat(seal_of(log)) is None))
    log.append("first")
    assert seen == [True]
    log.partition.check()
    assert log.partition.close()
    reopened(log)
    assert log.values()[-1] == "first"


def test_an_append_refused_by_its_size_leaves_the_seal() -> None:
    log = closed()
    reopened(log)
    with pytest.raises(RecordBatchTooLarge):
        log.append("x" * 5000)
    assert log.files.stat(seal_of(log)) is not None


def test_a_segment_that_is_full_stays_sealed_and_a_new_one_is_begun() -> None:
    log = closed()
    reopened(log)
    before = contents(log)
    first, base = log.partition.next_offset, log.partition.roll(NOW)
    assert base == first
    log.append("behind")
    after = contents(log)
    assert {name: data for name, data in after.items() if name in before} == before
    assert log.values(first) == ["behind"]
    log.partition.check()


def test_a_roll_of_an_empty_segment_that_is_sealed_keeps_it() -> None:
    log = Log()
    log.partition.close()
    reopened(log)
    assert log.partition.roll(NOW) == 0
    log.append("a")
    assert (log.values(), len(log.partition.segments)) == (["a"], 1)
    log.partition.check()


@pytest.mark.parametrize("at", [0, 3, 41, 42])
def test_a_reopened_log_is_cut_as_any_other(at: int) -> None:
    log = closed()
    reopened(log)
    kept = log.values()[: min(at, 40)]
    log.partition.truncate(at, NOW)
    log.append("again")
    log.partition.check()
    assert log.partition.close()
    reopened(log)
    assert log.values()[: len(kept)] == kept and log.values()[-1] == "again"
    log.partition.check()


def test_an_append_goes_on_with_the_present_indexes() -> None:
    """As if it had never been closed, but for the closing time index entry."""
    one, other = Log(segment_bytes=1 << 20), Log(segment_bytes=1 << 20)
    for log in (one, other):
        log.fill(30)
    one.partition.close()
    reopened(one)
    for log in (one, other):
        for number in range(30):
            log.append(f"{number} {'y' * 100}", timestamp=NOW + number)
    indexed, whole = (list(log.partition.segments[0][0].offsets) for log in (one, other))
    assert len(indexed) > 40 and abs(len(indexed) - len(whole)) <= 1
    assert one.values() == other.values()
    one.partition.check()
    for moment in (NOW, NOW + 1, NOW + 29, NOW + 30):
        found = one.partition.offset_for_time(moment, upto=60)
        assert found == other.partition.offset_for_time(moment, upto=60)


@pytest.mark.parametrize("kind", [".index", ".timeindex", ".txnindex"])
def test_an_index_of_the_last_segment_that_is_damaged_is_built_anew(kind: str) -> None:
    log = closed()
    path = join(DIRECTORY, file_name(log.partition.segments[-1][0].base_offset, kind))
    good = log.files.read_file(path)
    assert good
    log.files.replace_file(path, good[:-1] + bytes([good[-1] ^ 1]))
    reopened(log)
    log.partition.check()
    assert log.partition.close()
    assert log.files.read_file(path) == good
    reopened(log)
    log.append("on")
    log.partition.check()
    assert log.values()[-1] == "on"


def test_a_last_segment_that_lost_its_seal_is_sealed_by_the_close() -> None:
    log = closed()
    log.files.remove(seal_of(log))
    reopened(log)
    log.append("on")
    log.partition.check()
    assert log.partition.close()
    assert log.files.stat(seal_of(log)) is not None


def test_a_cut_of_the_last_segment_is_told() -> None:
    log = closed()
    path = join(DIRECTORY, file_name(log.partition.segments[-1][0].base_offset, ".log"))
    log.files.replace_file(path, log.files.read_file(path)[:-10])
    reopened(log)
    assert [found.next_offset for found in log.partition.quarantined] == [42]
    with pytest.raises(CorruptBatch):
        log.values()


@pytest.mark.parametrize("damaged", [(".index",), (".timeindex",), (".index", ".timeindex")])
def test_a_last_segment_after_a_cut_drops_a_damaged_index(damaged: tuple[str]) -> None:
    log = closed()
    reopened(log)
    values, base = log.values(), log.partition.segments[1][0].base_offset
    log.partition.close()
    for kind in damaged:
        path = join(DIRECTORY, file_name(base, kind))
        good = log.files.read_file(path)
        log.files.replace_file(path, bytes([good[0] ^ 0x40]) + good[1:])
    reopened(log)
    log.partition.truncate(base + 5, NOW)
    log.append("again")
    log.partition.check()
    assert log.partition.close()
    reopened(log)
    assert log.values() == [*values[: base + 5], "again"]
    found = log.partition.offset_for_time(NOW, upto=log.partition.next_offset)
    assert found is not None and found.offset == 0
    log.partition.check()
