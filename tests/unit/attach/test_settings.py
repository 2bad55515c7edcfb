from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog.errors import SettingsDiffer

OWNERS: dict[str, Any] = {"flush": "none", "config": {"num.partitions": 3, "log.segment.bytes": 2 << 20}, "node_id": 5}


@pytest.mark.parametrize(
    "asked",
    [
        {}, {"flush": "none"}, {"node_id": 5}, {"config": {"num.partitions": 3}}, {"config": {"num_partitions": "3"}},
        {"config": {"log.segment.bytes": 2 << 20}}, OWNERS,
    ],
)  # fmt: skip
def test_settings_of_the_owner_are_taken(tmp_path: Path, asked: dict[str, Any]) -> None:
    with pylog.open(tmp_path, **OWNERS), pylog.open(tmp_path, **asked) as log:
        assert (log.mode, log.node_id) == ("attach", 5)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"flush": "sync"}, "asks for flush='sync', but process .* goes by flush='none'"),
        ({"node_id": 6}, "node_id=6.* node_id=5"),
        ({"config": {"num.partitions": 4}}, "num.partitions=4.* num.partitions=3"),
        ({"config": {"num.partitions": 1}}, "num.partitions=1.* num.partitions=3"),
        ({"config": {"log.segment.bytes": 3 << 20}}, "log.segment.bytes=3145728.* log.segment.bytes=2097152"),
        ({"config": {"max.connections": 9}, "flush": "interval"}, "flush='interval' and max.connections=9"),
    ],
)
def test_other_settings_are_refused(tmp_path: Path, asked: dict[str, Any], words: str) -> None:
    with pylog.open(tmp_path, **OWNERS), pytest.raises(SettingsDiffer, match=words):
        pylog.open(tmp_path, **asked)


def test_another_list_of_directories_is_refused(tmp_path: Path) -> None:
    both = [tmp_path / "a", tmp_path / "b"]
    with pylog.open(both):
        with pylog.open(both) as log:
            assert log.mode == "attach"
        for other in ([tmp_path / "a"], [tmp_path / "a", tmp_path / "c"]):
            with pytest.raises(SettingsDiffer, match="path="):
                pylog.open(other)


def test_the_directory_may_have_another_path(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "log", target_is_directory=True)
    with pylog.open(tmp_path / "log"), pylog.open(tmp_path / "link") as log:
        assert log.mode == "attach"
        assert len(log.create_topic("t")) == 1
