"""confluent-kafka (librdkafka) against our server, in this process: records, groups, transactions, admin."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

import pylog
from pylog.server.server import Server

SECONDS = 30
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


# Members hear of each other at their next heartbeat.
HEARTBEATS = {"group.consumer.heartbeat.interval.ms": 100, "group.consumer.min.heartbeat.interval.ms": 100}


@pytest.fixture
def server() -> Iterator[Server]:
    with pylog.serve(config=HEARTBEATS) as made:
        yield made


def producer(server: Server, **config: Any) -> Producer:
    return Producer({"bootstrap.servers": server.bootstrap_servers, "linger.ms": 1, **config})


def consumer(server: Server, group: str = "g", **config: Any) -> Consumer:
    return Consumer({
        "bootstrap.servers": server.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest", **config,
    })  # fmt: skip


def admin(server: Server) -> AdminClient:
    return AdminClient({"bootstrap.servers": server.bootstrap_servers})


def create_topic(server: Server, partitions: int) -> None:
    client = admin(server)  # one that is collected fails its futures
    client.create_topics([NewTopic("t", partitions, 1)])["t"].result(SECONDS)


def send(server: Server, topic: str, values: list[bytes], **config: Any) -> None:
    sender = producer(server, **config)
    for value in values:
        sender.produce(topic, value, key=value, headers=[("h", b"x")])
    assert sender.flush(SECONDS) == 0


def read(reader: Consumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    deadline = time.monotonic() + SECONDS
    while len(values) < count and time.monotonic() < deadline:
        for message in reader.consume(count, 0.2):
            assert message.error() is None, message.error()
            values.append(message.value())
    return values


# --- records ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotent", [False, True])
def test_records_of_every_codec_come_back(server: Server, codec: str, idempotent: bool) -> None:
    values = [b"%d" % number * 20 for number in range(500)]
    send(server, "t", values, **{"compression.type": codec, "enable.idempotence": idempotent})

    reader = consumer(server)
    reader.assign([TopicPartition("t", 0, 0)])
    found = read(reader, len(values))
    reader.close()

    assert found == values


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_records_of_all_acks_are_stored(server: Server, acks: object) -> None:
    send(server, "t", [b"a", b"b"], acks=acks)

    reader = consumer(server)
    reader.assign([TopicPartition("t", 0, 0)])
    assert read(reader, 2) == [b"a", b"b"]
    reader.close()


def test_records_are_durable_and_read_from_files(tmp_path: Path) -> None:
    values = [b"%06d" % number * 50 for number in range(2000)]
    with pylog.serve(tmp_path / "log") as server:
        send(server, "t", values)
        reader = consumer(server)
        reader.subscribe(["t"])
        assert read(reader, len(values)) == values
        reader.close()

    with pylog.open(tmp_path / "log", mode="read") as log:
        assert [record.value for record in log.topic("t")[0].records(0)] == values


def test_a_client_goes_on_when_the_server_comes_back(tmp_path: Path) -> None:
    with pylog.serve(tmp_path / "log") as server:
        address = server.bootstrap_servers
        sender = producer(server)
        sender.produce("t", b"a")
        assert sender.flush(SECONDS) == 0
    sender.produce("t", b"b")

    with pylog.serve(tmp_path / "log", address) as server:
        assert sender.flush(SECONDS) == 0
        reader = consumer(server)
        reader.subscribe(["t"])
        assert read(reader, 2) == [b"a", b"b"]
        reader.close()


def test_offsets_are_found_by_time(server: Server) -> None:
    sender = producer(server)
    for number in range(5):
        sender.produce("t", b"v", timestamp=1000 + number)
    sender.flush(SECONDS)
    reader = consumer(server)

    found = reader.offsets_for_times([TopicPartition("t", 0, 1003)], SECONDS)

    assert [one.offset for one in found] == [3]
    assert reader.get_watermark_offsets(TopicPartition("t", 0), SECONDS) == (0, 5)
    reader.close()


# --- groups -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_two_members_share_partitions_and_commit(server: Server, protocol: str) -> None:
    create_topic(server, 4)
    values = [b"%d" % number for number in range(200)]
    config = {"group.protocol": protocol, **({"heartbeat.interval.ms": 100} if protocol == "classic" else {})}
    members = [consumer(server, **config) for _ in range(2)]
    for member in members:
        member.subscribe(["t"])
    deadline = time.monotonic() + SECONDS
    while any(len(member.assignment()) != 2 for member in members) and time.monotonic() < deadline:
        for member in members:
            member.poll(0.02)
    send(server, "t", values)

    found: list[bytes] = []
    while len(found) < len(values) and time.monotonic() < deadline:
        for member in members:
            found += [message.value() for message in member.consume(100, 0.1)]

    assert sorted(found) == sorted(values)
    assert sorted(key.partition for member in members for key in member.assignment()) == [0, 1, 2, 3]
    for member in members:
        member.commit(asynchronous=False)
        member.close()
    after = consumer(server, **{"group.protocol": protocol})
    keys = [TopicPartition("t", number) for number in range(4)]
    assert sum(one.offset for one in after.committed(keys, SECONDS)) == len(values)
    after.close()


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_a_group_of_each_assignor_reads_everything(server: Server, assignor: str) -> None:
    create_topic(server, 3)
    values = [b"%d" % number for number in range(50)]
    send(server, "t", values)
    member = consumer(server, **{"partition.assignment.strategy": assignor})
    member.subscribe(["t"])

    assert sorted(read(member, len(values))) == sorted(values)
    member.close()


def test_a_static_member_comes_back_to_its_partitions(server: Server) -> None:
    send(server, "t", [b"a"])
    static = {"group.instance.id": "one"}
    member = consumer(server, **static)
    member.subscribe(["t"])
    assert read(member, 1) == [b"a"]
    member.commit(asynchronous=False)
    member.close()

    again = consumer(server, **static)
    again.subscribe(["t"])
    send(server, "t", [b"b"])
    assert read(again, 1) == [b"b"]
    again.close()


# --- transactions -----------------------------------------------------------------------------------------------------


def test_only_committed_transactions_are_read(server: Server) -> None:
    sender = producer(server, **{"transactional.id": "tx"})
    sender.init_transactions(SECONDS)
    for number in range(6):
        sender.begin_transaction()
        for _ in range(3):
            sender.produce("t", b"%d" % number)
        if number % 2:
            sender.abort_transaction(SECONDS)
        else:
            sender.commit_transaction(SECONDS)

    reader = consumer(server, **{"isolation.level": "read_committed"})
    reader.assign([TopicPartition("t", 0, 0)])
    assert read(reader, 9) == [b"0"] * 3 + [b"2"] * 3 + [b"4"] * 3
    reader.close()


def test_offsets_are_committed_with_a_transaction_alone(server: Server) -> None:
    send(server, "in", [b"a", b"b", b"c"])
    reader = consumer(server)
    sender = producer(server, **{"transactional.id": "tx"})
    sender.init_transactions(SECONDS)
    for offset, commits in ((1, False), (2, True)):
        sender.begin_transaction()
        sender.produce("out", b"%d" % offset)
        sender.send_offsets_to_transaction(
            [TopicPartition("in", 0, offset)], reader.consumer_group_metadata(), SECONDS
        )  # fmt: skip
        if commits:
            sender.commit_transaction(SECONDS)
        else:
            sender.abort_transaction(SECONDS)

    assert [one.offset for one in reader.committed([TopicPartition("in", 0)], SECONDS)] == [2]
    reader.close()


def test_a_second_producer_fences_the_first(server: Server) -> None:
    first, second = (producer(server, **{"transactional.id": "tx"}) for _ in range(2))
    first.init_transactions(SECONDS)
    first.begin_transaction()
    first.produce("t", b"lost")
    first.flush(SECONDS)
    second.init_transactions(SECONDS)

    with pytest.raises(KafkaException) as caught:
        first.commit_transaction(SECONDS)

    assert caught.value.args[0].code() == KafkaError._FENCED
    second.begin_transaction()
    second.produce("t", b"kept")
    second.commit_transaction(SECONDS)
    reader = consumer(server, **{"isolation.level": "read_committed"})
    reader.assign([TopicPartition("t", 0, 0)])
    assert read(reader, 1) == [b"kept"]
    reader.close()


# --- admin ------------------------------------------------------------------------------------------------------------


def test_topics_are_made_described_and_deleted(server: Server) -> None:
    client = admin(server)
    made = client.create_topics([NewTopic("t", 3, 1, config={"retention.ms": "1000"}), NewTopic("many", 1, 3)])
    made["t"].result(SECONDS)
    with pytest.raises(KafkaException, match="3 replicas"):
        made["many"].result(SECONDS)
    client.create_partitions([NewPartitions("t", 5)])["t"].result(SECONDS)

    assert len(client.list_topics("t", SECONDS).topics["t"].partitions) == 5
    assert len(client.describe_topics(TopicCollection(["t"]))["t"].result(SECONDS).partitions) == 5
    client.delete_topics(["t"])["t"].result(SECONDS)
    assert "t" not in client.list_topics(timeout=SECONDS).topics


def test_configs_are_described_and_changed(server: Server) -> None:
    client = admin(server)
    client.create_topics([NewTopic("t", 1, 1, config={"retention.ms": "1000"})])["t"].result(SECONDS)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "t")
    changed = ConfigResource(ConfigResource.Type.TOPIC, "t", incremental_configs=[
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
    ])  # fmt: skip

    client.incremental_alter_configs([changed])[changed].result(SECONDS)
    configs = client.describe_configs([resource])[resource].result(SECONDS)

    assert (configs["retention.ms"].value, configs["cleanup.policy"].value) == ("1000", "delete,compact")
    assert not configs["retention.ms"].is_default
    assert configs["segment.bytes"].is_default


def test_groups_are_listed_described_and_deleted(server: Server) -> None:
    send(server, "t", [b"a"])
    reader = consumer(server)
    reader.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    reader.close()
    client = admin(server)

    listed = client.list_consumer_groups().result(SECONDS).valid
    described = client.describe_consumer_groups(["g"])["g"].result(SECONDS)
    offsets = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")])["g"].result(SECONDS)
    client.delete_consumer_groups(["g"])["g"].result(SECONDS)

    assert [one.group_id for one in listed] == ["g"]
    assert described.members == []
    assert [one.offset for one in offsets.topic_partitions] == [1]
    assert client.list_consumer_groups().result(SECONDS).valid == []


def test_records_are_deleted_and_offsets_listed(server: Server) -> None:
    send(server, "t", [b"a", b"b", b"c"])
    client, key = admin(server), TopicPartition("t", 0)

    # Each call has a broker thread of its own: without the wait for the first, it may be the last one to be answered.
    deleted = [one.result(SECONDS) for one in client.delete_records([TopicPartition("t", 0, 2)]).values()]
    earliest = client.list_offsets({key: OffsetSpec.earliest()})[key].result(SECONDS)
    latest = client.list_offsets({key: OffsetSpec.latest()})[key].result(SECONDS)

    assert [one.low_watermark for one in deleted] == [2]
    assert (earliest.offset, latest.offset) == (2, 3)


def test_the_cluster_is_one_node(server: Server) -> None:
    client = admin(server)

    described = client.describe_cluster().result(SECONDS)

    assert [f"{one.host}:{one.port}" for one in described.nodes] == [server.bootstrap_servers]
