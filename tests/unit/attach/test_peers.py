"""What an owner does when a process that is attached to it has ended."""

from pathlib import Path

import pytest

import pylog
from pylog.errors import UnreleasedInstanceId
from pylog.files import processes
from support.clients.values import until
from support.other_process import OtherProcess, other_process

pytestmark = pytest.mark.skipif(not processes.can_watch(), reason="the system does not tell of the end of a process")

JOIN = """
import threading
consumer = log.consumer("t", group_id="g", group_protocol={protocol!r}, group_instance_id={instance!r})
owned = set()
def work():
    while True:
        consumer.poll(10)
        owned.update(at.partition for at in consumer.assignment())
threading.Thread(target=work, daemon=True).start()
while len(owned) < 2:
    pass
"""


def join(process: OtherProcess, protocol: str, instance: str | None = None) -> None:
    """Let it be the only member of a group, with both partitions."""
    process.does(JOIN.format(protocol=protocol, instance=instance))


def members(log: pylog.Log) -> list[str]:
    return [member.host for member in log.admin.describe_group("g").members]


@pytest.fixture(params=["classic", "consumer"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_member_in_a_process_that_is_killed_is_gone_at_once(tmp_path: Path, protocol: str) -> None:
    """Its session would be over after 45 seconds, and no test waits that long."""
    with pylog.open(tmp_path / "log", flush="none") as log, other_process(tmp_path / "log") as attached:
        log.create_topic("t", 2)
        join(attached, protocol)
        with log.consumer("t", group_id="g", group_protocol=protocol) as consumer:
            until(lambda: consumer.poll(10) == [] and len(consumer.assignment()) == 1)
            assert sum(host.startswith(f"attached process {attached.pid} ") for host in members(log)) == 1
            attached.kill()
            until(lambda: consumer.poll(10) == [] and len(consumer.assignment()) == 2)
            assert len(members(log)) == 1


def test_a_static_member_in_a_process_that_is_killed_comes_back_at_once(tmp_path: Path, protocol: str) -> None:
    with pylog.open(tmp_path / "log", flush="none") as log, other_process(tmp_path / "log") as attached:
        log.create_topic("t", 2)
        join(attached, protocol, "i")
        attached.kill()
        until(lambda: comes_back(log, protocol))
        assert len(members(log)) == 1


def comes_back(log: pylog.Log, protocol: str) -> bool:
    """Whether a static member gets its partitions. Before its end is noted another one still has its instance id."""
    with log.consumer("t", group_id="g", group_protocol=protocol, group_instance_id="i") as consumer:
        try:
            return until(lambda: consumer.poll(10) == [] and len(consumer.assignment()) == 2)
        except UnreleasedInstanceId:
            return False


def test_members_of_all_processes_that_were_killed_are_gone_for_the_next_owner(tmp_path: Path, protocol: str) -> None:
    path = tmp_path / "log"
    with other_process(path, flush="none") as owner, other_process(path) as attached:
        owner.does("log.create_topic('t', 2)")
        join(attached, protocol)
        attached.stop()
        owner.kill()
        attached.kill()
        with pylog.open(path) as log, log.consumer("t", group_id="g", group_protocol=protocol) as consumer:
            until(lambda: consumer.poll(10) == [] and len(consumer.assignment()) == 2)
            assert len(members(log)) == 1


def test_a_member_whose_process_goes_on_keeps_its_place_when_the_owner_is_killed(tmp_path: Path, protocol: str) -> None:
    path = tmp_path / "log"
    with other_process(path, flush="none") as owner, other_process(path, mode="attach") as attached:
        owner.does("log.create_topic('t', 2)")
        join(attached, protocol)
        generation = owner.says("log.admin.describe_group('g').generation")
        owner.kill()
        with pylog.open(path) as log:
            assert attached.says("log.topics()") == ["t"]
            found = log.admin.describe_group("g")
            assert [len(member.assignment) for member in found.members] == [2]
            assert found.generation == generation


def test_a_process_that_is_not_seen_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PROC", str(tmp_path))
    with pylog.open(tmp_path / "log", flush="none") as log, other_process(tmp_path / "log") as attached:
        log.create_topic("t", 2)
        join(attached, "classic")
        attached.kill()
        assert members(log) == ["/"]
