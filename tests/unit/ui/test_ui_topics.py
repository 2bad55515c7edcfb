"""The pages of topics, of the node, and what changes topics."""

import pytest

import pylog
from pylog.handles.topic_facts import Ends
from pylog.record import TopicPartition
from pylog.ui.pages import link
from pylog.ui.rates import Rates
from support.visitor import Visitor
from unit.ui.conftest import pages_of

KEY = TopicPartition("clicks", 0)


def test_topics_are_listed_with_partitions_offsets_and_sizes(pages: Visitor) -> None:
    words = pages.get("/").words
    assert "clicks 3 90" in words and "orders 1 5" in words
    assert "__consumer_offsets" not in words


def test_topics_are_searched_and_internal_ones_shown_on_request(pages: Visitor, log: pylog.Log) -> None:
    log.admin.alter_offsets("a group", {KEY: 1})
    assert "clicks" not in pages.get("/?name=ORD").words
    assert "no such topics" in pages.get("/?name=nothing").words
    assert "__consumer_offsets internal" in pages.get("/?internal=1").words


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
        pages.get("/")
    assert "GET / failed" in caplog.text and "Traceback" in caplog.text and "ZeroDivisionError" in caplog.text


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
