"""The command, run in this process on real directories: what it prints, where, and how it ends."""

import json
import os
import shutil
import tomllib
from pathlib import Path

import pytest

import pylog
from pylog.cli.version import FOR_DEVELOPERS, extras, needs_of
from support.command_line import Run, failed, misused, run

__all__ = ["run"]


@pytest.fixture
def clicks(run: Run) -> Run:
    """With a topic of three partitions and 30 keyed records in it."""
    assert run("topic", "create", "clicks", "--partitions", "3").code == 0
    lines = b"".join(b"user-%d\tvalue %d\n" % (i % 7, i) for i in range(30))
    assert run("produce", "clicks", "--key-separator", r"\t", stdin=lines).code == 0
    return run


# --- usage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        [], ["topic"], ["topic", "create"], ["topic", "list"], ["topic", "describe"], ["topic", "delete"], ["produce"],
        ["consume"], ["segment"], ["segment", "dump"], ["verify"], ["repair"], ["version"],
    ],
)  # fmt: skip
def test_every_command_has_help_with_examples(run: Run, command: list[str]) -> None:
    done = run(*command, "--help")
    assert done.code == 0
    assert "Usage: pylog" in done.out
    if command and command[-1] not in ("topic", "segment", "list", "version"):
        assert "examples:" in done.out


def test_wrong_usage(run: Run) -> None:
    misused(run("nonsense"), "there is no command 'nonsense'")
    misused(run("topic", "create"), "NAME")
    misused(run("topic", "create", "x", "--partitions", "0"), "too few")
    misused(run("consume", "x", "--since", "yesterday"), "is no time")
    misused(run("consume", "x", "--offset", "1", "--from-beginning"), "not allowed")
    misused(run("consume", "x", "--format", "{nothing}"), "is no field")
    misused(run("produce", "x", "--codec", "rar"), "'rar' is not one of 'none', 'gzip'")


def test_a_command_alone_is_its_help(run: Run) -> None:
    """It was wrong usage, in two lines that named no command."""
    for words in ((), ("topic",)):
        assert run(*words).out == run(*words, "--help").out != ""


def test_the_options_of_the_log_stand_in_one_help(run: Run) -> None:
    """They filled nine lines of the help of each command."""
    assert "--command-config FILE" in run("--help").out
    for words in (("topic",), ("topic", "list"), ("consume",)):
        told = run(*words, "--help").out
        assert "the log: --log, --bootstrap, --command-config, -X; see `pylog --help`" in told
        assert told.count("--command-config") == 1
    assert "the log: --log; see `pylog --help`" in run("verify", "--help").out


def test_a_misspelled_word_is_answered_with_what_is_near(run: Run) -> None:
    misused(run("topics"), "there is no command 'topics': did you mean topic or top?")
    misused(run("topic", "lst"), "did you mean list?")
    misused(run("topic", "zzz"), "choose one of create, list, describe")
    misused(run("topic", "create", "x", "--partition", "3"), "--partition", "Did you mean", "--partitions")
    misused(run("consume", "x", "--from-begining"), "Did you mean", "--from-beginning")


def test_no_log_was_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYLOG_LOG")
    misused(run("topic", "list"), "--log", "PYLOG_LOG")


def test_log_before_and_behind_the_command(run: Run, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    assert run("topic", "create", "a", "--log", other).code == 0
    assert run("--log", other, "topic", "list", "-q").lines == ["a"]
    assert json.loads(run("--log", other, "topic", "list", "--json").out) == {
        "topic": "a", "partitions": 1, "records": 0, "bytes": 0,
    }  # fmt: skip
    assert run("topic", "--log", other, "list", "-q").lines == ["a"]
    assert run("topic", "list", "--log", other, "-q").lines == ["a"]
    failed(run("topic", "list"), "data")


def test_version(run: Run) -> None:
    done = run("version")
    assert done.lines[0] == f"pylog {pylog.__version__}"
    assert "kernel" in done.out and "zstd" in done.out
    told = json.loads(run("version", "--json").out)
    assert told["codecs"] == {"none": True, "gzip": True, "snappy": True, "lz4": True, "zstd": True}
    assert {"prometheus", "opentelemetry", "protobuf", "ui", "spark"} <= set(told["extras"])
    assert set(told["extras"]["pandas"]) == {"numpy", "pandas", "pyarrow"}
    assert run("--version").lines == done.lines[:1]


def test_the_extras_are_those_of_the_project_but_for_developers() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert set(extras()) == set(project["optional-dependencies"]) - set(FOR_DEVELOPERS)


def test_an_extra_needs_what_the_extras_below_it_need() -> None:
    needs = [
        "click>=8", 'numpy>=1.26; extra == "arrow"', "pyarrow (>=15,<20) ; extra == 'arrow'",
        'pylog-commitlog[arrow]; extra == "pandas"', 'pandas>=2.2; python_version > "3" and extra == "pandas"',
        'pylog-commitlog[arrow,pandas]; extra == "dev"',
    ]  # fmt: skip
    assert needs_of(["pandas", "arrow", "dev", "none"], needs) == {
        "arrow": ["numpy", "pyarrow"], "none": [], "pandas": ["numpy", "pandas", "pyarrow"],
    }  # fmt: skip


# --- topics ---------------------------------------------------------------------------------------------------------


def test_topics_that_are_deleted_meanwhile_are_left_out(clicks: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pylog.Log, "topics", lambda *_, **__: ["aaa", "clicks", "zzz"])
    for words in (("topic", "list", "--json"), ("topic", "describe", "--json")):
        done = clicks(*words)
        assert done.code == 0 and done.err == ""
        assert [json.loads(line)["topic"] for line in done.lines] == ["clicks"]
    assert clicks("topic", "describe").lines[0].startswith("topic clicks")
    view = json.loads(clicks("top", "-n", "1", "--json").out)
    assert [one["topic"] for one in view["topics"]] == ["clicks"]
    failed(clicks("topic", "describe", "zzz"), "zzz")


def test_create_list_describe_delete(run: Run) -> None:
    done = run("topic", "create", "b", "--partitions", "2", "--config", "retention.ms=604800000")
    assert (done.code, done.lines, done.err) == (0, ["created topic b with 2 partitions"], "")
    assert run("topic", "create", "a").lines == ["created topic a with 1 partition"]
    assert run("topic", "list", "-q").lines == ["a", "b"]
    described = run("topic", "describe", "b")
    assert described.lines[0] == "topic b: 2 partitions, 0 records, 0 B"
    assert any("retention.ms" in line and "604800000 = 7 days  (set)" in line for line in described.lines)
    assert run("topic", "delete", "b", "--yes").lines == ["deleted topic b"]
    assert run("topic", "list", "-q").lines == ["a"]
    run("topic", "delete", "a", "-y")
    done = run("topic", "list")
    assert (done.code, done.out) == (0, "") and "pylog topic create" in done.err


def test_create_of_a_topic_that_exists_leaves_it_if_told(run: Run) -> None:
    assert run("topic", "create", "a", "--partitions", "2").code == 0
    failed(run("topic", "create", "a"), "'a' exists already")
    done = run("topic", "create", "a", "--partitions", "5", "--if-not-exists")
    assert (done.code, done.err) == (0, "") and "stays as it is" in done.out
    assert run("topic", "list", "--json").lines == ['{"topic":"a","partitions":2,"records":0,"bytes":0}']


def test_describe_counts(clicks: Run) -> None:
    lines = clicks("topic", "describe").lines
    assert lines[0].startswith("topic clicks: 3 partitions, 30 records, ")
    head = next(i for i, line in enumerate(lines) if line.split()[:2] == ["partition", "start"])
    rows = [line.split() for line in lines[head + 1 :]]
    assert [row[0] for row in rows] == ["0", "1", "2"]
    assert sum(int(row[2]) for row in rows) == 30
    assert all(row[2] == row[3] == row[4] for row in rows), "durable, and below the high watermark"
    assert len({len(line) for line in lines[head:]}) == 1, "numbers stand in columns"


def test_describe_json(clicks: Run) -> None:
    told = json.loads(clicks("topic", "describe", "clicks", "--json").out)
    assert told["topic"] == "clicks" and told["configs"]["cleanup.policy"] == "delete"
    assert sum(partition["end"] - partition["start"] for partition in told["partitions"]) == 30
    assert all(partition["replicas"] == partition["isr"] == [1] for partition in told["partitions"])
    for partition in told["partitions"]:
        assert sum(segment["bytes"] for segment in partition["segments"]) == partition["bytes"]


def test_topic_errors(clicks: Run) -> None:
    failed(clicks("topic", "create", "clicks"), "clicks", "exists")
    failed(clicks("topic", "create", "a/b"), "a/b")
    failed(clicks("topic", "create", ".."))
    failed(clicks("topic", "create", "x" * 250), "249")
    failed(clicks("topic", "create", "y", "--config", "retention.msec=5"), "retention.msec", "retention.ms")
    failed(clicks("topic", "create", "y", "--config", "retention.ms=soon"), "retention.ms", "soon")
    failed(clicks("topic", "describe", "nothing"), "nothing")
    failed(clicks("topic", "delete", "nothing", "--yes"), "nothing")
    assert clicks("topic", "list", "-q").lines == ["clicks"]


def test_delete_asks(clicks: Run) -> None:
    failed(clicks("topic", "delete", "clicks"), "--yes", "30 records")
    assert clicks("topic", "list", "-q").lines == ["clicks"]


def test_a_directory_that_is_not_there_or_is_a_file(run: Run, tmp_path: Path) -> None:
    for command in (("topic", "list"), ("topic", "describe"), ("consume", "x"), ("verify",), ("produce", "x")):
        failed(run(*command), "data")
    assert not (tmp_path / "data").exists(), "nothing was made"
    (tmp_path / "data").write_text("hello")
    for command in (("topic", "list"), ("topic", "create", "x"), ("consume", "x"), ("verify",), ("produce", "x")):
        failed(run(*command), "data")


# --- produce --------------------------------------------------------------------------------------------------------


def values(run: Run, topic: str = "lines") -> list[str]:
    return run("consume", topic, "--from-beginning").lines


def test_produce_lines_of_standard_input(run: Run) -> None:
    run("topic", "create", "lines")
    done = run("produce", "lines", stdin=b"one\n\nthree\r\nlast without a line feed")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("pylog: appended 4 records (33 B) to lines in ") and done.err.count("\n") == 1
    assert run("consume", "lines", "-b").raw == b"one\n\nthree\r\nlast without a line feed\n"


def test_produce_nothing(run: Run) -> None:
    run("topic", "create", "lines")
    assert "appended 0 records" in run("produce", "lines").err
    assert run("produce", "lines", "--quiet").err == ""


def test_produce_files_keys_headers_codec(run: Run, tmp_path: Path) -> None:
    run("topic", "create", "lines", "--partitions", "4")
    (tmp_path / "a").write_bytes(b"k1:one\nk2:t:wo\n")
    (tmp_path / "b").write_bytes(b"k3:\xff\n")
    done = run(
        "produce",
        "lines",
        str(tmp_path / "a"),
        str(tmp_path / "b"),
        "-K",
        ":",
        "-H",
        "from=test,n=1",
        "-z",
        "zstd",
        "-p",
        "2",
    )
    assert done.code == 0
    told = [json.loads(line) for line in run("consume", "lines", "-b", "--format", "json").lines]
    assert [(t["partition"], t["offset"], t["key"], t["value"]) for t in told] == [
        (2, 0, "k1", "one"), (2, 1, "k2", "t:wo"), (2, 2, "k3", {"base64": "/w=="}),
    ]  # fmt: skip
    assert all(t["headers"] == [["from", "test"], ["n", "1"]] for t in told)
    log = next((tmp_path / "data" / "lines-2").glob("*.log"))
    assert "compresscodec: zstd" in run("segment", "dump", str(log)).out


@pytest.mark.parametrize("flush", ["sync", "interval", "none"])
@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_produce_with_every_promise(run: Run, acks: str, flush: str) -> None:
    run("topic", "create", "lines")
    done = run("produce", "lines", "--acks", acks, "--flush", flush, stdin=b"a\nb\n")
    assert (done.code, values(run)) == (0, ["a", "b"])


def test_the_same_key_goes_to_the_same_partition(clicks: Run) -> None:
    seen: dict[str, set[int]] = {}
    for line in clicks("consume", "clicks", "-b", "--format", "json").lines:
        told = json.loads(line)
        seen.setdefault(told["key"], set()).add(told["partition"])
    assert len(seen) == 7 and all(len(partitions) == 1 for partitions in seen.values())


def test_produce_errors(run: Run, tmp_path: Path) -> None:
    run("topic", "create", "lines")
    failed(run("produce", "other", stdin=b"a\n"), "other", "pylog topic create other")
    failed(run("produce", "lines", "--partition", "1", stdin=b"a\n"), "no partition 1", "it has 1")
    failed(run("produce", "lines", str(tmp_path / "nothing")), "nothing")
    done = run("produce", "lines", "--key-separator", ":", stdin=b"a:1\nb:2\nbad\nc:3\n")
    assert done.code == 1
    assert "line 3" in done.err and "appended 2 records" in done.err
    assert values(run) == ["1", "2"]


def test_a_line_that_is_too_long(run: Run) -> None:
    run("topic", "create", "lines")
    done = run("produce", "lines", "-q", stdin=b"good\n" + b"x" * 1_100_000 + b"\n")
    failed(done, "line 2")
    assert values(run) == ["good"]


def test_a_record_over_the_topics_limit(run: Run) -> None:
    run("topic", "create", "lines", "--config", "max.message.bytes=1000")
    failed(run("produce", "lines", "-q", stdin=b"x" * 5000 + b"\n"), "max.message.bytes")
    assert values(run) == []


def test_a_torn_tail_is_told(clicks: Run, tmp_path: Path) -> None:
    path = a_log(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])
    (tmp_path / "data" / ".kafka_cleanshutdown").unlink()
    assert [line for line in clicks("verify", "--notes").lines if str(path) in line]
    done = clicks("produce", "clicks", "-q", stdin=b"more\n")
    assert done.code == 0
    assert done.err.startswith("pylog: clicks-") and "cut a torn tail of 40 bytes" in done.err
    assert clicks("verify").code == 0
    assert len(clicks("consume", "clicks", "-b").lines) == 31


# --- consume --------------------------------------------------------------------------------------------------------


def test_consume_starts_and_stops_at_the_end(clicks: Run) -> None:
    done = clicks("consume", "clicks")
    assert (done.code, done.out) == (0, "")
    assert "--from-beginning" in done.err and "--follow" in done.err


def test_consume_everything_in_order(clicks: Run) -> None:
    lines = clicks("consume", "clicks", "--from-beginning", "--format", "{partition} {offset} {key} {value}").lines
    assert len(lines) == 30
    for partition in "012":
        offsets = [int(line.split()[1]) for line in lines if line.startswith(partition)]
        assert offsets == list(range(len(offsets)))
    assert {line.split(" ", 2)[2] for line in lines} == {f"user-{i % 7} value {i}" for i in range(30)}


def test_consume_from_offsets(clicks: Run) -> None:
    told = json.loads(clicks("topic", "describe", "clicks", "--json").out)
    partition = max(told["partitions"], key=lambda p: p["end"])
    number, end = str(partition["partition"]), partition["end"]
    lines = clicks("consume", "clicks", "--partition", number, "--offset", "2", "--format", "{offset}").lines
    assert lines == [str(i) for i in range(2, end)]
    lines = clicks("consume", "clicks", "--partition", number, "--offset", "-2", "--format", "{offset}").lines
    assert lines == [str(end - 2), str(end - 1)]
    assert len(clicks("consume", "clicks", "--offset", "-1000").lines) == 30
    assert clicks("consume", "clicks", "-p", number, "-o", str(end)).lines == []
    failed(clicks("consume", "clicks", "-p", number, "-o", str(end + 1)), f"offset {end + 1}", f"[0, {end})")


def test_consume_since(clicks: Run) -> None:
    assert len(clicks("consume", "clicks", "--since", "1h").lines) == 30
    assert clicks("consume", "clicks", "--since", "2999-01-01").lines == []
    assert len(clicks("consume", "clicks", "--since", "1970-01-02T00:00Z").lines) == 30


def test_consume_a_few(clicks: Run) -> None:
    assert len(clicks("consume", "clicks", "-b", "--max-records", "7").lines) == 7
    assert len(clicks("consume", "clicks", "-b", "--max-records", "30", "--follow").lines) == 30
    assert len(clicks("consume", "clicks", "-b", "-n", "1000").lines) == 30


def test_consume_several_topics(clicks: Run) -> None:
    clicks("topic", "create", "lines")
    clicks("produce", "lines", stdin=b"x\n")
    lines = clicks("consume", "clicks", "lines", "clicks", "-b", "--format", "{topic}").lines
    assert sorted(set(lines)) == ["clicks", "lines"] and len(lines) == 31


def test_consume_errors(clicks: Run) -> None:
    failed(clicks("consume", "nothing", "-b"), "nothing", "pylog topic list")
    failed(clicks("consume", "clicks", "-p", "3"), "no partition 3")


def test_looking_beside_an_owner(clicks: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    with pylog.open(path, mode="own") as log, log.producer() as producer:
        producer.send("clicks", b"fresh", partition=0).result()
        assert "fresh" in clicks("consume", "clicks", "-b").lines
        assert "31 records" in clicks("topic", "describe", "clicks").out
        assert clicks("topic", "list", "-q").lines == ["clicks"]
        assert clicks("verify").code == 0


def test_changing_by_an_owner(clicks: Run, tmp_path: Path) -> None:
    with pylog.open(tmp_path / "data", mode="own", flush="none") as log:
        assert clicks("topic", "create", "x").code == 0
        assert clicks("produce", "x", "-q", stdin=b"a\nb\n").code == 0
        assert [record.value for record in log.topic("x")[0].records()] == [b"a", b"b"]
        assert clicks("topic", "delete", "clicks", "--yes").code == 0
        assert log.topics() == ["x"]
        refused = clicks("produce", "x", "--flush", "sync", stdin=b"c\n")
        failed(refused, f"process {os.getpid()}, the owner of", "goes by flush='none'")
        for command in (("topic", "clean", "x"), ("serve",)):
            failed(clicks(*command), f"process {os.getpid()} owns")


# --- segment dump and verify ----------------------------------------------------------------------------------------


def a_log(tmp_path: Path) -> Path:
    return max((tmp_path / "data").glob("clicks-*/*.log"), key=lambda path: path.stat().st_size)


def test_dump(clicks: Run, tmp_path: Path) -> None:
    path = a_log(tmp_path)
    done = clicks("segment", "dump", str(path))
    assert done.code == 0
    assert done.lines[0] == f"Dumping {path}" and done.lines[1].startswith("baseOffset: 0 ")
    assert not any(line.startswith("|") for line in done.lines)
    assert any("payload: value" in line for line in clicks("segment", "dump", "-v", str(path)).lines)
    told = [json.loads(line) for line in clicks("segment", "dump", "--records", "--json", str(path)).lines]
    assert {t["type"] for t in told} == {"batch", "record"}
    assert all(t["value"].startswith("value ") for t in told if t["type"] == "record")


def test_dump_of_every_file_of_a_log(clicks: Run, tmp_path: Path) -> None:
    root = tmp_path / "data"
    paths = [*root.glob("*/*"), *root.glob("*-checkpoint"), root / "meta.properties"]
    assert clicks("segment", "dump", "--records", *map(str, paths)).code == 0
    metadata = next(root.glob("__cluster_metadata-0/*.log"))
    assert '"type":"TOPIC_RECORD"' in clicks("segment", "dump", "-v", str(metadata)).out


def test_dump_of_a_seal_as_json(run: Run, tmp_path: Path) -> None:
    with pylog.open(tmp_path / "data") as log:
        topic_id = log.create_topic("t").id
        log.topic("t")[0].append([pylog.Record(b"v")])
    (seal,) = (tmp_path / "data").glob("t-0/*.pylog-seal")
    (line,) = run("segment", "dump", "--json", str(seal)).lines
    assert json.loads(line)["topic_id"] == str(topic_id) and json.loads(line)["next_offset"] == 1


def test_dump_errors(clicks: Run, tmp_path: Path) -> None:
    failed(clicks("segment", "dump", str(tmp_path / "00000000000000000000.log")), "00000000000000000000.log")
    (tmp_path / "notes.txt").write_text("hello")
    failed(clicks("segment", "dump", str(tmp_path / "notes.txt")), "notes.txt", "checkpoint")


def test_verify_of_a_sound_log(clicks: Run) -> None:
    done = clicks("verify", "--notes")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("pylog: checked ") and "30 records" not in done.err and "no problems" in done.err
    assert "30 records" in clicks("verify", "--topic", "clicks").err
    failed(clicks("verify", "--topic", "nothing"), "nothing", "clicks")


def test_verify_of_a_topic_without_records_finds_nothing(clicks: Run) -> None:
    assert clicks("topic", "create", "new").code == 0
    done = clicks("verify", "--topic", "new")
    assert (done.code, done.out) == (0, "") and "topic new has no records" in done.err


def test_verify_of_a_topic_whose_folders_are_lost_fails(clicks: Run, tmp_path: Path) -> None:
    for folder in (tmp_path / "data").glob("clicks-*"):
        shutil.rmtree(folder)
    failed(clicks("verify", "--topic", "clicks"), "clicks-")


def test_verify_names_the_damage(clicks: Run, tmp_path: Path) -> None:
    path = a_log(tmp_path)
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(bytes(data))
    done = clicks("verify")
    assert done.code == 1
    assert len(done.lines) == 1 and str(path) in done.out and "position" in done.out and "offset" in done.out
    assert done.err.endswith(": 1 problem\n")
    told = [json.loads(line) for line in clicks("verify", "--json").lines]
    assert [t["type"] for t in told] == ["problem", "totals"]
    assert told[0]["path"] == str(path) and told[1]["problems"] == 1
    dumped = clicks("segment", "dump", str(path))
    assert dumped.code == 1 and "isvalid: false" in dumped.out


def test_files_and_topics_may_stand_behind_options(clicks: Run, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n")
    (tmp_path / "b").write_bytes(b"2\n")
    assert clicks("topic", "create", "-p", "1", "late").code == 0
    done = clicks("produce", "late", "--codec", "zstd", str(tmp_path / "a"), "-q", str(tmp_path / "b"))
    assert (done.code, done.err) == (0, "")
    assert clicks("consume", "late", "--from-beginning", "clicks").out.count("\n") == 32
    assert clicks("produce", "late", "--nope", "a").code == 2


def test_an_error_in_a_line_of_standard_input_says_so(clicks: Run) -> None:
    failed(clicks("produce", "clicks", "-q", "--key-separator", ":", stdin=b"a:1\nb\n"), "standard input, line 2")
