"""Plain batches to records, many at once: what is taken, and where it stops."""

import pytest

from pylog.errors import CorruptBatch
from pylog.kernel import pure, take_records
from pylog.protocol.batch import encode, encode_marker
from pylog.protocol.compression import Codec

NOW = 1_700_000_000_000


def batch(base, count, **more):
    made = encode([(b"v%d" % (base + n), None, None, ()) for n in range(count)], now_ms=NOW + base, **more)
    made.stamp(base, 3)
    return made


def values(records):
    return [(r.offset, r.value) for r in records]


def both(*arguments):
    """What both kernels give."""
    given = [take(*arguments) for take in (take_records, pure.take_records)]
    answers = [(values(records), *ends) for records, *ends in given]
    assert answers[0] == answers[1]
    return given[0]


PARTS = [batch(10, 2), batch(12, 1), batch(20, 3), batch(23, 4)]
DATA = b"".join(bytes(part.data) for part in PARTS)
ENDS = [sum(part.size for part in PARTS[: n + 1]) for n in range(len(PARTS))]


@pytest.mark.parametrize(("most", "taken"), [(1, 1), (2, 1), (3, 2), (5, 2), (6, 3), (9, 3), (10, 4), (999, 4)])
def test_whole_batches_one_at_least(most, taken):
    records, position, next_offset, epoch = both(DATA, 0, 10, most, "t", 1)
    assert [r.offset for r in records] == [10, 11, 12, 20, 21, 22, 23, 24, 25, 26][: len(records)]
    assert (position, next_offset, epoch) == (ENDS[taken - 1], [12, 13, 23, 27][taken - 1], 3)
    assert {(r.topic, r.partition, r.leader_epoch, r.timestamp_type) for r in records} == {("t", 1, 3, 0)}


def test_from_an_offset_and_from_a_position_on():
    assert values(both(DATA, 0, 21, 99, "t", 1)[0])[0] == (21, b"v21")
    assert values(both(DATA, ENDS[0], 10, 99, "t", 1)[0])[0] == (12, b"v12")
    assert both(DATA, 0, 99, 5, "t", 1) == ([], ENDS[3], 99, 3)
    assert both(DATA, ENDS[3], 10, 99, "t", 1) == ([], ENDS[3], 10, -1)


def test_control_batches_are_stepped_over():
    marker = encode_marker(5, 0, is_abort=False, coordinator_epoch=0, now_ms=NOW)
    marker.stamp(12, 4)
    data = bytes(batch(10, 2).data + marker.data + batch(13, 1).data)
    assert values(both(data, 0, 0, 99, "t", 1)[0]) == [(10, b"v10"), (11, b"v11"), (13, b"v13")]
    records, position, next_offset, epoch = both(bytes(marker.data), 0, 0, 99, "t", 1)
    assert (records, position, next_offset, epoch) == ([], marker.size, 13, 4)


def test_the_time_of_the_append():
    stamped = batch(0, 2)
    stamped.stamp_append_time(NOW + 77)
    data = bytes(stamped.data + batch(2, 1).data)
    records = both(data, 0, 0, 99, "t", 1)[0]
    assert [(r.timestamp, r.timestamp_type) for r in records] == [(NOW + 77, 1), (NOW + 77, 1), (NOW + 2, 0)]


@pytest.mark.parametrize("what", ["compressed", "crc", "cut", "magic", "empty", "count", "stream", "behind"])
def test_taking_stops_before_a_batch_that_needs_a_decision(what):
    odd = batch(12, 1, codec=Codec.GZIP if what == "compressed" else Codec.NONE)
    data = bytearray(odd.data)
    check_crc = what == "crc"
    if what == "crc":
        data[-1] ^= 1
    elif what == "cut":
        del data[-1:]
    elif what == "magic":
        data[16] = 1
    elif what in ("empty", "count"):
        data[60] = 0 if what == "empty" else 9
    elif what == "stream":
        data[61] ^= 2
    elif what == "behind":
        data[0] = 0xFF
    whole = bytes(PARTS[0].data + data)
    assert both(whole, 0, 0, 99, "t", 1, check_crc)[1:] == (PARTS[0].size, 12, 3)
    assert both(whole, PARTS[0].size, 12, 99, "t", 1, check_crc) == ([], PARTS[0].size, 12, -1)


def test_a_position_outside():
    for take in (take_records, pure.take_records):
        for position in (-1, len(DATA) + 1):
            with pytest.raises(ValueError, match="not in the buffer"):
                take(DATA, position, 0, 1, "t", 1)


def test_a_count_that_the_bytes_cannot_have_takes_no_memory():
    lying = batch(0, 1)
    lying.count, lying.last_offset_delta = 2**31 - 1, 2**31 - 2
    lying.write()
    assert both(bytes(lying.data), 0, 0, 10, "t", 1) == ([], 0, 0, -1)
    with pytest.raises(CorruptBatch, match="2147483647 records cannot be in"):
        lying.records("t", 1)
