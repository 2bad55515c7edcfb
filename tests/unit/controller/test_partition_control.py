"""Leaders, leader epochs, replicas and ISRs, decided without a broker."""

import pytest
from hypothesis import given

from pylog.controller.roles import Lead
from pylog.controller.slots import EPOCH_SLOT, EPOCH_SLOTS
from pylog.errors import FencedLeaderEpoch, LogDiverged, NotLeaderOrFollower
from pylog.protocol.metadata_changes import EPOCH_MAX, image_records, take_leadership
from pylog.protocol.metadata_image import MetadataImage, decode_record
from pylog.record import TopicPartition
from support.controlled_cluster import HERE, KEY, STEPS, TOPIC_ID, Cluster, decided, follow, lead


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.create()
    return made


# --- epochs at the first append ---------------------------------------------------------------------------------------


def test_a_new_topic_has_its_epoch_and_nothing_is_written(cluster: Cluster) -> None:
    partitions = cluster.controller.partitions
    assert not partitions.epoch_goes_on(KEY, latest=-1, is_spent=False, at_least=-1)
    assert partitions.take_epoch(KEY, latest=-1, is_new=True, at_least=-1) == []


def test_the_epoch_of_a_clean_close_goes_on(cluster: Cluster) -> None:
    partitions = cluster.controller.partitions
    assert partitions.epoch_goes_on(KEY, latest=0, is_spent=False, at_least=0)
    assert not partitions.epoch_goes_on(KEY, latest=0, is_spent=True, at_least=0)
    assert not partitions.epoch_goes_on(KEY, latest=0, is_spent=False, at_least=1)
    assert not partitions.epoch_goes_on(KEY, latest=1, is_spent=False, at_least=0)


@pytest.mark.parametrize(
    ("latest", "is_new", "at_least", "taken"),
    [(-1, False, -1, 1), (0, True, -1, 1), (0, False, -1, 1), (4, False, -1, 5), (0, True, 7, 7), (-1, True, 1, 1)],
)
def test_an_epoch_is_taken_that_the_log_has_not(
    cluster: Cluster, latest: int, is_new: bool, at_least: int, taken: int
) -> None:
    cluster.commit(cluster.controller.partitions.take_epoch(KEY, latest=latest, is_new=is_new, at_least=at_least))
    assert (cluster.state().leader, cluster.state().leader_epoch) == (1, taken)


def test_where_another_node_has_led_no_epoch_goes_on(cluster: Cluster) -> None:
    partitions = cluster.controller.partitions
    cluster.commit(partitions.follow(follow(3), 0))
    assert not partitions.epoch_goes_on(KEY, latest=3, is_spent=False, at_least=3)
    with pytest.raises(NotLeaderOrFollower, match="node 1 follows node 9 for t-0"):
        partitions.take_epoch(KEY, latest=3, is_new=False, at_least=-1)


def test_a_single_replica_without_a_leader_leads(cluster: Cluster) -> None:
    # As Kafka's controller leaves it when a node stops.
    partitions = cluster.controller.partitions
    cluster.commit(take_leadership(TOPIC_ID, 0, -1))
    assert not partitions.epoch_goes_on(KEY, latest=1, is_spent=False, at_least=-1)
    cluster.commit(partitions.take_epoch(KEY, latest=1, is_new=False, at_least=-1))
    assert (cluster.state().leader, cluster.state().leader_epoch) == (1, 2)


def test_spent_epochs_are_replaced_where_this_node_leads(cluster: Cluster) -> None:
    partitions = cluster.controller.partitions
    gone = {TopicPartition("gone", 0): None, TopicPartition("t", 9): 0}
    assert partitions.end_epochs({KEY: 7, **gone}) == []
    cluster.commit(partitions.end_epochs({KEY: 0}))
    cluster.commit(partitions.end_epochs({KEY: None}))
    assert cluster.state().leader_epoch == 2
    cluster.commit(partitions.follow(follow(3), 0))
    assert partitions.end_epochs({KEY: 3}) == []


@pytest.mark.parametrize("latest", [EPOCH_MAX, EPOCH_MAX - 1])
def test_without_an_epoch_left_nobody_leads(cluster: Cluster, latest: int) -> None:
    partitions = cluster.controller.partitions
    cluster.commit(partitions.lead(lead(latest), 0))
    if latest < EPOCH_MAX:
        cluster.commit(partitions.take_epoch(KEY, latest=latest, is_new=False, at_least=-1))
    with pytest.raises(FencedLeaderEpoch, match="no leader epoch after"):
        partitions.take_epoch(KEY, latest=latest, is_new=False, at_least=-1)
    with pytest.raises(FencedLeaderEpoch, match="no leader epoch after"):
        partitions.lead(lead(EPOCH_MAX + 1), latest)


# --- roles by hand ----------------------------------------------------------------------------------------------------


def test_an_epoch_is_led_by_one_node(cluster: Cluster) -> None:
    partitions = cluster.controller.partitions
    cluster.commit(partitions.follow(follow(5), 0))
    assert (cluster.state().leader, cluster.state().replicas, cluster.state().isr) == (9, [9, 1], [9])
    with pytest.raises(LogDiverged, match="node 1 leads in epoch 5, in which node 9 has led"):
        partitions.lead(lead(5), 5)
    with pytest.raises(LogDiverged, match="node 8 leads in epoch 5"):
        partitions.follow(follow(5, leader=8), 5)
    assert partitions.follow(follow(5), 5) == []
    cluster.commit(partitions.follow(follow(5, counts=True), 5))
    assert cluster.state().isr == [9, 1]


def test_an_epoch_that_is_over_is_refused(cluster: Cluster) -> None:
    with pytest.raises(FencedLeaderEpoch, match="epoch 4 is over, the log is in epoch 5"):
        cluster.controller.partitions.lead(lead(4), 5)
    with pytest.raises(FencedLeaderEpoch, match="the leader is an older one"):
        cluster.controller.partitions.follow(follow(4), 5)


def test_who_joins_is_a_replica_and_in_the_isr_later(cluster: Cluster) -> None:
    partitions = cluster.controller.partitions
    cluster.commit(partitions.lead(lead(1, 2, 3, joining=(3,)), 0))
    assert (cluster.state().replicas, cluster.state().isr) == ([1, 2, 3], [1, 2])
    cluster.commit(partitions.expand_isr(3, [KEY]))
    cluster.commit(partitions.shrink_isr({KEY: frozenset({2})}))
    assert cluster.state().isr == [1, 3] and partitions.expand_isr(3, [KEY]) == []
    assert (cluster.state().leader_epoch, cluster.state().partition_epoch) == (1, 3)


def test_followers_that_come_anew_are_not_in_the_isr(cluster: Cluster) -> None:
    partitions = cluster.controller.partitions
    cluster.commit(partitions.lead(lead(1, 2, 3), 0))
    cluster.commit(partitions.set_followers("t", frozenset({2, 3, 4}), frozenset({3})))
    assert (cluster.state().replicas, cluster.state().isr) == ([1, 2, 3, 4], [1, 2])
    assert partitions.set_followers("t", frozenset({2, 3, 4}), frozenset({3})) == []
    assert (partitions.counted(), partitions.counted(without="t")) == ({2, 3, 4}, set())
    cluster.commit(partitions.follow(follow(9), 1))
    assert partitions.set_followers("t", frozenset({2}), frozenset()) == [] and not partitions.counted()


def test_nodes_that_take_over_from_one_leader_take_different_epochs() -> None:
    taken: list[int] = []
    for node in (1, 2, 3):
        cluster = Cluster(node)
        cluster.commit(cluster.controller.topics.learn(follow(4), [HERE]))
        cluster.commit(cluster.controller.partitions.follow(follow(4), 0))
        epoch = cluster.controller.partitions.unused_epoch(KEY, 4)
        wanted = Lead(topic="t", partition=0, leader_epoch=epoch, replicas=(node,))
        cluster.commit(cluster.controller.partitions.lead(wanted, 4))
        assert cluster.controller.partitions.unused_epoch(KEY, epoch) == epoch + 1
        taken += [epoch, epoch + 1]
    assert taken == [EPOCH_SLOTS * EPOCH_SLOT + node * EPOCH_SLOT + step for node in (1, 2, 3) for step in (0, 1)]


# --- any row of decisions ---------------------------------------------------------------------------------------------


@given(STEPS)
def test_any_row_of_decisions_keeps_what_must_hold(steps: list[tuple[str, int, frozenset[int]]]) -> None:
    cluster, latest = Cluster(), -1
    cluster.create()
    for step, number, nodes in steps:
        before = cluster.state()
        cluster.commit(decided(cluster.controller.partitions, step, before, latest, number, nodes))
        after = cluster.state()
        assert after.leader in after.isr and set(after.isr) <= set(after.replicas) and 1 in after.replicas
        assert len(set(after.replicas)) == len(after.replicas) == len(after.directories)
        assert after.leader_epoch >= before.leader_epoch and after.partition_epoch >= before.partition_epoch
        assert after.leader == before.leader or after.leader_epoch > before.leader_epoch
        assert after == before or after.partition_epoch > before.partition_epoch
        assert HERE in after.directories
        latest = after.leader_epoch if step in ("take", "lead", "follow") else latest
    again = MetadataImage()
    for record in image_records(cluster.image):
        again.apply(decode_record(record))
    assert again.topics == cluster.image.topics
