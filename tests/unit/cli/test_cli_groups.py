"""`pylog group`, `pylog txn` and `pylog config`: what they print, where, and how they end."""

import json
from pathlib import Path

import pytest

import pylog
from pylog import TopicPartition
from pylog.protocol.batch import encode
from pylog.protocol.messages import ProduceRequest, Session
from pylog.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse
from pylog.protocol.messages.transactions import InitProducerIdResponse
from support.command_line import Run, failed, misused, run
from support.messages import add_partitions, end_txn, init_producer_id, join_group, sync_group

__all__ = ["run"]

NOW = 1_700_000_000_000
SESSION = Session("me")


@pytest.fixture
def clicks(run: Run, tmp_path: Path) -> Run:
    """With a topic of three partitions with 10 records each."""
    with pylog.open(tmp_path / "data") as log:
        for view in log.create_topic("clicks", partitions=3):
            view.append([pylog.Record(b"%d" % number, timestamp=NOW + number) for number in range(10)])
    return run


@pytest.fixture
def billing(clicks: Run, tmp_path: Path) -> Run:
    """With a group that has committed 3, 2 and nothing, and no members."""
    with pylog.open(tmp_path / "data") as log:
        log.admin.alter_offsets("billing", {TopicPartition("clicks", 0): 3, TopicPartition("clicks", 1): 2})
    return clicks


def test_a_log_without_groups_and_transactions_says_so(clicks: Run) -> None:
    assert clicks("group", "list").err.startswith("pylog: there are no groups")
    assert clicks("txn", "list").err.startswith("pylog: there are no transactions")
    assert clicks("txn", "hanging").err == "pylog: no transaction hangs\n"
    assert clicks("txn", "producers", "clicks").err == "pylog: no producer is known there\n"
    failed(clicks("group", "describe", "nobody"), "nobody")
    failed(clicks("txn", "describe", "nobody"), "nobody")


def test_groups_are_listed_and_described(billing: Run) -> None:
    assert billing("group", "list").lines[1].split() == ["billing", "Empty", "Classic", "-"]
    assert json.loads(billing("group", "list", "--json").out)["group"] == "billing"
    assert billing("group", "list", "--state", "stable").out == ""
    described = billing("group", "describe", "billing")
    assert described.lines[0] == "group billing: Empty, classic protocol, 0 members"
    assert described.lines[-2].split()[:3] == ["clicks", "0", "3"]
    facts = json.loads(billing("group", "describe", "billing", "--json").out)
    assert [one["committed"] for one in facts["partitions"]] == [3, 2] and facts["members"] == []
    assert facts["lag"] == sum(one["end_offset"] - one["committed"] for one in facts["partitions"])


def test_a_name_does_not_move_the_cursor_or_make_a_line(clicks: Run, tmp_path: Path) -> None:
    """A group may have any text for a name, and a table is read by people on a terminal."""
    with pylog.open(tmp_path / "data") as log:
        log.admin.alter_offsets("a\x1b[31m\nb\u202ec", {TopicPartition("clicks", 0): 3})
    assert clicks("group", "list").lines[1:] == [r"a\x1b[31m\nb\u202ec  Empty  Classic  -"]
    assert json.loads(clicks("group", "list", "--json").out)["group"] == "a\x1b[31m\nb\u202ec"


def test_a_state_without_groups_reads_unlike_a_log_without_groups(billing: Run) -> None:
    assert billing("group", "list", "--state", "stable").err == "pylog: there are no such groups\n"
    assert billing("txn", "list", "--state", "Ongoing").err == "pylog: there are no such transactions\n"
    misused(billing("group", "list", "--state", "stabel"), "'stabel' is not one of")
    misused(billing("txn", "list", "--state", "Open"), "'Open' is not one of")


def test_members_are_shown_while_their_owner_lives(clicks: Run, tmp_path: Path) -> None:
    with pylog.open(tmp_path / "data") as log:
        ask = log.broker.handle
        joined: JoinGroupResponse = ask(join_group("g", protocols=[("range", b"\0\0")]), SESSION).result()
        member = joined.member_id
        synced: SyncGroupResponse = ask(
            sync_group("g", joined.generation_id, member, assignments=[(member, b"odd")]), SESSION
        ).result()
        assert joined.error is synced.error is None
        described = clicks("group", "describe", "g")
        assert described.lines[0] == "group g: Stable, classic protocol, 1 member"
        assert member in described.out and "me" in described.out
        assert json.loads(clicks("group", "describe", "g", "--json").out)["members"][0]["assignment"] == []
        failed(clicks("group", "delete", "g", "--yes"), "is not empty")
        with pytest.raises(pylog.errors.GroupNotEmpty):
            log.admin.reset_offsets("g", "latest", partitions=[TopicPartition("clicks", 0)])
        with pytest.raises(pylog.errors.GroupNotEmpty):
            log.admin.delete_group("g")


@pytest.mark.parametrize(
    ("how", "after"),
    [
        (["--to", "earliest"], "0 0"), (["--to-offset", "1"], "1 1"), (["--shift", "-2"], "1 0"),
        (["--to-time", "2001-01-01"], "0 0"), (["--shift", "1"], "4 3"),
    ],
)  # fmt: skip
def test_a_group_is_sent_elsewhere(billing: Run, tmp_path: Path, how: list[str], after: str) -> None:
    tried = billing("group", "seek", "billing", *how, "--dry-run")
    assert (tried.code, tried.err) == (0, "pylog: nothing was changed: this was a dry run\n")
    assert [line.split()[-1] for line in tried.lines[1:]] == after.split()
    failed(billing("group", "seek", "billing", *how), "--yes")
    assert committed(tmp_path) == [3, 2]
    assert billing("group", "seek", "billing", *how, "--yes").code == 0
    assert committed(tmp_path) == [int(one) for one in after.split()]


def committed(path: Path) -> list[int]:
    with pylog.open(path / "data", mode="read") as log:
        return [one.offset for one in log.admin.committed("billing").values()]


def test_a_group_without_a_valid_target_is_not_moved(billing: Run, tmp_path: Path) -> None:
    assert billing("group", "seek", "billing").code == 2
    assert billing("group", "seek", "billing", "--to", "latest", "--shift", "1").code == 2
    failed(billing("group", "seek", "billing", "--to", "latest", "--topic", "nowhere"), "nowhere")
    failed(billing("group", "seek", "billing", "--to", "latest", "--topic", "clicks:9"), "clicks", "9")
    failed(billing("group", "seek", "nobody", "--to", "latest"), "there is no group")
    done = billing("group", "seek", "billing", "--to", "latest", "--topic", "clicks:2", "--yes")
    assert done.lines[-1].split()[:3] == ["clicks", "2", "-"]
    assert len(committed(tmp_path)) == 3
    failed(billing("group", "seek", "other", "--shift", "1", "--topic", "clicks", "--yes"), "shift")


def test_offsets_and_groups_are_forgotten_when_that_is_meant(billing: Run, tmp_path: Path) -> None:
    failed(billing("group", "delete-offsets", "billing", "--topic", "clicks:1"), "--yes")
    assert billing("group", "delete-offsets", "billing", "--topic", "clicks:1", "--yes").code == 0
    assert committed(tmp_path) == [3]
    failed(billing("group", "delete", "billing"), "--yes")
    both = billing("group", "delete", "billing", "nobody", "--yes")
    assert (both.code, both.out) == (1, "deleted group billing\n") and both.err == "pylog: there is no group 'nobody'\n"
    assert billing("group", "list").out == ""
    failed(billing("group", "delete", "billing", "--yes"), "billing")


def begun(log: pylog.Log, timeout_ms: int = 60_000) -> InitProducerIdResponse:
    """Let a transaction of "tx" be open in clicks-0, whose producer does nothing more."""
    given: InitProducerIdResponse = log.broker.handle(init_producer_id("tx", timeout_ms), SESSION).result()
    # What joins by itself is written down a little later, and who looks at the files would not see it yet.
    joins = add_partitions("tx", given.producer_id, 0, [pylog.TopicPartition("clicks", 0)])
    log.broker.handle(joins, SESSION).result()
    batch = encode(
        [(b"v", None, NOW, ())], now_ms=NOW, producer_id=given.producer_id, producer_epoch=0, base_sequence=0,
        transactional=True,
    )  # fmt: skip
    part = log.broker.handle(ProduceRequest.of("clicks", 0, batch, transactional_id="tx"), SESSION).result()
    assert part.parts[0].error is None
    return given


def test_transactions_and_their_producers_are_shown(clicks: Run, tmp_path: Path) -> None:
    with pylog.open(tmp_path / "data") as log:
        given = begun(log)
        assert clicks("txn", "list").lines[1].split() == ["tx", str(given.producer_id), "Ongoing"]
        described = clicks("txn", "describe", "tx")
        assert "Ongoing" in described.lines[0] and described.lines[1].endswith("in clicks:0")
        facts = json.loads(clicks("txn", "describe", "tx", "--json").out)
        assert facts["partitions"] == [{"topic": "clicks", "partition": 0}]
        assert clicks("txn", "list", "--state", "Empty").out == ""
        log.broker.handle(end_txn("tx", given.producer_id, 0, True), SESSION).result()
    assert json.loads(clicks("txn", "list", "--json").out)["transactional_id"] == "tx"
    known = [json.loads(line) for line in clicks("txn", "producers", "clicks:0", "--json").lines]
    assert [one["current_txn_start_offset"] for one in known if one["producer_id"] == given.producer_id] == [-1]
    assert str(given.producer_id) in clicks("txn", "producers", "clicks").out


def test_an_open_transaction_is_aborted_by_its_id(clicks: Run, tmp_path: Path) -> None:
    with pylog.open(tmp_path / "data") as log:
        end = log.topic("clicks")[0].next_offset
        begun(log, timeout_ms=50_000)
    for odd in ((), ("tx", "--topic", "clicks:0"), ("--topic", "clicks:0"), ("tx", "--start-offset", "1")):
        assert clicks("txn", "abort", *odd, "--yes").code == 2
    failed(clicks("txn", "abort", "nobody", "--yes"), "nobody")
    failed(clicks("txn", "abort", "tx"), "--yes")
    assert json.loads(clicks("topic", "offsets", "clicks:0", "--read-committed", "--json").out)["offset"] == end
    assert clicks("txn", "abort", "tx", "--yes").out == "aborted the transaction of tx, in clicks:0\n"
    failed(clicks("txn", "abort", "tx", "--yes"), "no transaction open")
    assert json.loads(clicks("topic", "offsets", "clicks:0", "--read-committed", "--json").out)["offset"] == end + 2
    assert json.loads(clicks("txn", "describe", "tx", "--json").out)["timeout_ms"] == 50_000


def test_a_hanging_transaction_is_shown_and_aborted(clicks: Run, tmp_path: Path) -> None:
    with pylog.open(tmp_path / "data", config={"transaction.partition.verification.enable": False}) as log:
        end = log.topic("clicks")[0].next_offset
        batch = encode(
            [(b"v", None, NOW, ())], now_ms=NOW, producer_id=7777, producer_epoch=0, base_sequence=0, transactional=True
        )
        assert log.broker.handle(ProduceRequest.of("clicks", 0, batch), SESSION).result().parts[0].error is None
    shown = clicks("txn", "hanging").lines[1].split()
    assert shown[:3] == ["clicks:0", str(end), "7777"]
    assert json.loads(clicks("txn", "hanging", "--topic", "clicks", "--json").out)["producer_id"] == 7777
    assert clicks("txn", "hanging", "--older-than", "2001-01-01").out == ""
    assert clicks("txn", "abort", "--topic", "clicks", "--start-offset", str(end), "--yes").code == 2
    failed(clicks("txn", "abort", "--topic", "clicks:0", "--start-offset", "0", "--yes"), "no transaction hangs")
    where = ("--topic", "clicks:0", "--start-offset", str(end))
    failed(clicks("txn", "abort", *where), "--yes")
    assert clicks("txn", "abort", *where, "--yes").out == "aborted the transaction of producer 7777 in clicks:0\n"
    assert clicks("txn", "hanging").out == ""


def test_offsets_are_listed_by_their_time(clicks: Run) -> None:
    assert [line.split()[2] for line in clicks("topic", "offsets", "clicks").lines[1:]] == ["10", "10", "10"]
    assert clicks("topic", "offsets", "clicks:1", "--at", "earliest").lines[1].split() == ["clicks", "1", "0", "-"]
    at = json.loads(clicks("topic", "offsets", "clicks:0", "--at", str(NOW + 4), "--json").out)
    assert (at["offset"], at["timestamp"]) == (4, NOW + 4)
    assert clicks("topic", "offsets", "clicks:0", "--at", "1m").lines[1].split()[2:] == ["-", "-"]
    assert json.loads(clicks("topic", "offsets", "clicks:0", "--read-committed", "--json").out)["offset"] == 10
    assert clicks("topic", "offsets", "clicks", "--at", "yesterdayish").code == 2
    failed(clicks("topic", "offsets", "clicks:7"), "7")


def test_directories_show_their_partitions(clicks: Run, tmp_path: Path) -> None:
    # The path of a directory may have spaces.
    assert any(
        line.split(f"{tmp_path / 'data'} ")[-1].split()[0] == "clicks-0" for line in clicks("topic", "dirs").lines
    )
    facts = json.loads(clicks("topic", "dirs", "--json").out)
    assert all(part["bytes"] > 0 for part in facts["partitions"] if part["topic"] == "clicks")


def test_configs_are_shown(clicks: Run) -> None:
    assert "max.open.files" in clicks("config", "describe").out
    assert "batch.size (default 262144; a whole number" in clicks("config", "describe", "--producer").out
    assert "auto.offset.reset (default latest; " in clicks("config", "describe", "--consumer").out
    described = [json.loads(line) for line in clicks("config", "describe", "--producer", "--json").lines]
    assert ["linger.ms", "5"] in [[one["name"], one["default"]] for one in described]
    assert clicks("config", "describe", "--topic", "clicks", "--producer").code == 2
    assert json.loads(clicks("config", "describe", "--json").out)["log.segment.bytes"] == "1073741824"
    assert clicks("topic", "alter", "clicks", "--config", "retention.ms=5").code == 0
    shown = clicks("config", "describe", "--topic", "clicks")
    assert ["retention.ms", "5", "set"] in [line.split() for line in shown.lines]
    failed(clicks("config", "describe", "--topic", "nowhere"), "nowhere")
    assert clicks("config", "describe", "--topic", "clicks", "--group", "g").code == 2


def test_configs_of_nodes_and_groups_are_altered(clicks: Run) -> None:
    altered = clicks("config", "alter", "--config", "log.retention.ms=7", "-c", "max.connections=8")
    assert altered.lines == ["altered all nodes: log.retention.ms=7, max.connections=8"]
    assert clicks("config", "alter", "--node", "1", "-c", "max.connections=9").lines == [
        "altered node 1: max.connections=9"
    ]
    shown = [line.split() for line in clicks("config", "describe").lines]
    assert ["log.retention.ms", "7", "set", "on", "all", "nodes"] in shown
    assert ["max.connections", "9", "set", "on", "the", "node"] in shown
    assert clicks("config", "alter", "--delete-config", "log.retention.ms").lines == [
        "altered all nodes: log.retention.ms is not set any more"
    ]
    failed(clicks("config", "alter", "-c", "num.partitions=3"), "Cannot update these configs dynamically")
    altered = clicks("config", "alter", "--group", "etl", "-c", "consumer.session.timeout.ms=50000", "--json")
    assert json.loads(altered.out)["group"] == "etl"
    shown = [line.split() for line in clicks("config", "describe", "--group", "etl").lines]
    assert ["consumer.session.timeout.ms", "50000", "set"] in shown


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--group", "g", "--node", "1", "-c", "a=b"),
        ("-c", "max.connections=1", "--delete-config", "max.connections"),
    ],
)
def test_alterations_that_contradict_themselves_are_wrong_usage(clicks: Run, words: tuple[str, ...]) -> None:
    assert clicks("config", "alter", *words).code == 2
