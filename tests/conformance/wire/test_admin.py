"""Every operation of Kafka's Java admin client."""

from typing import Any

import pytest

from conformance.wire.conftest import Opened, Topics
from conformance.wire.servers import Server
from support.clients.values import ClientError, Sent, until
from support.raw_client import WireClient
from support.wire_requests import Requests, error_of, records

CHANGED = "DYNAMIC_TOPIC_CONFIG"
DEFAULT = "DEFAULT_CONFIG"


def refused(admin: Any, call: str, /, **words: Any) -> str:
    """The error of a call that has to fail."""
    with pytest.raises(ClientError) as raised:
        admin.call(call, **words)
    return raised.value.name


def create(admin: Any, topic: str, partitions: int = 1, *, validate: bool = False, **config: str) -> None:
    dotted = {name.replace("_", "."): value for name, value in config.items()}
    admin.call("createTopic", topic=topic, partitions=partitions, config=dotted, validateOnly=validate)


def configs(admin: Any, topic: str) -> Any:
    return admin.call("describeConfigs", type="TOPIC", name=topic)


def alter(admin: Any, topic: str, *changes: tuple[str, str, str | None], validate: bool = False) -> None:
    admin.call("alterConfigs", type="TOPIC", name=topic, changes=changes, validateOnly=validate)


def test_topic_is_created_described_listed_and_deleted(java: Any, topics: Topics) -> None:
    topic = topics.name()

    create(java, topic, 3, cleanup_policy="compact")

    found = until(lambda: topic in java.call("listTopics") and java.call("describeTopic", topic=topic))
    assert found["partitions"] == [[number, 1, 1, 1] for number in range(3)]
    assert not found["internal"]
    java.call("deleteTopics", topics=[topic])
    until(lambda: topic not in java.call("listTopics"))
    assert refused(java, "describeTopic", topic=topic) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_topic_that_was_deleted_is_another_when_it_is_made_again(java: Any, topics: Topics) -> None:
    topic = topics.create()
    first = java.call("describeTopic", topic=topic)["id"]
    java.call("deleteTopics", topics=[topic])
    until(lambda: topic not in java.call("listTopics"))

    create(java, topic, 2)

    until(lambda: topics.is_led(topic, 2))
    assert java.call("describeTopic", topic=topic)["id"] != first


def test_number_of_partitions_may_be_left_to_the_server(java: Any, topics: Topics) -> None:
    topic = topics.name()
    create(java, topic, -1)
    until(lambda: topics.is_led(topic, 1))


@pytest.mark.parametrize(
    ("name", "partitions", "config", "error"),
    [
        ("a b", 1, {}, "INVALID_TOPIC_EXCEPTION"),
        ("x" * 250, 1, {}, "INVALID_TOPIC_EXCEPTION"),
        ("..", 1, {}, "INVALID_TOPIC_EXCEPTION"),
        ("", 1, {}, "INVALID_TOPIC_EXCEPTION"),
        ("none", 0, {}, "INVALID_PARTITIONS"),
        ("less", -2, {}, "INVALID_PARTITIONS"),
        ("what", 1, {"no_such_config": "1"}, "INVALID_CONFIG"),
        ("text", 1, {"retention_ms": "soon"}, "INVALID_CONFIG"),
        ("range", 1, {"retention_ms": "-2"}, "INVALID_CONFIG"),
    ],
)
def test_topic_is_not_created_from(java: Any, name: str, partitions: int, config: dict[str, str], error: str) -> None:
    with pytest.raises(ClientError) as raised:
        create(java, name, partitions, **config)
    assert raised.value.name == error


def test_topic_that_exists_is_not_created_again(java: Any, topics: Topics) -> None:
    topic = topics.create()
    with pytest.raises(ClientError) as raised:
        create(java, topic)
    assert raised.value.name == "TOPIC_ALREADY_EXISTS"


def test_validation_creates_nothing(java: Any, topics: Topics) -> None:
    topic = topics.name()
    create(java, topic, validate=True)
    assert topic not in java.call("listTopics")


def test_partitions_are_only_added(java: Any, topics: Topics) -> None:
    topic = topics.create(2)

    java.call("createPartitions", topic=topic, count=5)

    until(lambda: topics.is_led(topic, 5))
    assert refused(java, "createPartitions", topic=topic, count=5) == "INVALID_PARTITIONS"
    assert refused(java, "createPartitions", topic=topic, count=3) == "INVALID_PARTITIONS"
    assert refused(java, "createPartitions", topic=topics.name(), count=3) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_configs_are_described_with_their_source(java: Any, topics: Topics) -> None:
    topic = topics.create(retention_ms="1234567", cleanup_policy="compact,delete")

    found = configs(java, topic)

    assert found["retention.ms"][:2] == ["1234567", CHANGED]
    assert found["cleanup.policy"][:2] == ["compact,delete", CHANGED]
    assert found["segment.bytes"][:2] == ["1073741824", DEFAULT]
    assert found["compression.type"][:2] == ["producer", DEFAULT]
    assert not any(is_read_only or is_sensitive for _, _, is_read_only, is_sensitive, _ in found.values())


def test_configs_are_set_deleted_appended_and_subtracted(java: Any, topics: Topics) -> None:
    topic = topics.create()

    alter(java, topic, ("SET", "retention.ms", "1000"), ("APPEND", "cleanup.policy", "compact"))
    until(lambda: configs(java, topic)["retention.ms"][0] == "1000")
    assert configs(java, topic)["cleanup.policy"][0] == "delete,compact"

    alter(java, topic, ("DELETE", "retention.ms", None), ("SUBTRACT", "cleanup.policy", "delete"))
    until(lambda: configs(java, topic)["cleanup.policy"][0] == "compact")
    assert configs(java, topic)["retention.ms"][1] != CHANGED


def test_wrong_configs_change_nothing(java: Any, topics: Topics) -> None:
    topic = topics.create()
    before = configs(java, topic)

    for name, value in [("retention.ms", "soon"), ("no.such", "1"), ("cleanup.policy", "keep")]:
        with pytest.raises(ClientError) as raised:
            alter(java, topic, ("SET", "segment.ms", "77777"), ("SET", name, value))
        assert raised.value.name == "INVALID_CONFIG"
    alter(java, topic, ("SET", "retention.ms", "5"), validate=True)

    assert configs(java, topic) == before


def test_configs_of_an_unknown_topic_are_refused(java: Any, topics: Topics) -> None:
    topic = topics.name()
    assert refused(java, "describeConfigs", type="TOPIC", name=topic) == "UNKNOWN_TOPIC_OR_PARTITION"
    with pytest.raises(ClientError) as raised:
        alter(java, topic, ("SET", "retention.ms", "5"))
    assert raised.value.name == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.parametrize("values", ["delete,compact", "compact,delete", "compact"])
def test_words_of_a_config_stand_in_the_order_in_which_they_were_given(java: Any, topics: Topics, values: str) -> None:
    topic = topics.create(cleanup_policy=values)
    assert configs(java, topic)["cleanup.policy"][0] == values


def test_configs_of_the_broker_are_described(java: Any) -> None:
    found = java.call("describeConfigs", type="BROKER", name="1")
    assert found["group.initial.rebalance.delay.ms"][0] == "0"
    assert found["log.cleaner.backoff.ms"][0] == "200"


@pytest.fixture
def confluent(server: Server) -> Any:
    """The admin client of librdkafka."""
    admin = pytest.importorskip("confluent_kafka.admin", reason="confluent-kafka is absent")
    return Confluent(admin, server.bootstrap_servers)


class Confluent:
    """Configs by the admin client of librdkafka."""

    def __init__(self, library: Any, bootstrap_servers: str) -> None:
        self._library = library
        self._admin = library.AdminClient({"bootstrap.servers": bootstrap_servers})

    def alter(self, kind: str, name: str, *changes: tuple[str, str, str | None]) -> str:
        """The name of the error, or NO_ERROR."""
        entries = [
            self._library.ConfigEntry(
                config, value, incremental_operation=self._library.AlterConfigOpType[operation]
            )
            for operation, config, value in changes
        ]  # fmt: skip
        resource = self._library.ConfigResource(
            self._library.ResourceType[kind], name, incremental_configs=entries
        )  # fmt: skip
        (future,) = self._admin.incremental_alter_configs([resource]).values()
        error = future.exception()
        return "NO_ERROR" if error is None else str(error.args[0].name())

    def config(self, kind: str, name: str, config: str) -> tuple[str, str]:
        """Its value, and where it comes from."""
        resource = self._library.ConfigResource(self._library.ResourceType[kind], name)
        (future,) = self._admin.describe_configs([resource]).values()
        entry = future.result()[config]
        return entry.value, self._library.ConfigSource(entry.source).name.removesuffix("_CONFIG")


def test_configs_of_the_broker_are_altered_while_it_runs(
    confluent: Confluent, topics: Topics, wire: WireClient
) -> None:  # fmt: skip
    topic, name = topics.create(), "log.index.interval.bytes"

    def alter_all(operation: int, value: str | None) -> str:
        # librdkafka knows no resource without a name.
        config = {"name": name, "configOperation": operation, "value": value}
        resource = {"resourceType": 4, "resourceName": "", "configs": [config]}
        (result,) = wire.ask("IncrementalAlterConfigs", {"resources": [resource]})["responses"]
        return error_of(result)

    def of_topic() -> tuple[str, str]:
        return confluent.config("TOPIC", topic, "index.interval.bytes")

    assert alter_all(0, "5000") == "NONE"
    until(lambda: of_topic() == ("5000", "DYNAMIC_DEFAULT_BROKER"))
    assert confluent.alter("BROKER", "1", ("SET", name, "6000")) == "NO_ERROR"
    until(lambda: of_topic() == ("6000", "DYNAMIC_BROKER"))
    until(lambda: confluent.config("BROKER", "1", name) == ("6000", "DYNAMIC_BROKER"))
    assert confluent.alter("BROKER", "1", ("DELETE", name, None)) == "NO_ERROR"
    assert alter_all(1, None) == "NONE"
    until(lambda: of_topic() == ("4096", "DEFAULT"))
    assert alter_all(0, "many") == "INVALID_REQUEST"
    for config, value in (("num.partitions", "3"), (name, "many")):
        assert confluent.alter("BROKER", "1", ("SET", config, value)) == "INVALID_REQUEST"


def test_configs_of_a_group_are_altered_and_its_members_told(
    confluent: Confluent, topics: Topics, wire: WireClient
) -> None:
    topic, group, name = topics.create(), topics.name(), "consumer.heartbeat.interval.ms"
    join = {
        "groupId": group, "memberId": group, "memberEpoch": 0, "rebalanceTimeoutMs": 60_000,
        "subscribedTopicNames": [topic], "topicPartitions": [],
    }  # fmt: skip

    assert confluent.alter("GROUP", group, ("SET", name, "700")) == "NO_ERROR"
    until(lambda: confluent.config("GROUP", group, name) == ("700", "GROUP"))
    assert wire.ask("ConsumerGroupHeartbeat", join)["heartbeatIntervalMs"] == 700
    for value in ("499", "15001", "often"):
        assert confluent.alter("GROUP", group, ("SET", name, value)) == "INVALID_CONFIG"
    assert confluent.alter("GROUP", group, ("DELETE", name, None)) == "NO_ERROR"
    until(lambda: confluent.config("GROUP", group, name)[0] == "500")


def test_resources_with_configs_are_listed(java: Any, topics: Topics) -> None:
    topic = topics.create(retention_ms="1000")
    assert topic in java.call("listConfigResources", type="TOPIC")


def test_records_are_deleted_up_to_an_offset(java: Any, topics: Topics, wire: WireClient) -> None:
    topic = topics.create()
    Requests(wire).produce(topic, records(*[b"x"] * 10))
    where = (topic, 0)

    assert java.call("deleteRecords", partition=where, before=4) == 4

    assert java.call("listOffsets", partition=where, specs=["earliest", "latest"]) == [4, 10]
    assert refused(java, "deleteRecords", partition=where, before=11) == "OFFSET_OUT_OF_RANGE"


def test_tiered_and_local_offsets_are_those_of_a_log_on_one_tier(java: Any, topics: Topics) -> None:
    assert java.call("listOffsets", partition=(topics.create(), 0), specs=["earliestLocal", "latestTiered"]) == [0, -1]


def test_cluster_has_one_node_that_controls_itself(java: Any) -> None:
    found = java.call("describeCluster")
    assert (found["nodes"], found["controller"]) == (1, 1)
    assert found["clusterId"]


def test_log_directories_tell_the_size_of_each_partition(java: Any, topics: Topics, wire: WireClient) -> None:
    topic = topics.create(2)
    data = records(b"x" * 1000)
    assert error_of(Requests(wire).produce(topic, data)) == "NONE"

    found = {(name, number): size for name, number, size, is_future in java.call("describeLogDirs") if not is_future}

    assert found[topic, 0] == len(data)
    assert found[topic, 1] == 0


def test_leader_that_is_preferred_already_needs_no_election(java: Any, topics: Topics) -> None:
    assert refused(java, "electLeaders", partition=(topics.create(), 0)) == "ELECTION_NOT_NEEDED"
    assert refused(java, "electLeaders", partition=(topics.name(), 0)) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_nothing_is_being_reassigned(java: Any) -> None:
    assert java.call("reassignments") == 0


def test_node_leads_its_own_quorum(java: Any) -> None:
    assert java.call("quorum") == 1


def test_offsets_of_a_group_are_set_read_and_deleted(java: Any, topics: Topics) -> None:
    topic, group = topics.create(2), topics.name()

    java.call("alterGroupOffsets", group=group, offsets=[(topic, 0, 5), (topic, 1, 6)])
    assert sorted(java.call("groupOffsets", group=group)) == [[topic, 0, 5], [topic, 1, 6]]
    java.call("deleteGroupOffsets", group=group, partitions=[(topic, 0)])

    assert java.call("groupOffsets", group=group) == [[topic, 1, 6]]
    assert group in [row[0] for row in java.call("listGroups")]
    java.call("deleteGroups", groups=[group])
    assert group not in [row[0] for row in java.call("listGroups")]
    assert refused(java, "deleteGroups", groups=[group]) == "GROUP_ID_NOT_FOUND"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_with_members_is_described_and_not_deleted(
    java: Any, client: Opened, topics: Topics, protocol: str
) -> None:
    if protocol in client.lacks:
        pytest.skip(f"{client.name} has no {protocol}")
    topic, group = topics.create(4), topics.name()
    more = {"group_protocol": "consumer"} if protocol == "consumer" else {}
    consumer = client.consumer(group_id=group, group_instance_id="me", **more)
    consumer.subscribe(topic)
    until(lambda: consumer.poll() or len(consumer.assignment()) == 4)
    consumer.commit({(topic, 0): 1})

    found = java.call("describeGroup", group=group)

    assert (found["state"], found["type"].lower()) == ("Stable", protocol)
    ((member, _, instance, count),) = found["members"]
    assert (instance, count) == ("me", 4)
    assert refused(java, "deleteGroups", groups=[group]) == "NON_EMPTY_GROUP"
    subscribed = refused(java, "deleteGroupOffsets", group=group, partitions=[(topic, 0)])
    assert subscribed == "GROUP_SUBSCRIBED_TO_TOPIC"
    java.call("removeMembers", group=group, instances=["me"])
    # The group is empty, or its member has noticed already and has come back as another one.
    until(lambda: member not in [row[0] for row in java.call("describeGroup", group=group)["members"]])


def test_transactions_are_listed_described_and_aborted(java: Any, client: Opened, topics: Topics) -> None:
    topic, name = topics.create(), topics.name()
    producer = client.producer(transactional_id=name)
    producer.init_transactions()
    producer.begin()
    producer.send(topic, [Sent(b"open")])

    assert [name, "Ongoing"] in java.call("listTransactions")
    found = java.call("describeTransaction", transactionalId=name)
    assert (found["state"], found["partitions"]) == ("Ongoing", [[topic, 0]])
    ((producer_id, epoch, sequence, is_open),) = java.call("describeProducers", partition=(topic, 0))
    assert (sequence, is_open) == (0, True)

    java.call("abortTransaction", partition=(topic, 0), producerId=producer_id, epoch=epoch)

    ((*_, is_open),) = java.call("describeProducers", partition=(topic, 0))
    assert not is_open


def test_fenced_producer_cannot_commit(java: Any, client: Opened, topics: Topics) -> None:
    topic, name = topics.create(), topics.name()
    producer = client.producer(transactional_id=name)
    producer.init_transactions()
    producer.begin()
    producer.send(topic, [Sent(b"open")])

    java.call("fenceProducers", ids=[name])

    with pytest.raises(ClientError):
        producer.commit()
    until(lambda: java.call("describeTransaction", transactionalId=name)["state"] != "Ongoing")
