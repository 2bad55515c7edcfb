"""Topics, configs, users, nodes and producer ids, decided without a broker."""

from collections.abc import Callable
from uuid import UUID

import pytest

from pylog.controller.roles import Follow
from pylog.controller.slots import ID_SLOT, ID_SLOTS
from pylog.controller.topics import placed
from pylog.errors import (
    DuplicateBrokerRegistration,
    DuplicateResource,
    InconsistentTopicId,
    InvalidConfig,
    InvalidPartitions,
    InvalidRequest,
    InvalidTopic,
    PylogError,
    ResourceNotFound,
    TopicAlreadyExists,
    UnacceptableCredential,
    UnknownTopicOrPartition,
)
from pylog.protocol.messages import (
    NO_ID,
    NODE_DEFAULT,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceChange,
    ResourceType,
)
from pylog.protocol.messages.configs import ConfigChange
from pylog.protocol.messages.users import AlterUserScramCredentialsRequest
from pylog.protocol.metadata_image import UNASSIGNED_DIRECTORY, encode_record
from pylog.protocol.sasl.credentials import ScramMechanism
from pylog.record import TopicPartition
from support.controlled_cluster import BESIDE, HERE, KEY, TOPIC_ID, Cluster

Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
OTHER_ID = UUID(int=78)
GROUPS = "__consumer_offsets"


def follow(partitions: int = 1, topic_id: UUID = TOPIC_ID, topic: str = "t") -> Follow:
    return Follow(
        topic=topic, topic_id=topic_id, partition=0, partitions=partitions, leader=9, leader_epoch=0,
        config={"retention.ms": "5"},
    )  # fmt: skip


# --- topics -----------------------------------------------------------------------------------------------------------


def test_new_partitions_go_where_the_fewest_are() -> None:
    assert placed(3, [HERE, BESIDE], {HERE: 2, UUID(int=5): 1}) == [BESIDE, BESIDE, HERE]
    cluster = Cluster()
    for name, topic_id in (("t", TOPIC_ID), ("u", OTHER_ID)):
        cluster.commit(cluster.controller.topics.create(NewTopic(name, 3), topic_id, [HERE, BESIDE]))
    assert cluster.image.replicas_in == {HERE: 3, BESIDE: 3}


def test_a_topic_of_this_node_is_led_by_it_and_has_a_replica_here() -> None:
    cluster = Cluster()
    records = cluster.controller.topics.create(NewTopic("t", 2, {"retention.ms": "5"}), TOPIC_ID, [HERE])
    assert not cluster.image.topics
    cluster.commit(records)
    topic = cluster.image.topic("t")
    assert (topic.id, topic.config, sorted(topic.partitions)) == (TOPIC_ID, {"retention.ms": "5"}, [0, 1])
    state = cluster.state()
    assert (state.leader, state.leader_epoch, state.replicas, state.isr) == (1, 0, [1], [1])
    assert state.directories == [HERE]
    cluster.create("u", NODE_DEFAULT, OTHER_ID)
    assert len(cluster.image.topic("u").partitions) == 1


@pytest.mark.parametrize(
    ("new", "error"),
    [
        (NewTopic("t"), TopicAlreadyExists),
        (NewTopic("a_b"), InvalidTopic),
        (NewTopic("x/y"), InvalidTopic),
        (NewTopic("u", 0), InvalidPartitions),
        (NewTopic("u", 10_001), InvalidPartitions),
        (NewTopic("u", 1, {"retention.ms": "soon"}), InvalidConfig),
    ],
)
def test_a_topic_that_cannot_be_made_is_refused(new: NewTopic, error: type[PylogError]) -> None:
    cluster = Cluster()
    cluster.create()
    cluster.create("a.b", topic_id=OTHER_ID)
    with pytest.raises(error):
        cluster.controller.topics.create(new, UUID(int=79), [HERE])


def test_a_topic_that_is_made_again_has_the_followers_it_had() -> None:
    cluster = Cluster()
    cluster.create()
    cluster.commit(cluster.controller.partitions.set_followers("t", frozenset({2, 3}), frozenset()))
    cluster.create(GROUPS, topic_id=OTHER_ID)
    assert (cluster.state(TopicPartition(GROUPS, 0)).replicas, cluster.state(TopicPartition(GROUPS, 0)).isr) == (
        [1, 2, 3], [1],
    )  # fmt: skip
    cluster.commit(cluster.controller.topics.delete("t"))
    cluster.create(topic_id=UUID(int=79))
    assert (cluster.state().replicas, cluster.state().isr) == ([1, 2, 3], [1, 2, 3])


def test_a_topic_grows_with_the_followers_and_the_epoch_of_its_partitions() -> None:
    cluster = Cluster()
    cluster.create()
    cluster.commit(cluster.controller.partitions.take_epoch(KEY, latest=4, is_new=True, at_least=-1))
    cluster.commit(cluster.controller.partitions.set_followers("t", frozenset({2}), frozenset()))
    cluster.commit(cluster.controller.topics.grow(NewPartitions("t", 3), [HERE]))
    states = cluster.image.topic("t").partitions
    assert [(state.leader_epoch, state.replicas) for state in states.values()] == [(5, [1, 2])] * 3
    assert states[2].directories == [HERE, UNASSIGNED_DIRECTORY]
    for total in (3, 10_001):
        with pytest.raises(InvalidPartitions):
            cluster.controller.topics.grow(NewPartitions("t", total), [HERE])


def test_topics_of_coordinators_stay_as_they_are() -> None:
    cluster = Cluster()
    cluster.create(GROUPS)
    with pytest.raises(InvalidTopic, match="get more partitions"):
        cluster.controller.topics.grow(NewPartitions(GROUPS, 3), [HERE])
    with pytest.raises(InvalidTopic, match="be deleted"):
        cluster.controller.topics.delete(GROUPS)


@pytest.mark.parametrize(
    "decide",
    [
        lambda controller: controller.topics.delete("t"),
        lambda controller: controller.topics.grow(NewPartitions("t", 3), [HERE]),
        lambda controller: controller.configs.take_topic_config("t", {}),
        lambda controller: controller.partitions.set_followers("t", frozenset(), frozenset()),
    ],
)
def test_a_topic_that_is_not_there_is_refused(decide: Callable[[object], object]) -> None:
    with pytest.raises(UnknownTopicOrPartition):
        decide(Cluster().controller)


def test_a_topic_that_is_followed_is_learned_and_grows_with_its_leader() -> None:
    cluster = Cluster()
    for partitions in (1, 3, 3, 1):
        cluster.commit(cluster.controller.topics.learn(follow(partitions), [HERE]))
    assert cluster.commits == 2
    topic = cluster.image.topic("t")
    assert topic.config == {"retention.ms": "5"}
    assert [state.replicas for state in topic.partitions.values()] == [[9, 1]] * 3
    assert [state.directories for state in topic.partitions.values()] == [[UNASSIGNED_DIRECTORY, HERE]] * 3
    with pytest.raises(InconsistentTopicId):
        cluster.controller.topics.learn(follow(topic_id=OTHER_ID), [HERE])
    with pytest.raises(InvalidTopic):
        cluster.controller.topics.learn(follow(topic="x/y"), [HERE])
    with pytest.raises(InvalidRequest, match="cannot follow itself"):
        Cluster(9).controller.topics.learn(follow(), [HERE])


def test_a_partition_that_moves_keeps_the_directories_of_its_followers() -> None:
    cluster = Cluster()
    cluster.commit(cluster.controller.topics.learn(follow(), [HERE]))
    cluster.commit(cluster.controller.topics.move(KEY, BESIDE))
    assert cluster.state().directories == [UNASSIGNED_DIRECTORY, BESIDE]


def test_a_partition_whose_records_name_no_directories_moves() -> None:
    cluster = Cluster()
    value = {"partitionId": 0, "topicId": TOPIC_ID, "replicas": [2, 1], "isr": [2, 1], "leader": 2, "leaderEpoch": 0}
    topic = encode_record("TopicRecord", {"name": "t", "topicId": TOPIC_ID})
    cluster.commit([topic, encode_record("PartitionRecord", value, 0)])
    assert cluster.state().directories == []
    cluster.commit(cluster.controller.topics.move(KEY, BESIDE))
    assert cluster.state().directories == [UNASSIGNED_DIRECTORY, BESIDE]


# --- configs ----------------------------------------------------------------------------------------------------------


def test_the_configs_of_a_request_are_one_batch_without_those_that_are_wrong() -> None:
    cluster = Cluster()
    cluster.create()
    wanted = [
        ResourceChange(ConfigResource(ResourceType.TOPIC, "t"), [ConfigChange("retention.ms", "7")]),
        ResourceChange(ConfigResource(ResourceType.TOPIC, "u"), [ConfigChange("retention.ms", "7")]),
        ResourceChange(ConfigResource(ResourceType.BROKER, "1"), [ConfigChange("max.connections", "7")]),
        ResourceChange(ConfigResource(ResourceType.BROKER, "2"), [ConfigChange("max.connections", "7")]),
        ResourceChange(ConfigResource(ResourceType.GROUP, "g"), [ConfigChange("consumer.session.timeout.ms", "50000")]),
    ]
    records, errors = cluster.controller.configs.alter(wanted)
    assert [type(error) for error in errors] == [
        type(None), UnknownTopicOrPartition, type(None), InvalidRequest, type(None)
    ]  # fmt: skip
    cluster.commit(records)
    assert (len(records), cluster.image.topic("t").config, len(cluster.image.configs)) == (3, {"retention.ms": "7"}, 2)
    assert cluster.controller.configs.alter([wanted[0]]) == ([], [None])
    unknown = ResourceChange(wanted[0].resource, [ConfigChange("retention.ms", "7", "multiply")])
    assert [type(error) for error in cluster.controller.configs.alter([unknown])[1]] == [InvalidConfig]


def test_a_topic_that_is_followed_takes_configs_that_are_not_known_here() -> None:
    cluster = Cluster()
    cluster.create()
    cluster.commit(cluster.controller.configs.take_topic_config("t", {"of.another.program": "1"}))
    assert cluster.image.topic("t").config == {"of.another.program": "1"}
    assert cluster.controller.configs.take_topic_config("t", {"of.another.program": "1"}) == []


# --- users, nodes, producer ids ---------------------------------------------------------------------------------------


def test_users_are_set_and_removed_and_each_has_its_error() -> None:
    cluster = Cluster()
    sha = ScramMechanism.SHA_256.value

    def alter(*changes: Upsertion | Deletion) -> dict[str, type]:
        records, answer = cluster.controller.users.alter(
            AlterUserScramCredentialsRequest(
                deletions=[one for one in changes if isinstance(one, Deletion)],
                upsertions=[one for one in changes if isinstance(one, Upsertion)],
            )
        )
        cluster.commit(records)
        return {one.user: type(one.error) for one in answer.results}

    def upsertion(user: str, iterations: int = 4096) -> Upsertion:
        return Upsertion(
            name=user, mechanism=sha, iterations=iterations, salt=b"salt", salted_password=b"salted password"
        )

    def deletion(user: str) -> Deletion:
        return Deletion(name=user, mechanism=sha)

    assert alter(upsertion("alice"), upsertion("bob", 1), deletion("carol")) == {
        "carol": ResourceNotFound, "alice": type(None), "bob": UnacceptableCredential
    }  # fmt: skip
    assert [name for name, _ in cluster.image.users] == ["alice"]
    assert alter(deletion("alice"), upsertion("alice")) == {"alice": DuplicateResource}
    assert alter(deletion("alice")) == {"alice": type(None)} and not cluster.image.users


def test_a_follower_is_the_node_of_its_id_as_long_as_it_has_its_directory() -> None:
    cluster = Cluster()
    nodes = cluster.controller.nodes
    cluster.commit(nodes.register(2, HERE, OTHER_ID))
    assert nodes.is_known(2, HERE) and nodes.is_known(2, NO_ID) and nodes.register(2, HERE, OTHER_ID) == []
    with pytest.raises(DuplicateBrokerRegistration):
        nodes.register(2, BESIDE, OTHER_ID)
    assert nodes.unregister([1, 3]) == []
    cluster.commit(nodes.unregister([2]))
    cluster.commit(nodes.register(2, BESIDE, OTHER_ID))
    assert nodes.is_known(2, BESIDE)


def test_producer_ids_are_given_once() -> None:
    cluster = Cluster()
    ids = cluster.controller.producer_ids
    given = []
    for _ in range(2):
        records, block = ids.allocate()
        cluster.commit(records)
        given.append(block)
    assert given == [range(1000), range(1000, 2000)]
    assert ids.reserve(2000) == []
    cluster.commit(ids.reserve(2001))
    assert ids.allocate()[1].start == 2001


def test_nodes_that_take_over_from_one_leader_give_different_producer_ids() -> None:
    firsts = []
    for node in (1, 2, 3):
        cluster = Cluster(node)
        records, first = cluster.controller.producer_ids.take_over(5)
        cluster.commit(records)
        assert cluster.controller.producer_ids.allocate()[1].start == first
        firsts.append(first)
    assert firsts == [ID_SLOTS * ID_SLOT + node * ID_SLOT for node in (1, 2, 3)]
