"""What a dump says of every kind of line, and of bytes that cannot be what they should be."""

import json
import struct
from collections.abc import Callable, Sequence
from uuid import UUID

import pytest
from crc32c import crc32c

from pylog.errors import LogNotFound
from pylog.files import MemoryFiles
from pylog.inspect import (
    AbortedEntry,
    BatchEntry,
    CheckpointEntry,
    Problem,
    ProducerDump,
    RecordEntry,
    dump_segment,
)
from pylog.inspect.dump import base_offset_of, kind_of
from pylog.kernel import Header, Record
from pylog.protocol.batch import Batch, encode
from pylog.protocol.metadata_changes import create_topic
from pylog.protocol.metadata_image import encode_record
from pylog.protocol.schema import message
from pylog.storage.producer_state import snapshot_offsets
from support.partition_log import InterruptingFiles, Log, marker

NOW = 1_700_000_000_000
LOG = f"t-0/{0:020d}.log"
METADATA = f"__cluster_metadata-0/{0:020d}.log"


def made(*parts: bytes, path: str = LOG) -> MemoryFiles:
    files = MemoryFiles()
    files.make_dir(path.rpartition("/")[0])
    files.replace_file(path, b"".join(parts))
    return files


def batch(base: int, *records: Record, **header: object) -> bytes:
    made: Batch = encode(records or [Record(b"v", b"k", NOW)], now_ms=NOW, base_offset=base, **header)  # type: ignore[arg-type]
    return bytes(made.data)


def changed(data: bytes, position: int, value: bytes) -> bytes:
    """With other bytes at a position of a batch, and the CRC that belongs to them."""
    body = bytearray(data)
    body[position : position + len(value)] = value
    body[17:21] = crc32c(bytes(body[21:])).to_bytes(4, "big")
    return bytes(body)


def lines(*parts: bytes, path: str = LOG) -> list[object]:
    return list(dump_segment(made(*parts, path=path), path, records=True))


def records(*parts: bytes, path: str = LOG) -> list[RecordEntry]:
    return [line for line in lines(*parts, path=path) if isinstance(line, RecordEntry)]


def the_problem(found: Sequence[object]) -> Problem:
    (one,) = [line for line in found if isinstance(line, Problem)]
    return one


# --- batches ----------------------------------------------------------------------------------------------------------


def test_names_tell_the_kind_of_a_file() -> None:
    assert [kind_of(name) for name in ("a/b.log", "00000000000000000000-0000000001.checkpoint", "x.swap")] == [
        "log", "log", "",
    ]  # fmt: skip
    assert kind_of("x/00000000000000000000.timeindex.deleted") == "timeindex"
    assert (base_offset_of("x/00000000000000000042.log"), base_offset_of("x/42.log")) == (42, None)


def test_sequences_begin_again_behind_the_largest() -> None:
    data = batch(0, *[Record(b"x", timestamp=NOW)] * 3, producer_id=5, producer_epoch=0, base_sequence=2**31 - 2)
    entry, *rest = lines(data)
    assert isinstance(entry, BatchEntry) and (entry.base_sequence, entry.last_sequence) == (2**31 - 2, 0)
    assert [line.sequence for line in rest if isinstance(line, RecordEntry)] == [2**31 - 2, 2**31 - 1, 0]


def test_an_unknown_codec_is_shown_as_a_number() -> None:
    entry, problem = lines(changed(batch(0), 22, b"\x07"))
    assert isinstance(entry, BatchEntry) and (entry.codec, entry.is_valid) == ("unknown(7)", True)
    assert isinstance(problem, Problem) and "its records cannot be decoded" in problem.what


def test_records_that_make_no_sense_are_told_and_the_rest_is_shown() -> None:
    found = lines(batch(0), changed(batch(1), 61, b"\x7f"), batch(2))
    assert [type(line).__name__ for line in found] == [
        "BatchEntry", "RecordEntry", "BatchEntry", "Problem", "BatchEntry", "RecordEntry",
    ]  # fmt: skip
    problem = the_problem(found)
    assert (problem.offset, problem.position) == (1, len(batch(0)))
    assert "its records cannot be decoded" in problem.what and "CRC is right" in problem.what_to_do


@pytest.mark.parametrize("kept", [30, 70])
def test_a_bad_batch_with_an_unconfirmed_length_ends_the_dump(kept: int) -> None:
    """Its header says too little, or less than the file: where the next one begins is not known."""
    bad = bytearray(batch(1))
    bad[16] = 1
    found = lines(batch(0), bytes(bad[:kept]))
    assert [type(line).__name__ for line in found] == ["BatchEntry", "RecordEntry", "Problem"]
    assert the_problem(found).position == len(batch(0))


def test_a_bad_batch_before_rubbish_is_not_believed() -> None:
    bad = bytearray(batch(1))
    bad[-1] ^= 1
    for rest, told in ((b"\xff" * 20, "nothing in the"), (b"\xff" * 200, "nothing in the"), (batch(2), "CRC")):
        assert told in the_problem(lines(batch(0), bytes(bad), rest)).what


def test_a_bad_batch_with_an_impossible_header_is_a_problem_alone() -> None:
    bad = bytearray(batch(1))
    bad[57:61] = b"\xff\xff\xff\xff"
    bad[-1] ^= 1
    found = lines(batch(0), bytes(bad), batch(2))
    assert the_problem(found).offset == 1
    assert [line.base_offset for line in found if isinstance(line, BatchEntry)] in ([0, 2], [0, 1, 2])


def test_batches_of_several_windows_are_all_found() -> None:
    sizes = [10, 5 << 20, 10, 3 << 20, 3 << 20, 10]
    data = [batch(offset, Record(b"x" * size, timestamp=NOW)) for offset, size in enumerate(sizes)]
    files = made(*data)
    assert [line.base_offset for line in dump_segment(files, LOG) if isinstance(line, BatchEntry)] == list(range(6))
    # The large one is cut off.
    files.replace_file(LOG, data[0] + data[1][: 9 << 19])
    found = list(dump_segment(files, LOG))
    assert f"cut off: {9 << 19} of its {len(data[1])} bytes" in the_problem(found).what


@pytest.mark.parametrize("size", [0, 5, 70])
def test_batches_that_the_owner_cuts_meanwhile_are_no_damage(size: int) -> None:
    inner = made(*[batch(offset, Record(b"x" * (1 << 20), timestamp=NOW)) for offset in range(6)])
    first = len(batch(0, Record(b"x" * (1 << 20), timestamp=NOW)))
    for cut in (size, 4 * first + size):
        files = InterruptingFiles(inner)
        whole = inner.read_file(LOG)
        files.begin(1 if cut == size else 2, ("read",), lambda cut=cut: inner.open(LOG).truncate(cut))
        found = list(dump_segment(files, LOG))  # type: ignore[arg-type]
        assert sum(isinstance(line, BatchEntry) for line in found) == cut // first
        assert sum(isinstance(line, Problem) for line in found) == (size > 0)
        inner.replace_file(LOG, whole)


# --- records ----------------------------------------------------------------------------------------------------------


def control(key: bytes | None, value: bytes | None) -> str | None:
    data = batch(0, Record(value, key, NOW), producer_id=5, producer_epoch=0, transactional=True, control=True)
    (entry,) = records(data)
    return entry.control


def test_control_records_show_their_meaning() -> None:
    (end,) = records(bytes(marker(5, commit=True).data))
    assert end.control == "endTxnMarker: COMMIT coordinatorEpoch: 0"
    assert str(end).endswith(f"headerKeys: [] {end.control}")
    leader = message("LeaderChangeMessage").encode(0, {"version": 0, "leaderId": 3, "voters": [{"voterId": 3}]})
    shown = control(struct.pack(">hh", 0, 2), leader)
    assert shown is not None and shown.startswith("LeaderChange: ")
    said = json.loads(shown.partition(" ")[2])
    assert (said["leaderId"], said["voters"][0]["voterId"]) == (3, 3)


def test_control_records_without_meaning_are_shown_as_they_are() -> None:
    assert control(None, b"x") == control(b"\0\0", b"x") == "control record without a type"
    assert control(struct.pack(">hh", 0, 9), b"what?") == "controlType: 9 value: what?"
    assert control(struct.pack(">hh", 0, 1), b"") == "controlType: 1 value: "
    assert control(struct.pack(">hh", 0, 3), b"\0\0") == "SnapshotHeader: \\x00\\x00"


def test_metadata_records_are_decoded_and_unknown_ones_shown() -> None:
    known, *_ = create_topic("clicks", UUID(int=5), {}, leader=1)
    unknown = b"\x01\xff\x01\x00"
    shown = records(batch(0, *[Record(value, None, NOW) for value in (known, unknown, b"?", None)]), path=METADATA)
    assert [entry.decoded is not None for entry in shown] == [True, False, False, False]
    assert shown[0].decoded == {
        "type": "TOPIC_RECORD", "version": 0, "data": {"name": "clicks", "topicId": "AAAAAAAAAAAAAAAAAAAABQ"}
    }  # fmt: skip
    assert 'payload: {"type":"TOPIC_RECORD"' in str(shown[0])


def test_bytes_in_metadata_are_shown_in_base64() -> None:
    record = {"name": "u", "mechanism": 1, "salt": b"\xff\0", "storedKey": b"", "serverKey": b"k", "iterations": 1}
    value = encode_record("UserScramCredentialRecord", record)
    (shown,) = records(batch(0, Record(value, None, NOW)), path=METADATA)
    assert shown.decoded is not None
    assert json.loads(json.dumps(shown.decoded))["data"]["salt"] == "/wA="


def test_a_record_is_one_line() -> None:
    rows = [
        Record(b"v", b"k", NOW, (Header("h", b"1"), Header("i", None))),
        Record(None, b"k", NOW),
        Record(b"v", None, NOW),
    ]
    assert [str(entry) for entry in records(batch(0, *rows))] == [
        f"| offset: 0 CreateTime: {NOW} keySize: 1 valueSize: 1 sequence: -1 headerKeys: [h,i] key: k payload: v",
        f"| offset: 1 CreateTime: {NOW} keySize: 1 valueSize: -1 sequence: -1 headerKeys: [] key: k",
        f"| offset: 2 CreateTime: {NOW} keySize: -1 valueSize: 1 sequence: -1 headerKeys: [] payload: v",
    ]


# --- transaction indexes and snapshots --------------------------------------------------------------------------------


def test_a_transaction_index_and_a_snapshot_are_dumped() -> None:
    log = Log()
    log.in_transaction("a", producer_id=5, sequence=0)
    log.end(5, commit=False)
    log.in_transaction("open", producer_id=6, sequence=3)
    log.partition.roll(NOW)
    (entry,) = dump_segment(log.files, f"log/t-0/{0:020d}.txnindex")
    assert isinstance(entry, AbortedEntry)
    assert str(entry) == "version: 0 producerId: 5 firstOffset: 0 lastOffset: 1 lastStableOffset: 2"
    newest = snapshot_offsets(log.files, "log/t-0")[-1]
    ended, ongoing = dump_segment(log.files, f"log/t-0/{newest:020d}.snapshot")
    assert isinstance(ended, ProducerDump) and isinstance(ongoing, ProducerDump)
    assert (ended.producer_id, ongoing.producer_id, ongoing.current_txn_first_offset) == (5, 6, 2)
    assert "currentTxnFirstOffset: OptionalLong.empty" in str(ended)
    assert "currentTxnFirstOffset: OptionalLong[2]" in str(ongoing)
    assert str(ongoing).endswith(f"firstSequence: 3 lastSequence: 3 lastOffset: 2 offsetDelta: 0 timestamp: {NOW}")


def test_a_producer_known_by_a_marker_alone_is_shown() -> None:
    entry = ProducerDump(5, 0, -1, -1, 0, NOW, 3, -1)
    assert str(entry).endswith(f"currentTxnFirstOffset: OptionalLong.empty lastTimestamp: {NOW}")


def snapshot(version: int, count: int, body: bytes, crc: int | None = None) -> bytes:
    rest = struct.pack(">i", count) + body
    return struct.pack(">hI", version, crc32c(rest) if crc is None else crc) + rest


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\0\1", "2 bytes are too few"),
        (snapshot(2, 0, b""), "version 2"),
        (snapshot(1, 0, b"", crc=5), "CRC of the producer snapshot is wrong"),
        (snapshot(1, 2, bytes(46)), "2 entries has 46 bytes"),
    ],
)
def test_a_snapshot_that_cannot_be_read_is_a_problem(data: bytes, words: str) -> None:
    path = f"t-0/{7:020d}.snapshot"
    problem = the_problem(lines(data, path=path))
    assert words in problem.what and problem.what_to_do.startswith("delete it")


# --- text files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"[1, 2]", b"{", b"\xff", b"[" * 100_000])
def test_an_invalid_quorum_state_is_a_problem(content: bytes) -> None:
    path = "__cluster_metadata-0/quorum-state"
    problem = the_problem(lines(content, path=path))
    assert problem.what_to_do.startswith("delete it")
    (entry,) = lines(b'{"leaderId": 1, "voters": [1]}', path=path)
    assert isinstance(entry, CheckpointEntry) and str(entry) == "leaderId: 1 voters: [1]"


def gone(files: MemoryFiles, path: str) -> Callable[[], None]:
    return lambda: files.remove(path)


def test_a_text_file_that_is_removed_meanwhile_is_not_found() -> None:
    path = "t-0/leader-epoch-checkpoint"
    inner = made(b"0\n1\n0 0\n", path=path)
    files = InterruptingFiles(inner)
    files.begin(1, ("read_file",), gone(inner, path))
    with pytest.raises(LogNotFound):
        list(dump_segment(files, path))  # type: ignore[arg-type]


def test_a_missing_topic_id_raises_and_one_that_goes_meanwhile_is_empty() -> None:
    path = "t-0/partition.metadata"
    with pytest.raises(LogNotFound, match=path):
        list(dump_segment(MemoryFiles(), path))
    inner = MemoryFiles(tree={"t-0": None, path: b""})
    files = InterruptingFiles(inner)
    files.begin(1, ("read_file",), gone(inner, path))
    assert list(dump_segment(files, path)) == []  # type: ignore[arg-type]


def test_a_problem_names_its_place_as_far_as_known() -> None:
    assert str(Problem("f", None, None, "what", "do")) == "f: what; do"
    assert str(Problem("f", 5, None, "what", "do")) == "f, position 5: what; do"
    assert str(Problem("f", 5, 7, "what", "do")) == "f, position 5, offset 7: what; do"
    assert str(Problem("f", None, 7, "what", "do")) == "f, offset 7: what; do"


def test_a_listing_shows_the_segments_of_a_clean_close() -> None:
    log = Log()
    log.fill(60)
    bases = [segment.base_offset for segment, _ in log.partition.segments]
    log.partition.close()
    path = "log/t-0/pylog-listing"
    lines = [str(line) for line in dump_segment(log.files, path)]
    assert lines[: len(bases)] == [f"log: {base}" for base in bases]
    assert lines[len(bases) :] == [f"snapshot: {offset}" for offset in [*bases[1:], 60]]
    log.files.replace_file(path, log.files.read_file(path)[:-1])
    (problem,) = dump_segment(log.files, path)
    assert isinstance(problem, Problem) and "damaged" in problem.what
