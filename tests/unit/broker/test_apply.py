"""A node goes by the changes of the metadata log, of any controller: roles begin, change and end by deltas."""

from uuid import UUID

import pytest
from hypothesis import given

from pylog.broker.replica_manager import EndedRoles, ReplicaManager
from pylog.config import NodeConfig
from pylog.controller.roles import Follow, Lead
from pylog.files import MemoryFiles
from pylog.protocol.messages import ConfigResource, NewTopic, ResourceType
from pylog.protocol.metadata_changes import (
    add_partitions,
    assign_leader,
    change_config,
    change_isr,
    create_topic,
    remove_topic,
    take_leadership,
)
from pylog.protocol.metadata_image import PartitionImage
from pylog.replica import Follower, Leader
from pylog.testing import SimClock
from support.controlled_cluster import KEY, STEPS, TOPIC_ID, decided

OTHER_ID = UUID(int=78)


def opened(files: MemoryFiles | None = None) -> ReplicaManager:
    return ReplicaManager(
        files or MemoryFiles(), ["log"], NodeConfig(), SimClock(), node_id=1, visible_when_durable=False
    )


def with_topic() -> ReplicaManager:
    node = opened()
    node.changes.create_topic(NewTopic("t"))
    return node


def topic_id(node: ReplicaManager) -> UUID:
    return node.image.topic("t").id


def state(node: ReplicaManager) -> PartitionImage:
    return node.image.topic("t").partitions[0]


def given_to(node: ReplicaManager, leader: int, epoch: int, *replicas: int, isr: tuple[int, ...]) -> list[bytes]:
    """The records by which another controller gives the partition these replicas."""
    return assign_leader(
        topic_id(node), 0, state(node), leader=leader, epoch=epoch, replicas=list(replicas), isr=list(isr)
    )


# --- roles ------------------------------------------------------------------------------------------------------------


def test_a_role_that_is_not_held_is_taken_up_at_its_first_use() -> None:
    node = with_topic()
    node.commit(given_to(node, 2, 5, 2, 1, isr=(2,)))
    assert node.roles.held("t", 0) is None
    role = node.roles.role(KEY)
    assert isinstance(role, Follower) and (role.leader, role.epoch) == (2, 5)


def test_a_leader_whose_partition_goes_to_another_node_ends_and_follows() -> None:
    node, ended = with_topic(), EndedRoles()
    leader = node.roles.writer("t", 0)
    node.commit(given_to(node, 2, 5, 2, 1, isr=(2,)), ended)
    role = node.roles.role(KEY)
    assert isinstance(role, Follower) and (role.leader, role.epoch) == (2, 5) and role.partition is leader.partition
    assert ended.roles == [(KEY, leader)] and leader.has_ended

    later = EndedRoles()
    node.commit(change_isr(topic_id(node), 0, [2, 1]), later)
    assert node.roles.role(KEY) is role and not later.roles
    node.commit(given_to(node, 3, 6, 3, 1, isr=(3,)), later)
    assert later.roles == [(KEY, role)] and node.roles.role(KEY).epoch == 6


def test_a_role_does_not_end_where_nobody_hands_over_what_it_owes() -> None:
    node = with_topic()
    leader = node.roles.writer("t", 0)
    with pytest.raises(AssertionError, match="what the role owes would be lost"):
        node.commit(given_to(node, 2, 5, 2, 1, isr=(2,)))
    assert node.roles.role(KEY) is leader and not leader.has_ended


def test_a_follower_that_is_elected_begins_its_epoch_at_the_end_of_the_log() -> None:
    node, ended = with_topic(), EndedRoles()
    node.commit(given_to(node, 2, 5, 2, 1, isr=(2, 1)))
    follower = node.roles.role(KEY)
    node.commit(take_leadership(topic_id(node), 0, 1), ended)
    leader = node.roles.leader(*KEY)
    assert (leader.epoch, leader.isr, leader.partition.epochs.entries) == (6, {2}, [(6, 0)])
    assert ended.roles == [(KEY, follower)] and node.roles.has_followers


def test_a_leader_leads_on_in_a_later_epoch() -> None:
    node = with_topic()
    leader = node.roles.writer("t", 0)
    node.commit(given_to(node, 1, 5, 1, 2, 3, isr=(1, 2)))
    assert node.roles.leader(*KEY) is leader and not leader.has_ended
    assert (leader.epoch, leader.isr, leader.followers) == (5, {2}, {2, 3})
    assert leader.partition.epochs.latest == 5


def test_followers_come_and_go_and_join_and_leave_the_isr() -> None:
    node = with_topic()
    leader = node.roles.writer("t", 0)
    node.commit(given_to(node, 1, 0, 1, 2, 3, isr=(1, 2)))
    assert (leader.isr, leader.followers, leader.epoch) == ({2}, {2, 3}, 0)
    node.commit(change_isr(topic_id(node), 0, [1, 2, 3]))
    assert leader.isr == {2, 3}
    node.commit(change_isr(topic_id(node), 0, [1, 3]))
    assert (leader.isr, leader.followers) == ({3}, {2, 3})


def test_a_leader_that_has_not_appended_has_an_epoch_once_the_metadata_log_raises_it() -> None:
    node = with_topic()
    leader = node.roles.leader(*KEY)
    assert leader.epoch is None
    node.commit(take_leadership(topic_id(node), 0, 1))
    assert leader.epoch == 1 and node.roles.writer(*KEY) is leader and state(node).leader_epoch == 1


def test_a_lead_by_hand_that_changes_nothing_begins_its_epoch() -> None:
    node, ended = with_topic(), EndedRoles()
    commits = node.topics.metadata_log.partition
    assert commits is not None
    before = commits.next_offset
    leader = node.roles.lead(Lead(topic="t", partition=0, leader_epoch=0, replicas=(1,)), ended)
    assert (leader.epoch, leader.partition.epochs.entries) == (0, [(0, 0)])
    assert node.roles.lead(Lead(topic="t", partition=0, leader_epoch=0, replicas=(1,)), ended) is leader
    assert commits.next_offset == before and not ended.roles


def test_a_follower_that_meets_its_leader_again_has_a_role_of_its_own() -> None:
    node = with_topic()
    wanted = Follow(topic="t", topic_id=topic_id(node), partition=0, partitions=1, leader=2, leader_epoch=5)
    roles = [node.roles.follow(wanted, EndedRoles()) for _ in range(2)]
    ended = EndedRoles()
    again = node.roles.follow(wanted, ended)
    assert again not in roles and ended.roles == [(KEY, roles[1])] and state(node).partition_epoch == 1


def test_an_older_topic_of_a_name_is_not_taken_for_the_one_that_is_held() -> None:
    node = with_topic()
    node.commit(create_topic("t", OTHER_ID, {0: [(1, node.directories.ids[0])]}, leader=1))
    leader = node.roles.writer("t", 0)
    assert leader.partition.topic_id == OTHER_ID
    older = next(key for key in node.topics.made if key != OTHER_ID)
    node.commit(take_leadership(older, 0, 2))
    node.commit(remove_topic(older))
    assert node.roles.leader(*KEY) is leader and leader.epoch == 0 and node.topics.topic("t").id == OTHER_ID


@given(STEPS)
def test_a_role_is_what_the_metadata_log_says_after_any_row_of_decisions(
    steps: list[tuple[str, int, frozenset[int]]],
) -> None:
    node = with_topic()
    node.roles.writer("t", 0)
    for step, number, nodes in steps:
        role = node.roles.role(KEY)
        latest = role.partition.epochs.latest
        records = decided(node.topics.controller.partitions, step, state(node), latest, number, nodes)
        ended = EndedRoles()
        node.commit(records, ended)
        now, wanted = node.roles.role(KEY), state(node)
        assert now.epoch == wanted.leader_epoch and now.partition is role.partition
        if isinstance(now, Leader):
            assert wanted.leader == 1
            assert (now.isr, now.followers) == (set(wanted.isr) - {1}, set(wanted.replicas) - {1})
            assert max(now.partition.epochs.latest, 0) == wanted.leader_epoch
        else:
            assert now.leader == wanted.leader == 9
        assert [one for _, one in ended.roles] == ([] if now is role else [role])
        assert now is role or not (isinstance(now, Leader) and isinstance(role, Leader))
    node.close()


# --- topics -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_open", [True, False])
def test_the_roles_and_folders_of_a_removed_topic_go(is_open: bool) -> None:
    files, ended = MemoryFiles(), EndedRoles()
    node = opened(files)
    node.changes.create_topic(NewTopic("t"))
    node.roles.writer("t", 0)
    if not is_open:
        node.close()
        node = opened(files)
    role = node.roles.held("t", 0)
    node.commit(remove_topic(topic_id(node)), ended)
    assert files.stat("log/t-0") is None and node.roles.held("t", 0) is None and "t" not in node.topics.opened
    assert ended.roles == ([] if role is None else [(KEY, role)])
    node.topics.purge(1 << 60)
    assert [name for name in files.list_dir("log") if name.startswith("t-0")] == []


@pytest.mark.parametrize("is_open", [True, False])
def test_a_topic_that_is_removed_and_made_in_one_change_begins_empty(is_open: bool) -> None:
    files = MemoryFiles()
    node = opened(files)
    node.changes.create_topic(NewTopic("t"))
    before = node.roles.writer("t", 0).partition
    if not is_open:
        node.close()
        node = opened(files)
    again = create_topic("t", TOPIC_ID, {0: [(1, node.directories.ids[0])]}, leader=1)
    node.commit(remove_topic(topic_id(node)) + again, EndedRoles())
    partition = node.roles.writer("t", 0).partition
    assert partition is not before and (partition.topic_id, partition.next_offset) == (TOPIC_ID, 0)


def test_an_open_topic_goes_by_new_partitions_and_configs() -> None:
    node = with_topic()
    partition = node.roles.partition("t", 0)
    grown = add_partitions(topic_id(node), {1: [(1, node.directories.ids[0])]}, leader=1)
    node.commit(grown + change_config(ConfigResource(ResourceType.TOPIC, "t"), {"retention.ms": "7"}))
    assert node.roles.writer("t", 1).epoch == 0 and partition.config.retention_ms == 7


@pytest.mark.parametrize("resource", [ConfigResource(ResourceType.TOPIC, "t"), ConfigResource(ResourceType.BROKER, "")])
def test_an_open_topic_is_configured_and_removed_in_one_change(resource: ConfigResource) -> None:
    node = with_topic()
    node.roles.partition("t", 0)
    name = "retention.ms" if resource.type is ResourceType.TOPIC else "log.retention.ms"
    node.commit(change_config(resource, {name: "7"}) + remove_topic(topic_id(node)), EndedRoles())
    assert "t" not in node.topics.opened and not node.topics.directories.has_folder(node.directories.first, KEY)


def test_topics_that_another_node_leads_are_not_new_here() -> None:
    node = with_topic()
    made = topic_id(node)
    node.commit(create_topic("u", OTHER_ID, {0: [(2, UUID(int=0)), (1, node.directories.ids[0])]}, leader=2))
    assert node.topics.made == {made}
