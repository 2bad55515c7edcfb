"""The command with `--bootstrap`: every one that needs no files, against a server that runs."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pylog
from pylog.server.server import Server
from support.command_line import Done, Run, failed, misused, run

__all__ = ["run"]

Ask = Callable[..., Done]


@pytest.fixture
def server() -> Iterator[Server]:
    with pylog.serve(":memory:") as served:
        yield served


@pytest.fixture
def ask(run: Run, server: Server) -> Ask:
    def call(*args: str, stdin: bytes = b"") -> Done:
        done = run(*args, "--bootstrap", server.bootstrap_servers, stdin=stdin)
        assert done.code == 0, done
        return done

    return call


def test_records_go_in_and_come_out(ask: Ask) -> None:
    ask("topic", "create", "clicks", "-p", "2")
    done = ask("produce", "clicks", "--key-separator", ":", "--codec", "zstd", stdin=b"a:1\nb:2\na:3\n")
    assert "appended 3 records" in done.err
    assert sorted(ask("consume", "clicks", "-b").lines) == ["1", "2", "3"]
    (last,) = ask("consume", "clicks", "--since", "1h", "-n", "1", "--format", "json").lines
    assert json.loads(last)["topic"] == "clicks"


def test_topics_are_listed_described_changed_and_deleted(ask: Ask) -> None:
    assert "there are no topics in 127.0.0.1:" in ask("topic", "list").err
    assert ask("topic", "create", "t", "--config", "retention.ms=5000").lines == ["created topic t with 1 partition"]
    ask("produce", "t", "-q", stdin=b"1\n2\n3\n")
    assert ask("topic", "list", "-q").lines == ["t"]
    described = ask("topic", "describe", "t")
    assert described.lines[0].startswith("topic t: 1 partition, 3 records")
    assert any("retention.ms" in line and "(set)" in line for line in described.lines)
    facts = json.loads(ask("topic", "describe", "t", "--json").out)
    assert facts["overrides"] == {"retention.ms": "5000"}
    (partition,) = facts["partitions"]
    assert (partition["start"], partition["end"], partition["durable"], partition["segments"]) == (0, 3, None, None)
    assert partition["bytes"] > 0 and partition["replicas"] == partition["isr"] == [1]
    ask("topic", "alter", "t", "--delete-config", "retention.ms", "--partitions", "2")
    ask("topic", "trim", "t", "--partition", "0", "--before-offset", "2", "--yes")
    assert json.loads(ask("topic", "offsets", "t:0", "--at", "earliest", "--json").out)["offset"] == 2
    assert [json.loads(line)["partitions"][0]["topic"] for line in ask("topic", "dirs", "--json").lines] == ["t"]
    assert "set" not in {line.split()[-1] for line in ask("config", "describe", "--topic", "t").lines}
    assert json.loads(ask("config", "describe", "--json").out)["num.partitions"] == "1"
    ask("config", "alter", "--config", "max.connections=77")
    assert any(
        line.split()[:3] == ["max.connections", "77", "set"] for line in ask("config", "describe").lines
    )  # fmt: skip
    assert any("consumer.session.timeout.ms" in line for line in ask("config", "describe", "--group", "g").lines)
    assert ask("topic", "delete", "t", "--yes").lines == ["deleted topic t"]


def test_groups_are_listed_described_moved_and_deleted(ask: Ask, server: Server) -> None:
    ask("topic", "create", "t")
    ask("produce", "t", "-q", stdin=b"1\n2\n3\n")
    with pylog.connect(server.bootstrap_servers) as log:
        log.admin.alter_offsets("g", {pylog.TopicPartition("t", 0): 2})
    assert json.loads(ask("group", "list", "--json").out)["group"] == "g"
    assert json.loads(ask("group", "describe", "g", "--json").out)["lag"] == 1
    ask("group", "seek", "g", "--to", "earliest", "--yes")
    assert json.loads(ask("group", "describe", "g", "--json").out)["lag"] == 3
    assert ask("group", "delete", "g", "--yes").lines == ["deleted group g"]


def test_transactions_are_listed_described_and_aborted(ask: Ask, server: Server) -> None:
    ask("topic", "create", "t")
    with pylog.connect(server.bootstrap_servers) as log:
        producer = log.producer(transactional_id="tx")
        producer.begin()
        producer.send("t", b"x").result()
        assert json.loads(ask("txn", "list", "--json").out)["state"] == "Ongoing"
        assert json.loads(ask("txn", "describe", "tx", "--json").out)["partitions"] == [{"topic": "t", "partition": 0}]
        assert json.loads(ask("txn", "producers", "t", "--json").out)["current_txn_start_offset"] == 0
        assert "no transaction hangs" in ask("txn", "hanging").err
        ask("txn", "abort", "tx", "--yes")
        with pytest.raises(pylog.PylogError):
            producer.commit()
        producer.close()
    assert ask("consume", "t", "-b", "--isolation-level", "read_committed").lines == []


def test_users_are_set_listed_and_deleted(ask: Ask) -> None:
    ask("user", "set", "alice", stdin=b"secret\n")
    assert json.loads(ask("user", "list", "--json").out)["user"] == "alice"
    ask("user", "delete", "alice")
    assert "there are no users" in ask("user", "list").err


def test_what_needs_files_says_so(run: Run, server: Server) -> None:
    for words in (("verify",), ("repair",), ("segment", "dump", "x.log"), ("serve",)):
        misused(run(*words, "--bootstrap", server.bootstrap_servers), "needs the files of the log")
        misused(run("--bootstrap", server.bootstrap_servers, *words), "needs the files of the log")
    failed(run("topic", "clean", "--bootstrap", server.bootstrap_servers), "needs the files of the log")


def test_a_server_that_is_not_there_is_one_line_of_error(run: Run) -> None:
    failed(run("topic", "list", "--bootstrap", "127.0.0.1:1"), "no node of the cluster can be reached", "127.0.0.1:1")
    failed(run("topic", "list", "--bootstrap", "nothing"), "is no address")


def test_a_variable_names_the_server(run: Run, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYLOG_BOOTSTRAP", server.bootstrap_servers)
    misused(run("topic", "list"), "PYLOG_LOG and PYLOG_BOOTSTRAP are both set")
    assert run("topic", "create", "here", "--log", str(tmp_path / "here")).code == 0
    monkeypatch.delenv("PYLOG_LOG")
    assert run("topic", "create", "there").code == 0
    assert run("topic", "list", "-q").lines == ["there"]
    assert run("topic", "list", "-q", "--log", str(tmp_path / "here")).lines == ["here"]
    misused(run("verify"), "no log was named")
    failed(run("topic", "list", "--bootstrap", "127.0.0.1:1"), "127.0.0.1:1")


def test_configs_of_the_connection_and_of_clients_are_given_by_name(ask: Ask, run: Run, server: Server) -> None:
    ask("topic", "create", "t", "-X", "client.id=maker")
    ask("produce", "t", "-X", "linger.ms=1", "-X", "request.timeout.ms=9000", "-X", "client.id=a", stdin=b"a\n")
    assert ask("consume", "t", "-b", "-X", "fetch.min.bytes=1", "-X", "socket.connection.setup.timeout.ms=9000").lines
    words = ("consume", "t", "-b", "--bootstrap", server.bootstrap_servers, "-X")
    failed(run(*words, "fetch.min=1"), "fetch.min", "fetch.min.bytes")
    failed(run(*words, "security.protocol=TLS"), "security.protocol='TLS'")
    misused(run(*words, "group_id=g"), "group.id: the command has an option for it")
    failed(run("topic", "list", "--bootstrap", server.bootstrap_servers, "-X", "linger.ms=1"), "linger.ms is not")


def test_two_places_at_once_are_wrong_usage(run: Run, tmp_path: Path) -> None:
    misused(run("topic", "list", "--log", "x", "--bootstrap", "a:1"), "not both")
    misused(run("topic", "list", "--log", "x", "--command-config", "x"), "needs --bootstrap")
    misused(run("produce", "t", "--bootstrap", "a:1", "--flush", "none"), "--flush is for --log")


def test_configs_of_the_connection_are_read_from_a_file(run: Run, server: Server, tmp_path: Path) -> None:
    configs = tmp_path / "client.properties"
    configs.write_text("# a comment\n\nclient.id = me\nrequest.timeout.ms=5000\n")
    words = ("topic", "list", "--bootstrap", server.bootstrap_servers, "--command-config", str(configs))
    assert run(*words).code == 0
    configs.write_text("security.protocol=SASL_SSL\n")
    failed(run(*words), "needs sasl.mechanism")
    configs.write_text("nonsense\n")
    failed(run(*words), "line 1", "is not NAME=VALUE")
    configs.write_bytes(b"\xff\n")
    failed(run(*words), str(configs), "no text in UTF-8")
    failed(run(*words[:-1], str(tmp_path / "gone")), "gone", "No such file")
