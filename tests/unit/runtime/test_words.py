"""Numbers for people."""

import pytest

from pylog.runtime.words import config_text, count_text, duration_text, plural, size_text, time_text


def test_sizes_counts_and_lengths_of_time() -> None:
    assert [size_text(n) for n in (0, 1023, 1536, 1 << 20, 123 << 20, 5 << 30, 1 << 50)] == [
        "0 B", "1023 B", "1.5 KiB", "1.0 MiB", "123 MiB", "5.0 GiB", "1024 TiB",
    ]  # fmt: skip
    assert count_text(336776) == "336,776"
    assert [plural(1, "batch"), plural(2, "batch"), plural(0, "index entry"), plural(3000, "record")] == [
        "1 batch", "2 batches", "0 index entries", "3,000 records",
    ]  # fmt: skip
    assert [duration_text(ms) for ms in (604_800_000, 3_600_000, 90_000, 1500)] == [
        "7 days", "1 hour", "90 seconds", "1,500 ms",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("retention.ms", "604800000", "7 days"), ("segment.bytes", "1073741824", "1.0 GiB"),
        ("segment.bytes", "12", ""), ("flush.messages", str((1 << 63) - 1), "for ever"), ("cleanup.policy", "x", ""),
        ("retention.bytes", "-1", "no limit"), ("segment.jitter.ms", "-1", ""), ("segment.ms", "9" * 30, ""),
    ],
)  # fmt: skip
def test_a_config_is_said_in_words_where_that_helps(name: str, value: str, words: str) -> None:
    assert config_text(name, value) == words


def test_a_time_beyond_the_calendar_is_its_number() -> None:
    assert time_text(1_000) == "1970-01-01T00:00:01.000+00:00"
    assert time_text(1 << 60) == str(1 << 60)
