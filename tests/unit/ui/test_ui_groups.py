"""The pages of groups and of transactions, and what changes them."""

import re

import pytest

import pylog
from pylog.handles.topic_facts import readers_of_topic
from pylog.protocol.batch import encode
from pylog.record import TopicPartition
from pylog.ui import groups, topics
from pylog.ui.application import application
from pylog.ui.sampling import sample
from pylog.ui.security import Policy
from pylog.ui.source import Source
from support.visitor import Visitor
from unit.ui.conftest import PATIENT, pages_of

KEY = TopicPartition("clicks", 0)
HOSTILE = "a/b?<b>&#"
POLL_MS = 30_000
"""The poll ends as soon as there are records."""


def committed(log: pylog.Log, group: str) -> dict[TopicPartition, int]:
    return {key: found.offset for key, found in log.admin.committed(group).items()}


def test_groups_are_listed_with_members_and_lag(pages: Visitor, log: pylog.Log) -> None:
    log.admin.alter_offsets("readers", {KEY: 10})
    assert "readers Empty Classic 0 20" in pages.get("/groups").words


def test_a_log_without_groups_says_how_one_begins(elsewhere: Visitor) -> None:
    assert "There are no groups" in elsewhere.get("/groups").words
    assert "There are no transactions" in elsewhere.get("/transactions").words


def test_groups_beyond_the_first_are_listed_without_lag(
    pages: Visitor, log: pylog.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.admin.alter_offsets("unmeasured", {KEY: 10})
    monkeypatch.setattr(groups, "GROUPS_MAX", 0)
    assert "unmeasured Empty Classic - -" in pages.get("/groups").words


def test_a_group_that_ends_meanwhile_is_listed_without_lag(log: pylog.Log) -> None:
    log.admin.alter_offsets("ending", {KEY: 10})
    (listed,) = (one for one in log.admin.list_groups() if one.group_id == "ending")
    log.admin.delete_group("ending")
    assert groups._line(log.admin, listed).lag is None


def test_a_group_shows_its_members_and_partitions(pages: Visitor, log: pylog.Log) -> None:
    with log.consumer("clicks", group_id="at work", client_id="worker-1", auto_offset_reset="earliest") as consumer:
        assert consumer.poll(POLL_MS)
        words = pages.get("/group?id=at+work").words
    assert "1 member" in words and "worker-1" in words and "clicks:0 clicks:1 clicks:2" in words
    assert pages.get("/group?id=none").status == 404
    assert pages.get("/group").status == 400


def test_a_topic_names_the_groups_that_read_it(pages: Visitor, log: pylog.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.create_topic("read", partitions=2)
    log.topic("read")[1].append([pylog.Record(b"1"), pylog.Record(b"2")])
    assert "No group reads it." in pages.get("/topics/read").words
    log.admin.alter_offsets("<i>behind", {TopicPartition("read", 1): 1, KEY: 1})
    with log.consumer("read", group_id="joined", auto_offset_reset="earliest") as consumer:
        assert consumer.poll(POLL_MS)
        answer = pages.get("/topics/read")
    assert "2 groups, those with the largest lag first" in answer.words and "<i>" not in answer.text
    assert "<i>behind Empty 0 1 joined Stable 1 -" in answer.words
    monkeypatch.setattr(topics, "GROUPS_MAX", 0)
    assert re.search(r"No group reads it\. \d+ groups were not asked", pages.get("/topics/read").words)
    assert readers_of_topic(log, "read", {0: 0, 1: 2}, ["gone"]) == []


def test_a_group_with_a_hostile_name_has_a_page(pages: Visitor, log: pylog.Log) -> None:
    log.admin.alter_offsets(HOSTILE, {KEY: 1})
    assert "/group?id=a%2Fb%3F%3Cb%3E%26%23" in pages.get("/groups").text
    answer = pages.get("/group?id=a%2Fb%3F%3Cb%3E%26%23")
    assert HOSTILE in answer.words and "<b>" not in answer.text


@pytest.mark.parametrize(
    ("form", "offset"),
    [
        ({"way": "earliest"}, 0), ({"way": "latest", "topic": "clicks"}, 30), ({"way": "offset", "value": "7"}, 7),
        ({"way": "shift", "value": "-3"}, 7), ({"way": "time", "value": "1970-01-01T00:16:40.030"}, 10),
        ({"way": "offset", "value": "5", "topic": "clicks:0"}, 5),
    ],
)  # fmt: skip
def test_the_offsets_of_a_group_are_reset(pages: Visitor, log: pylog.Log, form: dict[str, str], offset: int) -> None:
    log.admin.alter_offsets("moved", {KEY: 10})
    answer = pages.post("/group/reset-offsets", {"id": "moved", **form})
    assert (answer.status, answer.headers.get("location")) == (303, "/group?done=offsets-reset&id=moved"), answer.words
    assert committed(log, "moved")[KEY] == offset


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"way": "offset"}, "value is missing"), ({"way": "time"}, "value is missing"), ({"way": "far"}, "not one of"),
        ({"way": "latest", "topic": "clicks:x"}, "partition is 'x'"), ({"way": "shift", "value": "a"}, "value is 'a'"),
    ],
)  # fmt: skip
def test_a_wrong_place_to_go_on_is_told(pages: Visitor, form: dict[str, str], words: str) -> None:
    answer = pages.post("/group/reset-offsets", {"id": "moved", **form})
    assert answer.status == 400 and words in answer.words


def test_a_group_with_members_is_not_moved(pages: Visitor, log: pylog.Log) -> None:
    with log.consumer("clicks", group_id="busy", auto_offset_reset="earliest") as consumer:
        assert consumer.poll(POLL_MS)
        answer = pages.post("/group/reset-offsets", {"id": "busy", "way": "earliest", "topic": "clicks"})
    assert answer.status == 400 and "has members" in answer.words


def test_a_group_forgets_offsets_and_is_deleted(pages: Visitor, log: pylog.Log) -> None:
    log.admin.alter_offsets("old", {KEY: 1, TopicPartition("orders", 0): 2})
    assert pages.post("/group/delete-offsets", {"id": "old", "topic": "clicks"}).status == 303
    assert committed(log, "old") == {TopicPartition("orders", 0): 2}
    assert pages.post("/group/delete-offsets", {"id": "old"}).status == 400

    assert pages.post("/group/delete", {"id": "old", "confirm": "other"}).status == 400
    assert (
        pages.post("/group/delete", {"id": "old", "confirm": "old"}).headers["location"] == "/groups?done=group-deleted"
    )
    assert "old" not in [one.group_id for one in log.admin.list_groups()]


def test_a_share_group_shows_its_members_and_what_is_left(pages: Visitor, log: pylog.Log) -> None:
    log.admin.alter_share_offsets("sharing", {KEY: 10})
    assert "sharing Empty Share 0 20" in pages.get("/groups").words
    assert "sharing Empty 0 20" in pages.get("/topics/clicks").words
    assert sample(Source("data", log)).lags["sharing", "clicks"] == 20
    with log.share_consumer("clicks", group_id="sharing", client_id="worker-1", max_poll_records=20) as consumer:
        assert consumer.poll(POLL_MS)
        words = pages.get("/group?id=sharing").words
    assert "1 member" in words and "worker-1" in words and "clicks:0 clicks:1 clicks:2" in words
    assert "Topic Partition Start End Lag clicks 0 10 30 20" in words and "shifted" not in words
    assert "clicks 0 20 20 20 delivered once" in words
    assert "Nobody has records now." in pages.get("/group?id=sharing").words


def test_a_share_group_of_a_log_that_is_only_read_is_asked_of_its_owner(log: pylog.Log) -> None:
    log.admin.alter_share_offsets("asked", {KEY: 10})
    with pylog.open(log.path, mode="read") as reader:
        blind = Visitor(application(Source("data", reader), Policy(), patience_seconds=PATIENT))
        assert "It is not known here." in blind.get("/group?id=asked").words
        source = Source("data", reader, owner=lambda: pylog.open(log.path, mode="attach"))
        seeing = Visitor(application(source, Policy(), patience_seconds=PATIENT))
        with log.share_consumer("clicks", group_id="asked", max_poll_records=20) as consumer:
            records = consumer.poll(POLL_MS)
            consumer.acknowledge(records[0], "release")
            consumer.commit_sync()
            assert "delivered once none" in seeing.get("/group?id=asked").words
        gone = Source("data", reader, owner=lambda: pylog.open(log.path, mode="own"))
        away = Visitor(application(gone, Policy(), patience_seconds=PATIENT))
        assert "It is not known here." in away.get("/group?id=asked").words


def test_a_share_group_is_reset_and_deleted(pages: Visitor, log: pylog.Log) -> None:
    log.admin.alter_share_offsets("shared", {KEY: 10})
    for form, words in (({"way": "shift", "value": "1"}, "not one of"), ({"way": "offset"}, "value is missing")):
        answer = pages.post("/group/reset-offsets", {"id": "shared", **form})
        assert answer.status == 400 and words in answer.words
    assert pages.post("/group/reset-offsets", {"id": "shared", "way": "offset", "value": "7"}).status == 303
    assert log.admin.share_offsets("shared")[KEY].start_offset == 7
    assert pages.post("/group/delete-offsets", {"id": "shared", "topic": "clicks"}).status == 303
    assert "It has begun nothing." in pages.get("/group?id=shared").words
    assert pages.post("/group/delete", {"id": "shared", "confirm": "shared"}).status == 303
    assert "shared" not in [one.group_id for one in log.admin.list_groups()]


# --- transactions ---------------------------------------------------------------------------------------------------


def test_an_open_transaction_is_shown_and_aborted(pages: Visitor, log: pylog.Log) -> None:
    producer = log.producer(transactional_id="billing")
    producer.begin()
    producer.send("orders", b"x").result()
    assert "billing" in pages.get("/transactions").words
    words = pages.get("/transaction?id=billing").words
    assert "Ongoing" in words and "Open since" in words and "orders:0" in words

    assert pages.post("/transaction/abort", {"id": "billing"}).status == 303
    assert "no transaction is open" in pages.get("/transaction?id=billing&done=aborted").words
    again = pages.post("/transaction/abort", {"id": "billing"})
    assert again.status == 409 and "has no transaction open" in again.words
    with pytest.raises(pylog.errors.PylogError):
        producer.commit()
    producer.close()
    assert pages.get("/transaction?id=none").status == 404


def test_a_hanging_transaction_is_found_and_aborted(pages: Visitor, log: pylog.Log) -> None:
    log.create_topic("stuck")
    batch = encode(
        [(b"x", None, 1, ())], now_ms=1, producer_id=77, producer_epoch=3, base_sequence=0, transactional=True
    )
    log.broker.node.roles.writer("stuck", 0).append(batch, 1)
    assert "stuck 0 77" in pages.post("/transactions/hanging").words

    form = {"topic": "stuck", "partition": "0", "start": "0"}
    assert pages.post("/transactions/abort", form).status == 303
    assert pages.post("/transactions/abort", form).status == 409
    assert "No transaction hangs" in pages.post("/transactions/hanging").words


def test_a_log_that_is_only_read_shows_groups_and_transactions(log: pylog.Log) -> None:
    log.admin.alter_offsets("seen", {KEY: 10})
    with log.producer(transactional_id="closed"):
        pass
    with pylog.open(log.path, mode="read") as reader:
        pages = pages_of(reader, can_write=False)
        assert "seen Empty" in pages.get("/groups").words
        assert "closed" in pages.get("/transactions").words and "--write" in pages.get("/transactions").words
