"""The pages of topics, of the node, and what changes topics."""

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog.errors import GroupIdNotFound
from pylog.files import DiskFiles
from pylog.handles.topic_facts import Ends
from pylog.record import TopicPartition
from pylog.ui import damage, sampling, sorting, topics
from pylog.ui.application import application
from pylog.ui.pages import link
from pylog.ui.rates import Rates
from pylog.ui.security import Policy
from pylog.ui.source import Source
from pylog.ui.values import middle
from support.visitor import Visitor
from unit.ui.conftest import PATIENT, pages_of

KEY = TopicPartition("clicks", 0)


def test_topics_are_listed_with_partitions_offsets_and_sizes(pages: Visitor) -> None:
    words = pages.get("/").words
    assert "clicks 3 90" in words and "orders 1 5" in words
    assert "__consumer_offsets" not in words


def test_topics_are_searched_and_internal_ones_shown_on_request(pages: Visitor, log: pylog.Log) -> None:
    log.admin.alter_offsets("a group", {KEY: 1})
    assert ">clicks</a></th>" not in pages.get("/?name=ORD").text
    assert "no such topics" in pages.get("/?name=nothing").words
    assert "__consumer_offsets internal" in pages.get("/?internal=1").words


def names(pages: Visitor, query: str = "") -> list[str]:
    """The topics of a list, in their order."""
    answer = pages.get(f"/{query}")
    assert answer.status == 200, answer.words
    return re.findall(r'<th scope="row"><a href="/topics/([^"]*)"', answer.text)


def in_memory(log: pylog.Log) -> Visitor:
    """A visitor of the pages of a log that has no files here."""
    return Visitor(application(Source("three", log), Policy(), patience_seconds=PATIENT))


@pytest.fixture
def three() -> Iterator[pylog.Log]:
    """`a` has two partitions, `b` the most records, and `c` a group that lags."""
    with pylog.open(":memory:", config={"offsets.topic.num.partitions": 1}) as opened:
        for name, partitions, records in (("a", 2, 1), ("b", 1, 5), ("c", 1, 3)):
            opened.create_topic(name, partitions=partitions)
            opened.topic(name)[0].append([pylog.Record(b"x")] * records)
        opened.admin.alter_offsets("behind", {TopicPartition("c", 0): 1, TopicPartition("b", 0): 5})
        yield opened


@pytest.mark.parametrize(
    ("query", "order"),
    [
        ("", "abc"), ("?sort=topic&order=desc", "cba"), ("?sort=partitions&order=desc", "abc"),
        ("?sort=offsets", "acb"), ("?sort=size&order=desc", "bca"), ("?sort=lag&order=desc", "cba"),
        ("?sort=records", "abc"), ("?sort=growth", "abc"),
    ],
)  # fmt: skip
def test_topics_are_sorted_by_a_column(three: pylog.Log, query: str, order: str) -> None:
    assert "".join(names(in_memory(three), query)) == order


def test_a_column_says_how_it_is_sorted_and_turns_round(three: pylog.Log) -> None:
    pages = in_memory(three)
    assert 'href="?internal=1&amp;sort=size&amp;order=desc"' in pages.get("/?internal=1&token=x").text
    text = pages.get("/?sort=size&order=desc&name=%3Cb%3E").text
    assert "There are no such topics" in text and "<b>" not in text
    text = pages.get("/?sort=size&order=desc").text
    assert 'aria-sort="descending"' in text and 'href="?sort=size&amp;order=asc"' in text
    assert 'href="?sort=topic&amp;order=asc"' in text
    assert pages.get("/?sort=none").status == pages.get("/?page=x").status == 400


def test_a_long_list_has_pages(three: pylog.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "LINES_MAX", 2)
    pages = in_memory(three)
    assert names(pages) == ["a", "b"] and names(pages, "?page=2&sort=topic") == ["c"] == names(pages, "?page=99")
    first, last = pages.get("/?sort=topic"), pages.get("/?page=2")
    assert "Page 1 of 2 Next" in first.words and 'href="?sort=topic&amp;page=2"' in first.text
    assert "Previous Page 2 of 2" in last.words


def test_what_matters_stands_first(three: pylog.Log) -> None:
    words = in_memory(three).get("/").words
    assert "Under-replicated partitions 0 Largest lag 2 behind in c Topics 4 Partitions 5" in words
    three.lead("c", followers=[2])
    answer = in_memory(three).get("/")
    # The offsets of groups have the same followers.
    assert "Under-replicated partitions 2" in answer.words and "c 1 under-replicated" in answer.words
    assert names(in_memory(three)) == ["c", "a", "b"]


def test_damaged_topics_stand_first(log: pylog.Log, pages: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = damage.LostRange(TopicPartition("orders", 0), 0, 0, 10, 0, 1)
    monkeypatch.setattr(sampling, "lost_ranges", lambda _: [lost])
    assert names(pages)[0] == "orders" and "Damaged topics 1" in pages.get("/").words


def test_topics_are_listed_though_a_log_directory_cannot_be_read(three: pylog.Log, tmp_path: Path) -> None:
    source = Source("three", three, DiskFiles(read_only=True), (os.fspath(tmp_path / "gone"),))
    assert names(Visitor(application(source, Policy(), patience_seconds=PATIENT))) == ["a", "b", "c"]


def test_no_page_waits_long_for_the_first_look(three: pylog.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    may_end, begun, look = threading.Event(), list[Source](), sampling.sample

    def slow(source: Source) -> sampling.LogSample:
        begun.append(source)
        may_end.wait(PATIENT)
        return look(source)

    monkeypatch.setattr(sampling, "sample", slow)
    pages = Visitor(application(Source("three", three), Policy(), patience_seconds=0))
    for _ in range(2):
        words = pages.get("/").words
        assert "The first look at the log runs" in words and "a 2 1 … … … - records" in words
    assert len(begun) == 1
    may_end.set()
    state: Any = pages.app._app.state  # type: ignore[attr-defined]
    assert state.looks.take().lags["behind", "c"] == 2
    assert "Largest lag 2" in pages.get("/").words


def test_the_last_look_serves_a_page_and_the_ends_are_of_now(three: pylog.Log) -> None:
    pages = in_memory(three)
    state: Any = pages.app._app.state  # type: ignore[attr-defined]
    state.looks.take()
    three.topic("a")[0].append([pylog.Record(b"y")])
    three.create_topic("new")
    three.topic("new")[0].append([pylog.Record(b"y")])
    words = pages.get("/").words
    assert "a 2 2" in words and "new 1 1" in words
    three.delete_topic("b")
    assert names(pages) == ["a", "c", "new"]
    assert sampling.sample(state.source).lags == {("behind", "c"): 2}
    # A topic that is newer than the look at the ends.
    assert sampling._lags(state.source, {}) == {}


def test_a_topic_that_is_deleted_meanwhile_is_listed_as_it_was(three: pylog.Log) -> None:
    source = Source("three", three)
    metadata, taken = source.topics(), sampling.sample(source)
    three.delete_topic("b")
    ends = topics._ends_now(source, metadata, taken)
    assert ends[TopicPartition("b", 0)].count == 5


def test_a_look_leaves_out_a_topic_that_is_deleted_meanwhile(three: pylog.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source("three", three)
    metadata = source.topics()
    three.delete_topic("b")
    monkeypatch.setattr(Source, "topics", lambda _: metadata)
    assert {key.topic for key in source.ends()} & set("abc") == {"a", "c"}


def test_a_group_that_ends_meanwhile_has_no_lag(three: pylog.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise GroupIdNotFound("behind")

    admin = three.admin
    monkeypatch.setattr(admin, "committed", fail)
    monkeypatch.setattr(type(three), "admin", property(lambda _: admin))
    assert sampling.sample(Source("three", three)).lags == {}


def test_a_long_name_is_cut_in_the_middle(pages: Visitor, log: pylog.Log) -> None:
    name = "a" * 100 + "z" * 100
    log.create_topic(name)
    text = pages.get("/?name=aaaz").text
    assert f'title="{name}">{"a" * 24}…{"z" * 23}</a>' in text
    assert (middle("a" * 48), len(middle("a" * 49))) == ("a" * 48, 48)


def test_a_topic_shows_its_partitions(pages: Visitor) -> None:
    words = pages.get("/topics/clicks").words
    assert "3 partitions" in words and "0 0 30 30" in words
    answer = pages.get("/topics/none")
    assert answer.status == 404 and "there is no topic" in answer.words


def test_configs_show_which_are_set(pages: Visitor, log: pylog.Log) -> None:
    log.create_topic("short", config={"retention.ms": 604_800_000})
    words = pages.get("/topics/short/config").words
    assert "retention.ms 604800000 7 days set on the topic" in words
    assert "cleanup.policy delete default" in words
    with pylog.open(":memory:", config={"log.segment.bytes": 1 << 20}) as other:
        other.create_topic("t")
        assert "segment.bytes 1048576 1.0 MiB node" in pages_of(other).get("/topics/t/config").words


def test_a_topic_is_made_changed_and_deleted(pages: Visitor, log: pylog.Log) -> None:
    made = pages.post("/topics", {"name": "new", "partitions": "2", "config": "\nretention.ms = 1000\n"})
    assert (made.status, made.headers["location"]) == (303, "/topics/new?done=created")
    assert "The topic was created" in pages.get(made.headers["location"]).words
    assert log.topic("new").overrides == {"retention.ms": "1000"}

    assert pages.post("/topics/new/partitions", {"total": "3"}).status == 303
    assert len(log.topic("new")) == 3
    assert pages.post("/topics/new/config/set", {"name": "retention.ms", "what": "reset"}).status == 303
    assert log.topic("new").overrides == {}
    assert pages.post("/topics/new/config/set", {"name": "segment.ms", "value": "5000"}).status == 303
    assert log.topic("new").overrides == {"segment.ms": "5000"}

    log.topic("new")[1].append([pylog.Record(b"1"), pylog.Record(b"2")])
    assert pages.post("/topics/new/trim", {"partition": "1", "before": "1"}).status == 303
    assert log.topic("new")[1].start_offset == 1

    kept = pages.post("/topics/new/delete", {"confirm": "other"})
    assert kept.status == 400 and "Nothing was deleted" in kept.words and "new" in log.topics()
    assert pages.post("/topics/new/delete", {"confirm": "new"}).headers["location"] == "/?done=deleted"
    assert "new" not in log.topics()


@pytest.mark.parametrize(
    ("path", "form", "words"),
    [
        ("/topics", {"partitions": "1"}, "name is missing"),
        ("/topics", {"name": "a/b", "partitions": "1"}, "a/b"),
        ("/topics", {"name": "x", "partitions": "0"}, "not a whole number from 1"),
        ("/topics", {"name": "x", "partitions": "\u0663"}, "not a whole number"),
        ("/topics", {"name": "x", "partitions": "9" * 5000}, "not a whole number"),
        ("/topics", {"name": "x", "partitions": "1", "config": "nonsense"}, "is not NAME=VALUE"),
        ("/topics", {"name": "x", "partitions": "1", "config": "retention.m=1"}, "retention.ms"),
        ("/topics/clicks/config/set", {"name": "retention.ms", "what": "else"}, "not one of set, reset"),
        ("/topics/clicks/trim", {"partition": "0"}, "before is missing"),
        ("/topics/clicks/trim", {"partition": "0", "before": "1000"}, "1000"),
        ("/topics/clicks/partitions", {"total": "1"}, "3"),
    ],
)  # fmt: skip
def test_a_wrong_form_says_what_is_wrong(pages: Visitor, path: str, form: dict[str, str], words: str) -> None:
    answer = pages.post(path, form)
    assert answer.status == 400 and words in answer.words, answer.words


def test_what_was_done_is_said_in_words_of_the_pages_own(pages: Visitor) -> None:
    assert "haha" not in pages.get("/?done=haha").text


def test_the_node_shows_its_directories_and_configs(pages: Visitor, log: pylog.Log) -> None:
    words = pages.get("/node").words
    assert log.path in words and "num.partitions 1" in words


def test_a_log_that_is_only_read_says_that_its_owner_knows_the_configs(log: pylog.Log) -> None:
    with pylog.open(log.path, mode="read") as reader:
        words = pages_of(reader, can_write=False).get("/node").words
    assert "Only the owner of the log has" in words


def test_a_log_elsewhere_is_shown_without_its_files(elsewhere: Visitor) -> None:
    assert "clicks 2 40" in elsewhere.get("/").words
    assert "2 partitions" in elsewhere.get("/topics/clicks").words
    assert "num.partitions" in elsewhere.get("/node").words
    for path in ("/topics/clicks/partitions/0", "/damage"):
        answer = elsewhere.get(path)
        assert answer.status == 404 and "needs the files of the log" in answer.words


def test_a_page_that_there_is_not_says_so(pages: Visitor) -> None:
    assert "There is no such page." in pages.get("/none").words


def test_a_mistake_of_pylogs_own_is_told_and_logged(
    pages: Visitor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pylog.Log, "topics", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pages.get("/damage")
    assert "GET /damage failed" in caplog.text and "Traceback" in caplog.text and "ZeroDivisionError" in caplog.text


# --- rates and words ------------------------------------------------------------------------------------------------


def test_a_rate_needs_two_samples_a_second_apart() -> None:
    rates = Rates()
    assert rates.of([KEY]) is None
    rates.note(0, {KEY: Ends(0, 10, 100)})
    assert rates.of([KEY]) is None
    rates.note(2000, {KEY: Ends(0, 30, 500)})
    assert rates.of([KEY, TopicPartition("new", 0)]) == (10.0, 200.0)


def test_a_rate_is_of_the_last_minute_and_never_negative() -> None:
    rates = Rates()
    for second in range(0, 200, 10):
        rates.note(second * 1000, {KEY: Ends(0, min(100, second), 100_000 - second)})
    assert rates.of([KEY]) == (0.0, 0.0)


def test_the_address_of_a_page_quotes_what_it_is_made_of() -> None:
    assert link("topics", "a b/c?", "records", text="x&y", limit=None) == "/topics/a%20b%2Fc%3F/records?text=x%26y"
