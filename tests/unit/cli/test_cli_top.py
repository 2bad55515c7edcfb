"""`pylog top`: what it counts, and that it sees what an owner does meanwhile."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pylog
from pylog.cli.top import GroupLag, Sample, View
from pylog.handles.topic_facts import TopicSize
from support.command_line import Run, run

__all__ = ["run"]

SOURCE = str(Path(pylog.__file__).parents[1])


def sample(at_ms: int, topics: list[TopicSize], groups: list[GroupLag]) -> Sample:
    return Sample(at_ms, {one.name: one for one in topics}, {one.name: one for one in groups})


BEFORE = sample(
    10_000,
    [TopicSize("a", 1, 100, 1000, 100), TopicSize("b", 2, 50, 9000, 50), TopicSize("gone", 1, 1, 1, 1)],
    [GroupLag("g", "Stable", 1, 40, 60)],
)
NOW = sample(
    12_000,
    # Retention has taken more from b than came in.
    [TopicSize("a", 1, 500, 5000, 500), TopicSize("b", 2, 40, 8000, 60), TopicSize("new", 1, 7, 70, 7)],
    [GroupLag("g", "Stable", 1, 100, 0), GroupLag("h", "Empty", 0, 10, 5)],
)


def test_rates_are_what_was_added_a_second() -> None:
    view = View(NOW, BEFORE)
    assert [(one["topic"], one["records_per_second"], one["bytes_per_second"]) for one in view.topics()] == [
        ("a", 200.0, 2000.0), ("b", 5.0, 0.0), ("new", None, None),
    ]  # fmt: skip
    assert [(one["group"], one["lag"], one["records_per_second"]) for one in view.groups()] == [
        ("h", 5, None), ("g", 0, 30.0),
    ]  # fmt: skip
    assert {one["records_per_second"] for one in View(NOW, None).topics()} == {None}


def test_a_view_has_a_head_and_two_tables() -> None:
    lines = View(NOW, BEFORE).lines("data", 40)
    assert lines[0] == "pylog top: data, 3 topics, 547 records, 12.8 KiB, 205 records/s"
    assert lines[2].split() == ["topic", "partitions", "records", "size", "in", "bytes", "in"]
    assert lines[3].split() == ["a", "1", "500", "4.9", "KiB", "200", "records/s", "2.0", "KiB/s"]
    assert lines[5].split() == ["new", "1", "7", "70", "B", "-", "-"]
    assert lines[7].split() == ["group", "state", "members", "lag", "out"]
    assert len(View(NOW, BEFORE).lines("data", sys.maxsize)) == 10


def test_a_view_fits_a_small_screen_and_says_what_it_leaves_out() -> None:
    topics = [TopicSize(f"t{number:02}", 1, 1, 1, 1) for number in range(50)]
    groups = [GroupLag(f"g{number:02}", "Empty", 0, 0, 0) for number in range(50)]
    lines = View(sample(0, topics, groups), None).lines("data", 24)
    assert len(lines) <= 24
    assert "and 42 more" in lines and lines[-1] == "and 42 more"
    few = View(sample(0, topics[:2], groups), None).lines("data", 24)
    assert len(few) <= 24 and few[-1].startswith("and ")


def test_what_an_owner_appends_is_seen_and_a_signal_ends_it(tmp_path: Path) -> None:
    with pylog.open(tmp_path / "data", mode="own", flush="none") as log:
        log.create_topic("clicks")
        words = ["top", "--log", str(tmp_path / "data"), "--json", "--interval", "0.1"]
        environment = {**os.environ, "PYTHONPATH": SOURCE}
        with subprocess.Popen(
            [sys.executable, "-m", "pylog", *words], stdout=subprocess.PIPE, env=environment
        ) as process:  # fmt: skip
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["topics"][0]["records"] == 0
            with log.producer() as producer:
                for number in range(10):
                    producer.send("clicks", b"%d" % number)
            log.create_topic("more")
            log.admin.alter_offsets("g", {pylog.TopicPartition("clicks", 0): 4})
            views = (json.loads(line) for line in process.stdout)
            last = next(view for view in views if len(view["topics"]) == 2 and view["groups"])
            process.send_signal(signal.SIGINT)
            assert process.wait(240) == 0
    assert {(one["topic"], one["records"]) for one in last["topics"]} == {("clicks", 10), ("more", 0)}
    assert (last["groups"][0]["group"], last["groups"][0]["lag"]) == ("g", 6)


def test_a_server_and_an_empty_log_are_watched(run: Run, tmp_path: Path) -> None:
    with pylog.serve(":memory:") as server:
        done = run("top", "--bootstrap", server.bootstrap_servers, "-n", "2", "--interval", "0.05")
    assert done.code == 0 and done.out.count("pylog top: ") == 2 and "0 topics, 0 records, 0 B, 0 records/s" in done.out
    assert run("top", "-n", "1").code == 1, "there is no log"
