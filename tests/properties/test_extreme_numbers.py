"""Numbers at the ends of their ranges: both kernels say the same of them, and a partition that takes them goes on.

A field of 64 bits that something is added to is where C wraps and Python does not. So each number that comes from
outside, a config, a time or an offset, is drawn from the ends of what it can be.
"""

import struct
from uuid import UUID

import pytest
from crc32c import crc32c
from hypothesis import example, given
from hypothesis import strategies as st

from pylog.config import TopicConfig
from pylog.config.options import Whole
from pylog.errors import OffsetOutOfRange, PylogError
from pylog.files import MemoryFiles
from pylog.kernel import Record, pure
from pylog.partition import Checkpoint, Partition
from pylog.protocol.batch import encode
from tests.support.check_kernel import appends_the_same, decodes_the_same, reads_the_same
from tests.support.general_appends import general_partition

try:
    from pylog.kernel import compiled as kernel
except ImportError:
    kernel = pure

INT, LONG = 2**31 - 1, 2**63 - 1
NOW = 1_700_000_000_000
ENDS = (0, 1, -1, INT - 1, INT, INT + 1, -INT - 1, LONG - 1, LONG, -LONG - 1)
longs = st.sampled_from(ENDS)


offsets = st.sampled_from([*(end for end in ENDS if end >= 0), LONG - 2, LONG - 3])
ints = st.sampled_from([0, 1, -1, INT - 1, INT, -INT - 1])


def header(**fields):
    """A batch of one record whose header says what `fields` do, with a CRC that is right."""
    data = bytearray(encode([Record(b"v", b"k", 5)], now_ms=5).data)
    places = {"base": (">q", 0), "epoch": (">i", 12), "delta": (">i", 23), "first": (">q", 27), "newest": (">q", 35),
              "producer": (">q", 43), "sequence": (">i", 53), "count": (">i", 57)}  # fmt: skip
    for name, value in fields.items():
        form, at = places[name]
        struct.pack_into(form, data, at, value)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return bytes(data)


headers = st.builds(
    header, base=longs | offsets, epoch=ints, delta=ints, first=longs, newest=longs, producer=longs, sequence=ints,
    count=ints | st.just(1),
)  # fmt: skip


@given(st.lists(headers, min_size=1, max_size=4), offsets)
def test_headers_at_their_ends_are_read_the_same(batches, room):
    reads_the_same(kernel, b"".join(batches))
    appends_the_same(kernel, batches, room=room)


@given(offsets, longs, st.none() | longs, offsets)
def test_streams_at_the_ends_of_offsets_and_times_are_read_the_same(base, first, appended, last):
    data, count, _, _ = pure.encode_records([(b"v", b"k", 5, ()), (b"w", None, LONG, ())], 5, 0)
    decodes_the_same(
        kernel, data, count, base_offset=min(base, LONG - 3), last_offset=last, base_timestamp=first,
        append_timestamp=appended,
    )  # fmt: skip


def ends_of(kind):
    """What a config takes of the ends of its range, and of numbers."""
    found = []
    for value in {kind._low, kind._low + 1, kind._high - 1, kind._high, *ENDS}:
        try:
            found.append(kind.parse(value))
        except ValueError:
            continue
    return sorted(found)


CONFIGS = {name: ends_of(kind) for name, kind in TopicConfig._kinds().items() if isinstance(kind, Whole)}
configs = st.dictionaries(st.sampled_from(sorted(CONFIGS)), st.integers(0, 20), max_size=4)
times = st.sampled_from([-1, 0, 1, NOW, LONG - 1, LONG])


def outcome(call, *args, **kwargs):
    try:
        return call(*args, **kwargs)
    except PylogError as error:
        return type(error).__name__


def told(kind, config, start, stamps, later):
    """What a partition of one kind answers that gets a record of each stamp, twice after a change of its config."""
    partition = kind(MemoryFiles(), "log/t-0", "t", 0, TopicConfig())
    partition.create(UUID(int=7), NOW, start_offset=start)
    said = []
    for change in (config, TopicConfig(), later):
        partition.reconfigure(change)
        for stamp in stamps:
            batch = encode([Record(b"v", b"k", stamp)], now_ms=NOW)
            said.append(outcome(partition.append, batch, epoch=0, now_ms=NOW))
            partition.advance_high_watermark(partition.next_offset)
        said.append(outcome(partition.apply_retention, NOW))
        said.append(outcome(partition.offset_for_time, LONG, upto=partition.high_watermark))
    partition.check()
    said.append((partition.start_offset, partition.next_offset, len(partition.segments)))
    return said


@given(configs, configs, st.sampled_from([0, INT, LONG - 10, LONG - 2]), st.lists(times, max_size=3))
@example({"segment_ms": 20}, {}, 0, [NOW, NOW])
@example({"message_timestamp_after_max_ms": 20}, {}, 0, [LONG, LONG])
@example({}, {}, LONG - 2, [NOW, NOW, NOW])
def test_a_partition_goes_on_whatever_its_configs_say(given_configs, changed, start, stamps):
    values = [
        {name: CONFIGS[name][number % len(CONFIGS[name])] for name, number in some.items() if "jitter" not in name}
        for some in (given_configs, changed)
    ]
    try:
        config, later = (TopicConfig(**some) for some in values)
    except PylogError:
        return
    plain, ordinary = (told(kind, config, start, stamps, later) for kind in (Partition, general_partition))
    assert plain == ordinary


@pytest.mark.parametrize("kind", [Partition, general_partition])
def test_a_log_without_offsets_left_refuses_records_and_is_readable(kind):
    files = MemoryFiles()
    partition = kind(files, "log/t-0", "t", 0, TopicConfig())
    partition.create(UUID(int=7), NOW, start_offset=LONG - 2)

    def append(*values):
        batch = encode([Record(value, b"k", NOW) for value in values], now_ms=NOW)
        return partition.append(batch, epoch=0, now_ms=NOW).next_offset

    assert append(b"a") == LONG - 1
    with pytest.raises(OffsetOutOfRange, match="offsets end"):
        append(b"b", b"c")
    assert append(b"b") == LONG
    with pytest.raises(OffsetOutOfRange, match="offsets end"):
        append(b"c")
    partition.close()
    partition = kind(files, "log/t-0", "t", 0, TopicConfig())
    partition.open(Checkpoint(start_offset=LONG - 2, durable_offset=LONG), NOW)
    assert partition.next_offset == LONG
    with pytest.raises(OffsetOutOfRange, match="offsets end"):
        append(b"c")
    partition.check()
