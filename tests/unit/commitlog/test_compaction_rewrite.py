"""The two passes over segments that are damaged: what is told, and that nothing is left of the attempt."""

from collections.abc import Sequence

import pytest
from crc32c import crc32c

from pylog.commitlog.compaction.offset_map import KeyMap
from pylog.commitlog.compaction.rewrite import CleanerStats, note_keys, rewrite
from pylog.commitlog.compaction.rules import Rules
from pylog.commitlog.compaction.transactions import CleanedTransactionMetadata
from pylog.errors import CorruptBatch
from pylog.segment import Segment
from pylog.storage.file_ranges import DamagedRange
from support.partition_log import DIRECTORY, NOW, Log

CRC_AT, CRC_FROM, RECORDS_AT = 17, 21, 61


def made() -> tuple[Log, Segment, int]:
    """A log, its first segment of several batches, and where in that the second batch begins."""
    log = Log(cleanup_policy="compact")
    log.fill(30)
    segment = log.partition.segments[0][0]
    (second,) = [span.position for _, _, spans, _ in segment.scan(check_crc=True) for span in spans[1:2]]
    return log, segment, second


def spoil(log: Log, segment: Segment, position: int) -> None:
    """Let the records of a batch say nonsense, and its CRC that they are as they were written."""
    file = log.files.open(segment.path)
    size = 12 + int.from_bytes(file.read(position + 8, 4), "big")
    batch = bytearray(file.read(position, size))
    batch[RECORDS_AT] = 0x7F
    batch[CRC_AT:CRC_FROM] = crc32c(bytes(batch[CRC_FROM:])).to_bytes(4, "big")
    file.write(position, batch)


def noted(group: Sequence[tuple[Segment, int]]) -> KeyMap:
    keys = KeyMap(1 << 16)
    for _ in note_keys(keys, group, CleanedTransactionMetadata(), first_offset=0):
        pass
    return keys


def rewritten(keys: KeyMap, group: Sequence[tuple[Segment, int]]) -> None:
    rules = Rules(keys, CleanedTransactionMetadata(), {}, end_offset=group[-1][1], now_ms=NOW, delete_retention_ms=0)
    for _ in rewrite(group, rules, lambda start, end: [], CleanerStats()):
        pass


def test_records_that_make_no_sense_end_the_first_pass() -> None:
    log, segment, second = made()
    spoil(log, segment, second)
    with pytest.raises(CorruptBatch) as caught:
        noted(log.partition.segments[:1])
    assert (caught.value.path, caught.value.position) == (segment.path, second)


def test_senseless_records_end_the_second_pass_without_remains() -> None:
    log, segment, second = made()
    keys = noted(log.partition.segments[:1])
    spoil(log, segment, second)
    before = log.files.list_dir(DIRECTORY)
    with pytest.raises(CorruptBatch) as caught:
        rewritten(keys, log.partition.segments[:1])
    assert (caught.value.path, caught.value.position) == (segment.path, second)
    assert log.files.list_dir(DIRECTORY) == before


def test_a_part_that_is_known_to_be_damaged_ends_a_pass_before_it_begins() -> None:
    log, segment, second = made()
    keys = noted(log.partition.segments[:1])
    segment.log.damages = (DamagedRange(second, second + 10, 1, 2),)
    for attempt in (noted, lambda group: rewritten(keys, group)):
        with pytest.raises(CorruptBatch, match="offsets 1 to 1 are damaged"):
            attempt(log.partition.segments[:1])
    assert not [name for name in log.files.list_dir(DIRECTORY) if name.endswith(".cleaned")]
