"""What a leader lets into its log, and what it changes on the way."""

import pytest

from pylog.batch import Batch, encode
from pylog.compression import Codec
from pylog.config import TopicConfig
from pylog.errors import InvalidRecord, InvalidTimestamp, PylogError, RecordTooLarge
from pylog.kernel import Record
from pylog.validate import leader_batch

NOW = 1_700_000_000_000
HOUR = 3_600_000


def batch(*records: Record, codec: Codec = Codec.NONE, control: bool = False) -> Batch:
    return encode(records or [Record(b"v", b"k", NOW)], now_ms=NOW, codec=codec, control=control)


def config(**overrides: object) -> TopicConfig:
    return TopicConfig.loaded({name.replace("_", "."): str(value) for name, value in overrides.items()})


def contents(checked: Batch) -> list[tuple[object, ...]]:
    return [(r.value, r.key, r.timestamp, r.headers) for r in checked.records("", -1)]


def test_a_good_batch_goes_through_untouched() -> None:
    for codec in Codec:
        given = batch(codec=codec)
        before = bytes(given.data)
        assert leader_batch(given, config(), NOW) is given and bytes(given.data) == before


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_keeps_its_codec_and_records_stay_what_they_are(codec: Codec, target: str) -> None:
    records = [Record(b"x" * 50, b"k", NOW - 5, [("h", None)]), Record(None, None, NOW, ()), Record(b"", b"", 3)]
    given = batch(*records, codec=codec)
    checked = leader_batch(given, config(compression_type=target), NOW)
    wanted = Codec.NONE if target == "uncompressed" else Codec.parse(target)
    assert checked.codec is wanted and (checked is given) == (codec is wanted)
    checked.check()
    assert contents(checked) == contents(batch(*records))


def test_log_append_time_replaces_the_time_of_every_record() -> None:
    for target in ("producer", "zstd"):
        given = batch(Record(b"a", timestamp=1), Record(b"b", timestamp=NOW + 100 * HOUR))
        checked = leader_batch(given, config(message_timestamp_type="LogAppendTime", compression_type=target), NOW)
        checked.check()
        assert (checked.append_timestamp, checked.max_timestamp) == (NOW, NOW)
        assert [record.timestamp for record in checked.records("", -1)] == [NOW, NOW]


def damaged(**fields: int) -> Batch:
    given = batch(Record(b"a", b"k", NOW), Record(b"b", b"k", NOW))
    for name, value in fields.items():
        setattr(given, name, value)
    return given


@pytest.mark.parametrize(
    ("given", "topic", "error", "words"),
    [
        (batch(Record(b"x" * 500)), config(max_message_bytes=300), RecordTooLarge, r"max\.message\.bytes=300"),
        (batch(control=True), config(), InvalidRecord, "control"),
        (damaged(count=0), config(), InvalidRecord, "0 records"),
        (damaged(last_offset_delta=7), config(), InvalidRecord, "delta 7"),
        (batch(Record(b"v", None)), config(cleanup_policy="compact"), InvalidRecord, "record 0 .* no key"),
        (batch(Record(b"v", timestamp=NOW + 2 * HOUR)), config(), InvalidTimestamp, "ahead of the clock"),
        (
            batch(Record(b"new", timestamp=NOW), Record(b"old", timestamp=NOW - 1001)),
            config(message_timestamp_before_max_ms=1000), InvalidTimestamp, "record 1",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(given: Batch, topic: TopicConfig, error: type[PylogError], words: str) -> None:
    with pytest.raises(error, match=words):
        leader_batch(given, topic, NOW)


def test_old_records_are_welcome_unless_the_topic_says_otherwise() -> None:
    given = batch(Record(b"1970", timestamp=0))
    assert leader_batch(given, config(), NOW) is given
    limited = config(message_timestamp_before_max_ms=1000)
    with pytest.raises(InvalidTimestamp):
        leader_batch(given, limited, NOW)
    assert leader_batch(batch(Record(b"v", timestamp=NOW - 1000)), limited, NOW) is not None
