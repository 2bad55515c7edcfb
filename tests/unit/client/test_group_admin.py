"""Groups as the admin sees them: several at once, subscriptions and epochs, and members that are taken out."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog.errors import GroupIdNotFound, UnknownMemberId
from pylog.protocol.messages import Session
from pylog.record import TopicPartition
from support.clients.values import until
from support.messages import join_group, sync_group
from support.other_process import other_process

T0 = TopicPartition("t", 0)


@pytest.fixture(params=["in process", "connected", "attached"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with ExitStack() as opened:
        if request.param == "attached":
            opened.enter_context(other_process(tmp_path / "log"))
            log: Any = opened.enter_context(pylog.open(tmp_path / "log", mode="attach"))
        else:
            log = opened.enter_context(pylog.open(":memory:"))
        if request.param == "connected":
            server = opened.enter_context(log.serve())
            log = opened.enter_context(pylog.connect(server.bootstrap_servers))
        log.create_topic("t")
        yield log


def joined(consumer: Any) -> None:
    until(lambda: consumer.poll(10) is None or consumer.assignment())


def test_groups_are_described_together_with_what_members_subscribe_to(log: Any) -> None:
    with log.consumer("t", group_id="old") as old, log.consumer("t", group_id="new", group_protocol="consumer") as new:
        joined(old)
        joined(new)
        found = log.admin.describe_groups(["old", "new", "none", "old"])

    assert list(found) == ["old", "new", "none"]
    assert isinstance(found["none"], GroupIdNotFound)
    (classic,), (member,) = found["old"].members, found["new"].members
    assert (classic.subscription, classic.assignment) == (("t",), (T0,))
    assert classic.epoch is classic.target_assignment is found["old"].assignment_epoch is None
    assert (member.subscription, member.assignment, member.target_assignment) == (("t",), (T0,), (T0,))
    assert member.epoch == found["new"].assignment_epoch == found["new"].generation > 0
    assert member.subscription_regex is None and member.upgraded


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_static_members_are_taken_out_by_name_and_all_by_none(log: Any, protocol: Any) -> None:
    with log.consumer("t", group_id="g", group_instance_id="one", group_protocol=protocol) as consumer:
        joined(consumer)
        with pytest.raises(UnknownMemberId):
            log.admin.remove_group_members("g", ["two"])
        log.admin.remove_group_members("g", ["one"])
        assert log.admin.describe_group("g").members == ()
        log.admin.remove_group_members("g")
    with log.consumer("t", group_id="h", group_instance_id="one", group_protocol=protocol) as consumer:
        joined(consumer)
        log.admin.remove_group_members("h")
        assert log.admin.describe_group("h").members == ()
    with pytest.raises(GroupIdNotFound):
        log.admin.remove_group_members("none")
    with pytest.raises(TypeError, match="a list of names"):
        log.admin.remove_group_members("g", "one")


def test_a_member_that_is_not_static_is_taken_out_of_a_group_of_either_protocol(log: Any) -> None:
    with log.consumer("t", group_id="old") as old, log.consumer("t", group_id="new", group_protocol="consumer") as new:
        joined(old)
        joined(new)
        for group in ("old", "new"):
            log.admin.remove_group_members(group)
            assert log.admin.describe_group(group).members == ()


@pytest.mark.parametrize("kind", ["consumer", "connect"])
def test_what_other_clients_say_of_themselves_is_left_out(kind: str) -> None:
    with pylog.open(":memory:") as log:
        ask, session = log.broker.handle, Session("c", "h")
        answer: Any = ask(join_group("g", protocol_type=kind, protocols=[("x", b"\xff")]), session).result()
        given = [(answer.member_id, b"\xff")]
        ask(sync_group("g", answer.generation_id, answer.member_id, assignments=given), session).result()
        group = log.admin.describe_group("g")

    assert (group.state, group.protocol_type) == ("Stable", kind)
    assert [(one.subscription, one.assignment) for one in group.members] == [((), ())]
