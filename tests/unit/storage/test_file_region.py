"""What a fetch finds and leaves in its file: the same batches as in memory, sent as they lie there or not at all."""

import random
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pylog
from pylog.errors import Closed, CorruptBatch, StorageError, Truncated
from pylog.files import DiskFiles, Files, MemoryFiles
from pylog.protocol.isolation import Isolation
from pylog.protocol.messages import Fetch, Fetched, FetchedPart, FetchPart, Session
from pylog.storage.file_ranges import Slice
from pylog.storage.file_region import FileExtent
from pylog.storage.log_file import HEAD_BYTES
from support.partition_log import NOW, Log
from tests.support.faults import FaultFiles


@pytest.fixture(params=["disk", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.chdir(tmp_path)
    return DiskFiles() if request.param == "disk" else MemoryFiles()


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    with near, far:
        near.settimeout(0)
        far.settimeout(240)
        yield near, far


def big(files: Files, batches: int = 8, **config: object) -> Log:
    log = Log(files, segment_bytes=1 << 20, **config)
    log.fill(batches, size=5000)
    return log


def found(log: Log, offset: int = 0, max_bytes: int = 1 << 20, upto: int | None = None) -> Slice | None:
    upto = log.partition.next_offset if upto is None else upto
    return log.partition.read(offset, max_bytes, upto=upto, as_extent=True)


def extent_of(log: Log, offset: int = 0, max_bytes: int = 1 << 20) -> FileExtent:
    piece = found(log, offset, max_bytes)
    assert piece is not None and piece.extent is not None and len(piece.data) == 0
    return piece.extent


def sent(extent: FileExtent, sockets: tuple[socket.socket, socket.socket]) -> bytes:
    """What arrives, when all that is left is sent."""
    near, far = sockets
    arrived, wanted = b"", extent.left
    while extent.left:
        try:
            extent.send(near.fileno())
        except BlockingIOError:
            arrived += far.recv(1 << 20)
    while len(arrived) < wanted:
        arrived += far.recv(1 << 20)
    return arrived


# --- finding ----------------------------------------------------------------------------------------------------------


def bytes_of(piece: Slice | None) -> tuple[int, bytes, int] | None:
    if piece is None:
        return None
    data = bytes(piece.data) if piece.extent is None else piece.extent.read()
    return piece.position, data, piece.next_offset


def wanted(log: Log, offset: int, max_bytes: int, upto: int) -> tuple[int, bytes, int] | None:
    """What there is to be found, by looking at every batch."""
    for segment, end in log.partition.segments:
        spans = [(window.position, span) for window in segment.scan(check_crc=True) for span in window.spans]
        taken = [(start + span.position, span) for start, span in spans if offset <= span.last_offset < end]
        taken = [(position, span) for position, span in taken if offset < upto and span.base_offset < upto]
        if taken:
            begin = taken[0][0]
            fitting = [taken[0], *(one for one in taken[1:] if one[0] + one[1].size - begin <= max_bytes)]
            position, last = fitting[-1]
            data = log.files.open(segment.path).read(begin, position + last.size - begin)
            return begin, data, last.last_offset + 1
    return None


@pytest.mark.parametrize("interval", [0, 4096, 1 << 30])
@pytest.mark.parametrize("seed", range(2))
def test_as_many_whole_batches_are_found_as_fit(seed: int, interval: int) -> None:
    chance = random.Random(seed)
    log = Log(segment_bytes=150_000, index_interval_bytes=interval)
    for _ in range(60):
        log.append(*["x" * chance.choice([10, 100, 3000, 20_000])] * chance.randrange(1, 4))
    end, extents = log.partition.next_offset, 0
    for _ in range(200):
        offset, upto = chance.randrange(end + 1), chance.randrange(end + 1)
        max_bytes = chance.choice([1, 500, 5000, 30_000, 1 << 20])
        piece = found(log, offset, max_bytes, upto)
        extents += piece is not None and piece.extent is not None
        assert bytes_of(piece) == wanted(log, offset, max_bytes, upto)
    assert extents > 30


def test_little_ones_come_as_bytes() -> None:
    log = Log()
    log.fill(3)
    piece = found(log)
    assert piece is not None and piece.extent is None and 0 < len(piece.data) <= HEAD_BYTES


def test_a_fetch_goes_on_where_the_last_one_ended() -> None:
    log = big(MemoryFiles(), 12)
    first = found(log, max_bytes=20_000)
    assert first is not None and first.extent is not None and first.next_offset == 3
    assert log.partition.segments[0][0].log.after_last(3) == first.extent.size
    second = found(log, 3, max_bytes=20_000)
    assert second is not None and (second.position, second.next_offset) == (first.extent.size, 6)


def test_an_index_that_is_wrong_about_the_last_batches_is_not_believed() -> None:
    log = big(MemoryFiles(), 12)
    index = log.partition.segments[0][0].offsets
    for place in range(len(index.rows.seconds)):
        index.rows.seconds[place] += 100  # type: ignore[index]
    piece = found(log)
    assert bytes_of(piece) == bytes_of(log.partition.read(0, 1 << 20, upto=12))
    assert log.partition.segments[0][0].log.base_of(1 << 30, 11) is None


@pytest.mark.parametrize("which", [0, 7])
def test_a_region_ends_before_a_batch_that_cannot_be(which: int) -> None:
    log = big(MemoryFiles())
    segment = log.partition.segments[0][0]
    (window,) = segment.scan(check_crc=True)
    span = window.spans[which]
    log.files.open(segment.path).write(span.position + 8, (10).to_bytes(4, "big"))
    if which > 0:
        piece = found(log)
        assert piece is not None and piece.next_offset == span.base_offset
    with pytest.raises(CorruptBatch, match="length of 10 is impossible") as refused:
        found(log, span.base_offset)
    assert (refused.value.offset, refused.value.next_offset) == (span.base_offset, span.last_offset + 1)


def test_a_file_that_ends_inside_of_the_first_batch_is_damaged() -> None:
    log = big(MemoryFiles())
    segment = log.partition.segments[0][0]
    log.files.open(segment.path).truncate(3000)
    with pytest.raises(CorruptBatch, match="3000 bytes are too few"):
        found(log)


def test_a_fetch_says_where_its_batches_lie_if_it_is_asked_to() -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t", partitions=3)
        for number in (0, 1):
            for _ in range(4):
                log.topic("t")[number].append([pylog.Record(b"x" * 5000)])

        def fetched(**options: object) -> list[FetchedPart]:
            parts = [FetchPart("t", number, 0) for number in range(3)]
            message = Fetch(parts, max_wait_ms=60_000, **options)  # type: ignore[arg-type]
            answer: Fetched = log.broker.handle(message, Session()).result(0)
            return answer.parts

        batch = log.topic("t")[0].size // 4
        for isolation in Isolation:
            in_memory = fetched(isolation=isolation)
            lying = fetched(isolation=isolation, as_extents=True)
            assert (
                [part.size for part in lying]
                == [part.size for part in in_memory]
                == [20_000 + 4 * 70, 20_000 + 4 * 70, 0]
            )
            for one, other in zip(lying[:2], in_memory[:2], strict=True):
                assert one.extent is not None and other.extent is None
                assert one.extent.read() == other.data and len(one.data) == 0
                assert (one.path, one.position) == (other.path, other.position)
        # Bytes that stay in the file count as those in memory do.
        assert [part.size for part in fetched(as_extents=True, max_bytes=6000)] == [batch, 0, 0]
        assert len(fetched(as_extents=True, min_bytes=30_000)) == 3


def test_a_reader_gives_bytes(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as owner, pylog.open(tmp_path, mode="read") as reader:
        owner.create_topic("t")
        owner.topic("t")[0].append([pylog.Record(b"x" * 50_000)])
        message = Fetch([FetchPart("t", 0, 0)], as_extents=True)
        (part,) = reader._node.handle(message, Session()).result(0).parts
        assert part.extent is None and len(part.data) == part.size > 50_000


# --- sending ----------------------------------------------------------------------------------------------------------


def test_a_region_sends_the_bytes_of_the_file(files: Files, sockets: tuple[socket.socket, socket.socket]) -> None:
    log = big(files, 100)
    extent = extent_of(log)
    whole = log.partition.read(0, 1 << 20, upto=100)
    assert whole is not None and extent.size == extent.left == len(whole.data)
    assert extent.read() == whole.data
    assert sent(extent, sockets) == whole.data
    assert (extent.left, extent.send(sockets[0].fileno()), extent.read()) == (0, 0, b"")


def test_bytes_that_a_socket_does_not_take_are_left(files: Files, sockets: tuple[socket.socket, socket.socket]) -> None:
    log = big(files, 200)
    extent = extent_of(log)
    with pytest.raises(BlockingIOError):
        while extent.left:
            extent.send(sockets[0].fileno())
    assert 0 < extent.left < extent.size
    whole = log.partition.read(0, 1 << 20, upto=200)
    assert whole is not None and extent.read() == whole.data[extent.size - extent.left :]
    extent.close()
    extent.close()


@pytest.mark.parametrize("change", ["grows", "is dropped and removed", "is closed"])
def test_a_file_that_is_being_sent_stays_readable(
    files: Files, sockets: tuple[socket.socket, socket.socket], change: str
) -> None:  # fmt: skip
    log = big(files, 200)
    whole = log.partition.read(0, 1 << 20, upto=200)
    extent, waiting = extent_of(log), extent_of(log)
    assert whole is not None
    begun = extent.send(sockets[0].fileno())
    arrived = sockets[1].recv(begun, socket.MSG_WAITALL)
    if change == "grows":
        log.fill(3)
    elif change == "is dropped and removed":
        log.partition.roll(NOW)
        log.partition.delete_records(200)
        log.partition.apply_retention(NOW)
        log.partition.purge(NOW)
        assert len(log.partition.segments) == 1
    else:
        log.partition.close()
    assert arrived + sent(extent, sockets) == whole.data
    if change != "grows":
        # Nothing was promised to what had not begun: thousands of them may wait.
        with pytest.raises(Closed):
            waiting.send(sockets[0].fileno())


def test_bytes_that_were_cut_are_not_sent(files: Files, sockets: tuple[socket.socket, socket.socket]) -> None:
    log = big(files)
    extent, begun = extent_of(log), extent_of(log)
    begun.send(sockets[0].fileno())
    log.partition.truncate(2, NOW)
    log.fill(8, size=5000)
    calls: list[Callable[[], object]] = [lambda: extent.send(sockets[0].fileno()), extent.read]
    for call in calls:
        with pytest.raises(Truncated, match=r"cut after bytes 0 to \d+ .* 0 of them were sent. Close the connection"):
            call()
    assert extent.left == extent.size
    assert extent_of(log).size > 0


def test_a_cut_during_a_call_is_noticed_behind_it(files: Files, sockets: tuple[socket.socket, socket.socket]) -> None:
    file = files.open("f", create=True)
    file.write(0, b"0123456789")
    for call in (lambda extent: extent.send(sockets[0].fileno()), FileExtent.read):
        told = iter([0, 1, 1])
        extent = FileExtent(file, 2, 5, cuts=lambda told=told: next(told), made_at=0)  # type: ignore[misc]
        if call is FileExtent.read:
            next(told)
        with pytest.raises(Truncated):
            call(extent)
        extent.close()


def test_a_file_that_another_process_has_cut_has_too_little(
    files: Files, sockets: tuple[socket.socket, socket.socket]
) -> None:
    file = files.open("f", create=True)
    file.write(0, b"0123456789")
    extent = FileExtent(file, 2, 5, cuts=lambda: 0, made_at=0)
    file.truncate(4)
    with pytest.raises(Truncated):
        extent.read()
    assert extent.send(sockets[0].fileno()) == 2
    with pytest.raises(Truncated, match="2 of them were sent"):
        extent.send(sockets[0].fileno())
    extent.close()


def test_the_rest_is_taken_in_parts_for_a_sender_that_changes_it(files: Files) -> None:
    file = files.open("f", create=True)
    file.write(0, b"0123456789")
    extent = FileExtent(file, 2, 7, cuts=lambda: 0, made_at=0)
    assert [extent.take(3), extent.left, extent.take(3), extent.take(3), extent.left] == [b"234", 4, b"567", b"8", 0]
    extent = FileExtent(file, 2, 7, cuts=lambda: 0, made_at=0)
    assert extent.take(2) == b"23"
    file.truncate(4)
    with pytest.raises(Truncated, match="2 of them were sent"):
        extent.take(2)
    extent.close()


def test_a_file_that_cannot_be_read_is_a_storage_error(sockets: tuple[socket.socket, socket.socket]) -> None:
    inner = MemoryFiles()
    log = big(inner)
    failing = FaultFiles(inner, 2)
    file = failing.open(log.partition.segments[0][0].path)
    extent = FileExtent(file, 0, 100, cuts=lambda: 0, made_at=0)
    with pytest.raises(StorageError, match="Input/output error"):
        extent.send(sockets[0].fileno())
    assert extent.send(sockets[0].fileno()) == 100
