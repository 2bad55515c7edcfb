"""The pages of records, live ones too."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog.testing import SimClock
from pylog.ui import reading
from pylog.ui.pages import link
from pylog.ui.reading import Reader
from pylog.ui.values import hex_lines, json_text, shown, visible
from support.visitor import Answer, Visitor
from unit.ui.conftest import HOSTILE, pages_of


def offsets(answer: Answer) -> list[str]:
    """The places of the records on a page, `partition:offset`."""
    assert answer.status == 200, answer.words
    return re.findall(r">(\d+:\d+)</a></td>", answer.text)


def test_the_newest_records_of_all_partitions_come_first(pages: Visitor) -> None:
    answer = pages.get("/topics/clicks/records?limit=4")
    assert offsets(answer) == ["2:29", "1:29", "0:29", "2:28"]
    assert "1970-01-01 00:16:40.089" in answer.words and '{"page": "/shop/89"}' in answer.words


def test_a_partition_is_paged_from_its_end_to_its_start_and_back(pages: Visitor) -> None:
    seen, path = [], "/topics/clicks/records?partition=1&limit=12"
    while path:
        answer = pages.get(path)
        seen += offsets(answer)
        older = re.search(r'rel="prev" href="([^"]*)"', answer.text)
        path = older[1].replace("&amp;", "&") if older else ""
    assert seen == [f"1:{one}" for one in reversed(range(30))]

    first = pages.get("/topics/clicks/records?partition=1&offset=0&limit=20")
    assert offsets(first) == [f"1:{one}" for one in range(20)]
    newer = re.search(r'rel="next" href="([^"]*)"', first.text)
    assert newer is not None and "offset=20" in newer[1]
    assert offsets(pages.get(newer[1].replace("&amp;", "&"))) == [f"1:{one}" for one in range(20, 30)]


def test_records_are_found_by_time_and_by_text(pages: Visitor) -> None:
    late = pages.get("/topics/clicks/records?time=1970-01-01T00:16:40.080")
    assert offsets(late) == [f"{one % 3}:{one // 3}" for one in range(80, 90)]
    assert offsets(pages.get("/topics/clicks/records?time=2030-01-01T00:00%2B01:00")) == []
    assert offsets(pages.get("/topics/clicks/records?text=SHOP/42")) == ["0:14"]
    assert offsets(pages.get("/topics/clicks/records?text=nothing&partition=0")) == []


def test_committed_records_alone_are_shown_on_request(pages: Visitor, log: pylog.Log) -> None:
    log.create_topic("paid")
    with log.producer(transactional_id="till") as producer:
        producer.begin()
        producer.send("paid", b"an order").result()
        assert offsets(pages.get("/topics/paid/records")) == ["0:0"]
        assert offsets(pages.get("/topics/paid/records?committed=1")) == []
        producer.abort()
    assert offsets(pages.get("/topics/paid/records?committed=1")) == []
    assert "no record at offset 1" in pages.get("/topics/paid/records/0/1").words


def test_hostile_bytes_are_shown_as_text(pages: Visitor) -> None:
    answer = pages.get("/topics/orders/records")
    assert HOSTILE.decode() not in answer.text and HOSTILE.decode() in answer.words
    assert "hex, 400 B" not in answer.words and "cut, 400 B in all" in answer.words
    assert "null" in answer.words and "empty" in answer.words


def test_a_record_is_shown_whole(pages: Visitor) -> None:
    words = pages.get("/topics/orders/records/0/4").words
    assert '{ "paid": [ 1, 2 ] }' in words and "7b 22 70 61" in words
    assert "Name Value n 3" in pages.get("/topics/clicks/records/0/1").words
    assert "Value null" in pages.get("/topics/orders/records/0/3").words
    assert pages.get("/topics/orders/records/0/99").status == 404


def test_the_bytes_of_a_value_are_saved_as_they_are(pages: Visitor) -> None:
    answer = pages.get("/topics/orders/records/0/1/value")
    assert answer.body == b"\x00\xff" * 200
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == 'attachment; filename="orders-0-1.value"'
    assert pages.get("/topics/orders/records/0/1/key").body == HOSTILE
    assert pages.get("/topics/orders/records/0/1/else").status == 404


@pytest.mark.parametrize(
    ("query", "status"),
    [("partition=9", 404), ("partition=x", 400), ("offset=-1", 400), ("time=yesterday", 400), ("limit=501", 400)],
)
def test_a_wrong_address_says_what_is_wrong(pages: Visitor, query: str, status: int) -> None:
    assert pages.get(f"/topics/clicks/records?{query}").status == status


def test_records_of_a_server_are_shown(elsewhere: Visitor) -> None:
    assert offsets(elsewhere.get("/topics/clicks/records?partition=1&limit=3")) == ["1:19", "1:18", "1:17"]
    assert offsets(elsewhere.get("/topics/clicks/records?partition=0&offset=5&limit=2")) == ["0:5", "0:6"]
    assert offsets(elsewhere.get("/topics/clicks/records?partition=0&before=2")) == ["0:1", "0:0"]
    assert len(offsets(elsewhere.get("/topics/clicks/records"))) == 40
    assert "value 2" in elsewhere.get("/topics/clicks/records/0/1").words


# --- the bounds of a look -------------------------------------------------------------------------------------------


def test_a_look_that_takes_too_long_says_how_far_it_came(log: pylog.Log) -> None:
    reader = Reader(log, "clicks", matches=lambda _: False, clock=SimClock(0, 0))
    reader._until_ms = 0
    assert (reader.forwards(0, 0, 30, 10).reached, reader.backwards(0, 0, 30, 10).reached) == (1, 30)
    assert reader.forwards(0, 30, 31, 10).reached == 30


def test_a_look_that_was_stopped_is_told_and_goes_on(pages: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SCAN_RECORDS_MAX", 10)
    answer = pages.get("/topics/clicks/records?partition=0&offset=0&text=nothing")
    assert "stopped after a while" in answer.words and "offset=10" in answer.text
    answer = pages.get("/topics/clicks/records?text=nothing")
    assert "choose one partition" in answer.words


def test_going_backwards_the_windows_grow(log: pylog.Log) -> None:
    found = Reader(log, "clicks", matches=lambda one: b"/shop/0" in (one.value or b"")).backwards(0, 0, 30, 2)
    assert ([one.offset for one in found.records], found.reached) == ([0], 0)


def test_retention_that_comes_between_is_told(pages: Visitor, log: pylog.Log) -> None:
    log.create_topic("trimmed")
    log.topic("trimmed")[0].append([pylog.Record(b"1"), pylog.Record(b"2")])
    log.delete_records({pylog.TopicPartition("trimmed", 0): 2})
    found = Reader(log, "trimmed").forwards(0, 0, 2, 10)
    assert "offset 0" in found.damage and found.records == []
    assert Reader(log, "trimmed").one(0, 0) is None
    answer = pages.get("/topics/trimmed/records/0/0")
    assert answer.status == 404 and "There is no record at offset 0: it was deleted" in answer.words


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[pylog.Log]:
    """Topic `t` has 30 batches of a record; the tenth is damaged, and so are the 20th and the 21st."""
    with pylog.open(tmp_path / "data", flush="none") as writer:
        writer.create_topic("t")
        for one in range(30):
            writer.topic("t")[0].append([pylog.Record(b"value %d" % one)])
        (segment,) = writer.topic("t")[0].segments
    path = Path(segment.path)
    data = bytearray(path.read_bytes())
    for one in (10, 20, 21):
        data[data.index(b"value %d" % one)] ^= 1
    path.write_bytes(data)
    with pylog.open(tmp_path / "data", mode="read") as log:
        yield log


READABLE = [f"0:{one}" for one in range(30) if one not in (10, 20, 21)]


def test_records_behind_damage_are_shown_and_the_damage_is_said(damaged: pylog.Log) -> None:
    pages = pages_of(damaged, can_write=False)
    for query in ("", "?partition=0"):
        answer = pages.get(f"/topics/t/records{query}")
        assert offsets(answer) == READABLE[::-1] and "the bytes were damaged" in answer.words
    answer = pages.get("/topics/t/records?partition=0&offset=0")
    assert offsets(answer) == READABLE and "the bytes were damaged" in answer.words


@pytest.mark.parametrize(("query", "rel"), [("offset=0", "next"), ("", "prev")])
def test_pages_pass_damage_in_both_directions(damaged: pylog.Log, query: str, rel: str) -> None:
    pages, seen = pages_of(damaged, can_write=False), []
    assert pages.get("/topics/t/records/0/10").status == 500
    path = f"/topics/t/records?partition=0&limit=5&{query}"
    for _ in range(10):
        answer = pages.get(path)
        seen += offsets(answer)
        further = re.search(f'rel="{rel}" href="([^"]*)"', answer.text)
        if further is None:
            break
        path = further[1].replace("&amp;", "&")
    assert seen == (READABLE if rel == "next" else READABLE[::-1])


def test_a_look_whose_time_ends_at_damage_goes_on_behind_it(damaged: pylog.Log) -> None:
    reader = Reader(damaged, "t", clock=SimClock(0, 0))
    reader._until_ms = 0
    found = reader.forwards(0, 20, 30, 10)
    assert (found.records, found.reached) == ([], 21) and "offset 20" in found.damage


# --- live -----------------------------------------------------------------------------------------------------------


def came(pages: Visitor, topic: str, after: str = "", **words: str) -> dict[str, Any]:
    """What has come since a place."""
    answer = pages.get(link("topics", topic, "follow", after=after, **words))
    assert answer.status == 200 and answer.headers["content-type"] == "application/json"
    found: dict[str, Any] = json.loads(answer.text)
    return found


def test_new_records_are_sent_as_rows_with_the_place_to_go_on(pages: Visitor, log: pylog.Log) -> None:
    log.create_topic("live", partitions=2)
    log.topic("live")[0].append([pylog.Record(b"old"), pylog.Record(HOSTILE)])
    found = came(pages, "live", "0-1.1-0")
    assert (found["after"], found["count"]) == ("0-2.1-0", 1)
    assert "&lt;script&gt;" in found["html"] and "<script" not in found["html"]


def test_a_follower_begins_at_the_end_and_hears_what_comes(pages: Visitor, log: pylog.Log) -> None:
    log.create_topic("later")
    log.topic("later")[0].append([pylog.Record(b"before")])
    found = came(pages, "later", partition="0", text="AFTER")
    assert (found["after"], found["count"], found["html"].strip()) == ("0-1", 0, "")
    log.topic("later")[0].append([pylog.Record(b"after"), pylog.Record(b"else")])
    found = came(pages, "later", found["after"], partition="0", text="AFTER")
    assert (found["after"], found["count"]) == ("0-3", 1) and "after" in found["html"]
    assert came(pages, "later", found["after"])["count"] == 0


def test_what_comes_too_quickly_is_skipped_and_said(pages: Visitor, log: pylog.Log) -> None:
    log.create_topic("flood", partitions=2)
    for one in range(2):
        log.topic("flood")[one].append([pylog.Record(b"%d" % one) for one in range(150)])
    found = came(pages, "flood", "0-0.1-0")
    assert (found["count"], found["skipped"]) == (100, 200)


def test_what_the_time_does_not_suffice_for_is_skipped_and_said(
    pages: Visitor, log: pylog.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create_topic("slow")
    log.topic("slow")[0].append([pylog.Record(b"%d" % one) for one in range(30)])
    monkeypatch.setattr(reading, "SCAN_RECORDS_MAX", 10)
    found = came(pages, "slow", "0-0")
    assert (found["count"], found["skipped"]) == (10, 20)


@pytest.mark.parametrize("text", ["", "value"])
def test_a_follower_gets_the_records_behind_damage_and_hears_of_it(damaged: pylog.Log, text: str) -> None:
    found = came(pages_of(damaged, can_write=False), "t", "0-0", text=text)
    assert (found["count"], found["skipped"]) == (27, 0) and "the bytes were damaged" in found["damage"]


def test_a_place_that_is_none_of_ours_begins_at_the_end(pages: Visitor, log: pylog.Log) -> None:
    log.create_topic("twice")
    log.topic("twice")[0].append([pylog.Record(b"1")])
    for after in ("nonsense", "0-x", "0-" + "9" * 40):
        assert came(pages, "twice", after)["count"] == 0
    # A topic that was made anew ends before the place.
    assert came(pages, "twice", "0-500")["count"] == 1


def test_a_topic_that_is_deleted_is_said_to_its_followers(pages: Visitor, log: pylog.Log) -> None:
    log.create_topic("short-lived")
    after = came(pages, "short-lived")["after"]
    log.delete_topic("short-lived")
    answer = pages.get(link("topics", "short-lived", "follow", after=after))
    assert answer.status == 404 and "there is no topic" in answer.words


# --- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "kind", "text", "is_cut"),
    [
        (None, "none", "", False),
        (b"", "empty", "", False),
        ("grün".encode(), "text", "grün", False),
        (b"two\nlines\t\r", "text", "two\nlines\t\\r", False),
        (b"\x1b[31mred, and some more words", "text", "\\x1b[31mred, and some more words", False),
        ("a \u202emark that turns text".encode(), "text", "a \\u202emark that turns text", False),
        (b"\x00\x00\x00\x07", "hex", "00 00 00 07", False),
        (b"\xff\xfe", "hex", "ff fe", False),
        (b"a" * 201, "text", "a" * 200, True),
        (b"a" * 199 + "ü".encode(), "text", "a" * 199, True),
        (b"a" * 197 + "\U0001f600".encode(), "text", "a" * 197, True),
        (b"\xff" * 300, "hex", " ".join(["ff"] * 200), True),
    ],
)
def test_a_value_is_text_where_it_mostly_prints(data: bytes | None, kind: str, text: str, is_cut: bool) -> None:
    found = shown(data)
    assert (found.kind, found.text, found.is_cut, found.size) == (kind, text, is_cut, len(data or b""))


def test_json_is_laid_out_with_escapes_for_what_does_not_print() -> None:
    assert json_text({"ü": "\u202e"}, 100) == ('{\n  "ü": "\\u202e"\n}', False)
    assert json_text({"a": [1, 2]}, 100, indent=None) == ('{"a": [1, 2]}', False)
    assert json_text(["x" * 50, 1], 10) == ('[\n  "xxxxx', True)
    assert json_text(["\0" * 50], 10) == ('[\n  "\\u000', True)


@pytest.mark.parametrize("part", ["1,", '"&<>",', "[[[[1]]]],", '{"a":"\u202e"},'])
def test_a_large_record_of_json_makes_no_large_page(pages: Visitor, log: pylog.Log, part: str) -> None:
    log.create_topic("deep", exist_ok=True)
    data = b"[" * 300 + (part * (250_000 // len(part.encode()))).encode() + b"1" + b"]" * 300
    with log.producer() as producer:
        at = producer.send("deep", data, key=data).result().offset
    answer = pages.get(f"/topics/deep/records/0/{at}")
    assert answer.status == 200 and len(answer.body) < 2 << 20
    assert "cut, the first 128 KiB of the text are shown" in answer.words


def test_a_record_of_many_and_long_headers_is_cut(pages: Visitor, log: pylog.Log) -> None:
    log.create_topic("heads")
    with log.producer() as producer:
        producer.send("heads", b"v", headers=[("n" * 5000, b'"' * 5000)] + [("k" * 100, b"&" * 100)] * 5000).result()
    answer = pages.get("/topics/heads/records/0/0")
    assert "4,901 more" in answer.words and "n... cut, 5,000 characters in all" in answer.words
    assert len(answer.body) < 200_000
    batch = pages.get("/topics/heads/partitions/0/files/00000000000000000000.log/batch?position=0")
    assert "... cut, 515,000 characters in all" in batch.words and len(batch.body) < 200_000


def test_no_page_is_larger_than_the_bound(pages: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pages.get("/topics/clicks/records?limit=90")
    monkeypatch.setattr("pylog.ui.pages.PAGE_CHARS_MAX", 5000)
    for path in ("/topics/clicks/records?limit=90", "/topics/clicks/config", "/node"):
        answer = pages.get(path)
        assert 5000 <= len(answer.body) < 7000 < len(whole.body), path
        assert answer.text.endswith("The page is cut here, after 16.0 MiB.</p>")
    assert len(pages.get("/topics/clicks/follow?after=0-0.1-0.2-0").body) < 7000


def test_a_dump_has_positions_digits_and_text() -> None:
    assert hex_lines(b"0123456789abcdef\x00", 100) == [
        (100, b"0123456789abcdef".hex(" "), "0123456789abcdef"), (116, "00", "."),
    ]  # fmt: skip
    assert visible("plain") == "plain"
