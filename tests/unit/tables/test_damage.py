"""Damaged records are an error with advice, or left out where that is asked for, each with a warning."""

from collections.abc import Callable
from pathlib import Path

import pytest

import pylog
from pylog.errors import CorruptBatch, CorruptRecord
from pylog.kernel import crc32c
from pylog.protocol.isolation import IsolationLevel

BATCH_CRC, BATCH_CRC_FROM, RECORDS = 17, 21, 61


def flipped(data: bytearray, at: int, size: int) -> None:
    """A bit of a record."""
    data[at + 65] ^= 1


def of_another_magic(data: bytearray, at: int, size: int) -> None:
    """A batch of another format."""
    data[at + 16] = 9


def of_another_length(data: bytearray, at: int, size: int) -> None:
    """A header that cannot be followed: what comes behind it is found by the index alone."""
    data[at + 8 : at + 12] = (1 << 20).to_bytes(4, "big")


def undecodable(data: bytearray, at: int, size: int) -> None:
    """A batch with the right CRC, and records that do not parse."""
    data[at + RECORDS] = 0xFF
    data[at + BATCH_CRC : at + BATCH_CRC + 4] = crc32c(bytes(data[at + BATCH_CRC_FROM : at + size])).to_bytes(4, "big")


@pytest.fixture
def damaged(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A log of one partition and four batches of three records, with a change to one of them."""
    change, number = request.param
    with pylog.open(tmp_path, flush="none") as log:
        partition = log.create_topic("t", config={"index.interval.bytes": 0})[0]
        for batch in range(4):
            partition.append([pylog.Record(b"%d" % (3 * batch + i), timestamp=1) for i in range(3)])
        path, size = Path(partition.segments[0].path), partition.size // 4
    data = bytearray(path.read_bytes())
    change(data, number * size, size)
    path.write_bytes(data)
    return tmp_path


CHANGES: list[Callable[[bytearray, int, int], None]] = [flipped, of_another_magic, of_another_length, undecodable]


@pytest.mark.parametrize("damaged", [(change, 1) for change in CHANGES], indirect=True)
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_damaged_records_are_left_out_where_that_is_asked_for(
    damaged: Path, caplog: pytest.LogCaptureFixture, isolation: IsolationLevel
) -> None:
    rest = [0, 1, 2, *range(6, 12)]
    with pylog.open(damaged, mode="read") as log:
        topic = log.topic("t")
        with pytest.raises(CorruptBatch):
            list(topic.records(isolation_level=isolation))
        caplog.clear()
        assert [one.offset for one in topic.records(isolation_level=isolation, on_damage="skip")] == rest
        assert caplog.text.count("t-0: offsets 3 to 5 are left out") == 1, caplog.text
        assert topic.select(on_damage="skip", isolation_level=isolation).to_arrow()["offset"].to_pylist() == rest
        assert sum(one.num_rows for one in topic.columns(on_damage="skip", isolation_level=isolation)) == len(rest)
        assert [one.offset for one in topic[0].records(4, 8, on_damage="skip")] == [6, 7]


@pytest.mark.parametrize("damaged", [(change, 1) for change in CHANGES], indirect=True)
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_damaged_records_are_left_out_through_a_network_too(
    damaged: Path, caplog: pytest.LogCaptureFixture, isolation: IsolationLevel
) -> None:
    rest = [0, 1, 2, *range(6, 12)]
    with (
        pylog.open(damaged) as log,
        log.serve() as server,
        pylog.connect(server.bootstrap_servers) as connected,
    ):
        topic = connected.topic("t")
        for chosen in (topic.select(isolation_level=isolation), topic[0].select(isolation_level=isolation)):
            with pytest.raises((CorruptBatch, CorruptRecord)):
                list(chosen.records())
            with pytest.raises((CorruptBatch, CorruptRecord)):
                chosen.to_arrow()
        caplog.clear()
        assert [one.offset for one in topic.records(isolation_level=isolation, on_damage="skip")] == rest
        assert caplog.text.count("t-0: offsets 3 to 5 are left out") == 1, caplog.text
        chosen = topic.select(on_damage="skip", isolation_level=isolation)
        assert chosen.to_arrow()["offset"].to_pylist() == rest
        assert caplog.text.count("t-0: offsets 3 to 5 are left out") == 2, caplog.text
        assert [one.offset for one in topic[0].records(4, 8, on_damage="skip")] == [6, 7]
        assert topic[0]._past(0) == 0, "it can be read by now"


@pytest.mark.parametrize("damaged", [(flipped, 3), (of_another_magic, 3), (of_another_length, 3)], indirect=True)
def test_damage_at_the_end_is_left_out(damaged: Path) -> None:
    with pylog.open(damaged, mode="read") as log:
        found = list(log.topic("t").records(on_damage="skip"))
    assert [one.offset for one in found] == list(range(9))


def test_what_is_done_about_damage_has_two_names() -> None:
    with pylog.open(":memory:") as log:
        topic = log.create_topic("t")
        with pytest.raises(ValueError, match="on_damage is 'ignore', and may be 'raise' or 'skip'"):
            topic.select(on_damage="ignore")  # type: ignore[arg-type]
