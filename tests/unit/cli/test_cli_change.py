"""`pylog topic alter | trim | clean | move | delete`."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

import pylog
from pylog import Record, TopicPartition
from pylog.cli import main
from support.patience import HANG_SECONDS


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with pylog.open(tmp_path / "data") as log:
        log.create_topic("users", config={"cleanup.policy": "compact"})
        log.create_topic("clicks", partitions=2)
        for i in range(20):
            log.topic("users")[0].append([Record(b"%d" % i, key=b"k%d" % (i % 3))])
            log.topic("clicks")[0].append([Record(b"%d" % i)])
    return tmp_path / "data"


def run(data: Path, *words: str) -> int:
    return main(["topic", "--log", str(data), *words])


def test_configs_and_partitions_are_altered(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(data, "alter", "clicks", "--config", "retention.ms=1000", "-c", "segment.ms=5000", "-p", "3") == 0
    assert run(data, "alter", "clicks", "--delete-config", "segment.ms") == 0
    out = capsys.readouterr().out
    assert "retention.ms=1000, segment.ms=5000" in out and "3 partitions now" in out and "back to its default" in out
    with pylog.open(data, mode="read") as log:
        assert log.topic("clicks").overrides == {"retention.ms": "1000"} and len(log.topic("clicks")) == 3
    assert run(data, "alter", "clicks", "--config", "retention.mss=1") == 1
    assert "did you mean retention.ms" in capsys.readouterr().err
    assert run(data, "alter", "clicks") == 2


def test_a_config_that_cannot_go_back_to_its_default_is_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(data, "alter", "clicks", "--delete-config", "retention.mss") == 1
    assert "topic clicks has no config retention.mss: did you mean retention.ms?" in capsys.readouterr().err
    assert run(data, "alter", "clicks", "--delete-config", "x") == 1
    assert "pylog config describe --topic clicks" in capsys.readouterr().err
    assert run(data, "alter", "clicks", "-c", "segment.ms=5000", "--delete-config", "segment.ms") == 2
    assert "both name segment.ms" in capsys.readouterr().err
    assert run(data, "alter", "clicks", "--delete-config", "segment_ms") == 0


def test_a_partition_is_trimmed_only_when_that_is_wanted(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(data, "trim", "clicks", "--partition", "0", "--before-offset", "5") == 1
    assert "5 records of clicks-0 before offset 5 cannot be undone" in capsys.readouterr().err
    assert run(data, "trim", "clicks", "--partition", "0", "--before-offset", "5", "--yes") == 0
    assert "starts at offset 5 now" in capsys.readouterr().out
    assert run(data, "trim", "clicks", "--partition", "0", "--yes") == 0
    with pylog.open(data, mode="read") as log:
        assert log.topic("clicks")[0].start_offset == 20
    assert run(data, "trim", "clicks", "--partition", "0", "--before-offset", "50", "--yes") == 1
    assert run(data, "trim", "clicks", "--partition", "7", "--yes") == 1
    assert "no partition 7" in capsys.readouterr().err
    assert run(data, "trim", "users", "--partition", "0", "--yes") == 1


def test_cleaning_says_what_it_did_and_describe_shows_it(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(data, "clean") == 0
    assert "users-0: kept 3 records of 20" in capsys.readouterr().out
    assert run(data, "describe", "users") == 0
    assert "partition 0 was cleaned up to offset 20: 3 records of 20 kept" in capsys.readouterr().out
    assert run(data, "describe", "users", "--json") == 0
    assert '"end_offset":20' in capsys.readouterr().out.replace(" ", "")
    assert run(data, "clean", "users") == 0
    idle = "users-0: nothing was cleaned: nothing was appended since it was cleaned up to offset 20\n"
    assert capsys.readouterr().out == idle
    assert run(data, "clean") == 0
    assert capsys.readouterr().out == idle
    assert run(data, "clean", "clicks") == 0
    assert "nothing to clean: clicks is not compacted" in capsys.readouterr().err
    for name in ("never", "emptied"):
        assert run(data, "create", name, "-c", "cleanup.policy=compact,delete") == 0
    with pylog.open(data) as log:
        log.topic("emptied")[0].append([Record(b"x", key=b"k")])
        log.delete_records({TopicPartition("emptied", 0): 1})
    capsys.readouterr()
    for name in ("never", "emptied"):
        # The second process finds the state that the first one has shown, without a result.
        assert run(data, "clean", name) == run(data, "clean", name) == 0
        assert capsys.readouterr().out.endswith(f"{name}-0: nothing was cleaned: it has no records\n")
        assert run(data, "delete", name, "--yes") == 0
    assert run(data, "delete", "users", "--yes") == run(data, "clean") == 0
    assert "no segment is past its retention, and no compacted topic has records" in capsys.readouterr().err


def test_cleaning_tells_of_the_tombstones_that_wait(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They were there after a cleaning, and nothing said why, or until when."""
    with pylog.open(data) as log:
        log.topic("users")[0].append([Record(None, key=b"k0"), Record(None, key=b"k1"), Record(b"x", key=b"k2")])
    told = []
    for _ in range(2):
        assert run(data, "clean", "users", "--json") == 0
        told.append(json.loads(capsys.readouterr().out))
    first, second = told
    assert (first["tombstones_kept"], first["records_kept"]) == (2, 3)
    assert first["tombstones_until_ms"] > 86_400_000
    assert second == {
        "topic": "users", "partition": 0, "reason": "nothing was appended since it was cleaned up to offset 23",
        "tombstones_kept": 2, "tombstones_until_ms": first["tombstones_until_ms"],
    }  # fmt: skip
    assert run(data, "clean") == 0
    until = datetime.fromtimestamp(first["tombstones_until_ms"] // 1000, UTC).isoformat()[:19]
    assert f"; 2 tombstones kept until {until}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("config", "is_open", "reason"),
    [
        ({"min.compaction.lag.ms": "3600000"}, False, "its new records are younger than min.compaction.lag.ms=3600000"),
        ({}, True, "the records from offset 0 on are of a transaction that is open"),
    ],
)
def test_a_clean_that_does_nothing_says_why(config: dict[str, str], is_open: bool, reason: str) -> None:
    with pylog.open(":memory:", flush="none") as log:
        topic = log.create_topic("t", config={"cleanup.policy": "compact", **config})
        with log.producer(transactional_id="id") as producer:
            producer.begin()
            producer.send("t", b"x", b"k").result(HANG_SECONDS)
            if not is_open:
                producer.commit()
            assert log.clean("t") == {}
            state = topic[0].cleaning
            assert state is not None and state["idle_reason"] == reason
            if is_open:
                producer.abort()


def test_a_partition_is_moved_and_several_directories_are_named_with_commas(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    both = Path(",".join(paths))
    assert run(both, "create", "t", "-p", "2") == 0
    with pylog.open(paths) as log:
        for partition in log.topic("t"):
            partition.append([Record(b"x")])
    assert run(both, "move", "t", "--partition", "0", "--to", paths[1]) == 0
    assert f"t-0 lies in {paths[1]} now" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "b").glob("t-?")} == {"t-0", "t-1"}
    assert run(both, "move", "t", "--partition", "0", "--to", str(tmp_path / "c")) == 1
    assert "not a directory of this log" in capsys.readouterr().err
    assert run(both, "trim", "t", "--partition", "0", "--yes") == 0
    assert run(both, "delete", "t", "--yes") == 0
    assert "t-0 starts at offset 1 now" in capsys.readouterr().out


@pytest.mark.parametrize("words", [("a/b",), ("t", "--config", "retention.mss=5")])
def test_a_topic_that_cannot_be_made_leaves_no_log_behind(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert run(tmp_path / "new", "create", *words) == 1
    assert not (tmp_path / "new").exists()
