"""The image that metadata records give, the records themselves, and the names that topics may have."""

import contextlib
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.errors import CorruptBatch, InvalidTopic, PylogError, UnsupportedFormat
from pylog.protocol.messages import ConfigResource, ResourceType
from pylog.protocol.metadata_changes import (
    abort_transaction,
    add_partitions,
    allocate_producer_ids,
    change_config,
    create_topic,
    image_records,
    move_replica,
    register_node,
    remove_topic,
    remove_user,
    set_features,
    set_user,
    take_leadership,
)
from pylog.protocol.metadata_image import (
    MetadataDelta,
    MetadataImage,
    MetadataRecord,
    PartitionImage,
    decode_record,
    encode_record,
)
from pylog.protocol.sasl.credentials import ScramCredential, ScramMechanism
from pylog.protocol.schema import message, names
from pylog.protocol.topic_names import METADATA_TOPIC, validate_topic_name

TOPIC_ID = UUID(int=77)
OTHER_ID = UUID(int=78)
DIRECTORY = UUID(int=900)


ONE = [(1, DIRECTORY)]


def apply(image: MetadataImage, records: list[bytes]) -> MetadataImage:
    for value in records:
        image.apply(decode_record(value))
    return image


BROKER = ConfigResource(ResourceType.BROKER, "")
CREDENTIAL = ScramCredential(ScramMechanism.SHA_512, b"salt", b"stored", b"server", 4096)


@pytest.fixture
def image() -> MetadataImage:
    """One topic of two partitions, both on node 1, and a config of all nodes."""
    made = create_topic("clicks", TOPIC_ID, {0: ONE, 1: ONE}, leader=1, config={"retention.ms": "5"})
    return apply(MetadataImage(), made + change_config(BROKER, {"log.retention.ms": "5"}))


# --- images -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "records",
    [
        create_topic("more", OTHER_ID, {0: ONE}, leader=1),
        add_partitions(TOPIC_ID, {2: ONE}, leader=1),
        change_config(ConfigResource(ResourceType.TOPIC, "clicks"), {"retention.ms": None, "segment.ms": "7"}),
        change_config(BROKER, {"log.retention.ms": None, "max.connections": "7"}),
        change_config(BROKER, {"log.retention.ms": None}),
        change_config(ConfigResource(ResourceType.GROUP, "g"), {"consumer.session.timeout.ms": "50000"}),
        take_leadership(TOPIC_ID, 0, 1),
        remove_topic(TOPIC_ID),
        register_node(3, incarnation=OTHER_ID, directories=[DIRECTORY]),
        allocate_producer_ids(1, 0, 1000),
        set_features({"metadata.version": 29}),
        [encode_record("BeginTransactionRecord", {"name": "more to come"})],
    ],
    ids=lambda records: decode_record(records[0]).name,
)
def test_an_image_that_others_see_stays_as_it_is(image: MetadataImage, records: list[bytes]) -> None:
    before, topic = facts(image), image.topics["clicks"]
    known = repr(topic)
    after = apply(image.successor(), records)
    assert (facts(image), repr(topic), image.topics["clicks"]) == (before, known, topic)
    assert facts(after) == facts(apply(image, records)) != before


def facts(image: MetadataImage) -> str:
    return repr({name: value for name, value in vars(image).items() if not name.startswith("_own")})


# --- deltas -----------------------------------------------------------------------------------------------------------


def delta_of(image: MetadataImage, records: list[bytes]) -> MetadataDelta:
    delta = MetadataDelta()
    apply(image.successor(delta), records)
    return delta


@pytest.mark.parametrize(
    ("records", "noted"),
    [
        (create_topic("t", OTHER_ID, {0: ONE}, leader=1, config={"retention.ms": "7"}),
         {"topics_made": {OTHER_ID}, "partitions": {(OTHER_ID, 0): None}, "configs": {(2, "t")}}),
        (create_topic("t", OTHER_ID, {0: ONE}, leader=1) + remove_topic(OTHER_ID), {}),
        (change_config(ConfigResource(ResourceType.GROUP, "g"), {"x": "1"}), {"configs": {(32, "g")}}),
        (change_config(BROKER, {"log.retention.ms": None}), {"configs": {(4, "")}}),
        (set_user("alice", CREDENTIAL), {}),
        (register_node(3, incarnation=OTHER_ID, directories=[]), {}),
        (set_features({"metadata.version": 29}), {}),
        (allocate_producer_ids(1, 0, 1000), {}),
        (abort_transaction("none was open"), {}),
        ([encode_record("ConfigRecord", {"resourceType": 16, "resourceName": "m", "name": "n", "value": "v"})], {}),
    ],
    ids=lambda value: decode_record(value[0]).name if isinstance(value, list) else "",
)  # fmt: skip
def test_a_delta_has_the_keys_of_what_changes(
    image: MetadataImage, records: list[bytes], noted: dict[str, object]
) -> None:
    said = {name: value for name, value in vars(delta_of(image, records)).items() if value}
    assert said == noted


def test_a_delta_has_removed_topics_and_changed_partitions_as_they_were(image: MetadataImage) -> None:
    topic = image.topics["clicks"]
    led = take_leadership(TOPIC_ID, 1, 1)
    assert delta_of(image, led + led).partitions == {(TOPIC_ID, 1): topic.partitions[1]}
    removed = delta_of(image, take_leadership(TOPIC_ID, 1, 1) + remove_topic(TOPIC_ID))
    assert ([*removed.topics_removed], removed.partitions) == ([TOPIC_ID], {})
    assert delta_of(image, remove_topic(TOPIC_ID)).topics_removed == {TOPIC_ID: topic}
    cleared = encode_record("ClearElrRecord", {"topicName": ""})
    eligible = {"partitionId": 0, "topicId": TOPIC_ID, "eligibleLeaderReplicas": [1]}
    after = apply(image.successor(), [encode_record("PartitionChangeRecord", eligible)])
    assert [*delta_of(after, [cleared]).partitions] == [(TOPIC_ID, 0)]


def test_a_delta_has_a_transaction_as_a_whole(image: MetadataImage) -> None:
    begin, end = encode_record("BeginTransactionRecord", {"name": None}), encode_record("EndTransactionRecord", {})
    begun, first = MetadataDelta(), image.successor()
    later = apply(image.successor(begun), [begin, *take_leadership(TOPIC_ID, 0, 1)])
    assert not begun.partitions and not apply(first, [begin]).is_whole
    assert [*delta_of(later, [end]).partitions] == [(TOPIC_ID, 0)]


@pytest.mark.parametrize("records", [remove_topic(OTHER_ID), take_leadership(OTHER_ID, 0, 1)])
def test_a_record_of_an_unknown_topic_is_refused_with_a_delta(image: MetadataImage, records: list[bytes]) -> None:
    with pytest.raises(CorruptBatch, match="no earlier record made"):
        delta_of(image, records)


# --- what is counted and looked up ------------------------------------------------------------------------------------


def test_replicas_are_counted_in_their_log_directories(image: MetadataImage) -> None:
    other = UUID(int=901)
    moved = apply(image.successor(), move_replica(TOPIC_ID, 1, [other]))
    assert (image.replicas_in, moved.replicas_in) == ({DIRECTORY: 2}, {DIRECTORY: 1, other: 1})
    assert apply(moved, remove_topic(TOPIC_ID)).replicas_in == {DIRECTORY: 0, other: 0}


def test_names_that_are_one_in_metrics_are_found(image: MetadataImage) -> None:
    for number, name in enumerate(("a.b", "a_b", "a.c")):
        apply(image, create_topic(name, UUID(int=100 + number), {0: ONE}, leader=1))
    apply(image, create_topic("a.b", UUID(int=100), {0: ONE}, leader=1))
    assert (image.namesakes("a_b"), image.namesakes("a.b"), image.namesakes("clicks")) == (("a.b", "a_b"),) * 2 + ((),)
    after = apply(image.successor(), remove_topic(UUID(int=101)))
    assert (after.namesakes("a_b"), image.namesakes("a_b")) == (("a.b",), ("a.b", "a_b"))
    assert apply(after, remove_topic(UUID(int=100))).namesakes("a_b") == ()


# --- topics -----------------------------------------------------------------------------------------------------------


def test_a_created_topic_is_there(image: MetadataImage) -> None:
    topic = image.topics["clicks"]
    assert (topic.id, topic.config, sorted(topic.partitions)) == (TOPIC_ID, {"retention.ms": "5"}, [0, 1])
    assert topic.partitions[1] == PartitionImage(
        leader=1, leader_epoch=0, partition_epoch=0, replicas=[1], isr=[1], directories=[DIRECTORY]
    )
    assert image._by_id.get(TOPIC_ID) is topic
    assert image._by_id.get(OTHER_ID) is None


def test_replicas_without_a_known_directory_have_the_unassigned_one() -> None:
    image = apply(MetadataImage(), create_topic("t", TOPIC_ID, {0: [(2, UUID(int=0)), *ONE]}, leader=2))
    state = image.topics["t"].partitions[0]
    assert (state.leader, state.replicas, state.isr) == (2, [2, 1], [2, 1])
    assert state.directories == [UUID(int=0), DIRECTORY]


def test_a_removed_topic_is_gone_and_its_name_can_come_back(image: MetadataImage) -> None:
    apply(image, remove_topic(TOPIC_ID))
    assert (image.topics, image._by_id.get(TOPIC_ID)) == ({}, None)
    apply(image, create_topic("clicks", OTHER_ID, {0: ONE}, leader=1))
    assert image.topics["clicks"].config == {}
    assert image._by_id.get(OTHER_ID) is image.topics["clicks"]


def test_configs_are_set_replaced_and_taken_away(image: MetadataImage) -> None:
    def configure(name: str, value: str | None, kind: int = 2) -> bytes:
        return encode_record(
            "ConfigRecord", {"resourceType": kind, "resourceName": "clicks", "name": name, "value": value}
        )

    apply(image, [configure("retention.ms", "6"), configure("cleanup.policy", "compact"), configure("x", "y", kind=4)])
    assert image.topics["clicks"].config == {"retention.ms": "6", "cleanup.policy": "compact"}
    apply(image, [configure("retention.ms", None), configure("never.set", None)])
    assert image.topics["clicks"].config == {"cleanup.policy": "compact"}


# --- partitions -------------------------------------------------------------------------------------------------------


def test_taking_leadership_raises_both_epochs_each_time(image: MetadataImage) -> None:
    for times in (1, 2):
        apply(image, take_leadership(TOPIC_ID, 1, 3))
        state = image.topics["clicks"].partitions[1]
        assert (state.leader, state.leader_epoch, state.partition_epoch) == (3, times, times)
    assert image.topics["clicks"].partitions[0].leader_epoch == 0


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, {}),
        ({"leader": -2}, {}),
        ({"leader": -1, "isr": []}, {"leader": -1, "leader_epoch": 1, "isr": []}),
        ({"leader": 1}, {"leader_epoch": 1}),
        ({"isr": [1, 2]}, {"isr": [1, 2]}),
        (
            {"replicas": [2, 1], "directories": [DIRECTORY, DIRECTORY]},
            {"replicas": [2, 1], "directories": [DIRECTORY] * 2},
        ),
    ],
)
def test_a_change_record_has_only_the_changed_fields(
    image: MetadataImage, change: dict[str, Any], expected: dict[str, Any]
) -> None:
    before = image.topics["clicks"].partitions[0]
    apply(image, [encode_record("PartitionChangeRecord", {"partitionId": 0, "topicId": TOPIC_ID, **change})])
    after = image.topics["clicks"].partitions[0]
    assert (before.partition_epoch, before.leader_epoch) == (0, 0), "an image that was handed out stays as it was"
    plain = {
        "leader": 1, "leader_epoch": 0, "partition_epoch": 1, "replicas": [1], "isr": [1], "directories": [DIRECTORY]
    }  # fmt: skip
    assert after == PartitionImage(**{**plain, **expected})


def test_old_versions_of_the_records_are_read() -> None:
    value = {"partitionId": 0, "topicId": TOPIC_ID, "replicas": [1], "isr": [1], "leader": 1, "leaderEpoch": 4}
    image = apply(
        MetadataImage(),
        [
            encode_record("TopicRecord", {"name": "t", "topicId": TOPIC_ID}),
            encode_record("PartitionRecord", value, 0),
            encode_record("PartitionChangeRecord", {"partitionId": 0, "topicId": TOPIC_ID, "leader": 1}, 0),
        ],
    )
    assert image.topics["t"].partitions[0].leader_epoch == 5
    assert image.topics["t"].partitions[0].directories == []


@pytest.mark.parametrize(
    "record",
    [
        remove_topic(OTHER_ID),
        take_leadership(OTHER_ID, 0, 1),
        take_leadership(TOPIC_ID, 9, 1),
        [encode_record("PartitionRecord", {"partitionId": 0, "topicId": OTHER_ID})],
        [encode_record("ConfigRecord", {"resourceType": 2, "resourceName": "t", "name": "a", "value": "b"})],
    ],
)
def test_a_record_about_an_unknown_topic_is_refused(image: MetadataImage, record: list[bytes]) -> None:
    with pytest.raises(CorruptBatch, match="no earlier record made"):
        apply(image, record)


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_nodes_come_and_go() -> None:
    image = apply(MetadataImage(), register_node(3, incarnation=OTHER_ID, directories=[DIRECTORY]))
    assert (image.nodes[3].id, image.nodes[3].incarnation, image.nodes[3].directories) == (3, OTHER_ID, (DIRECTORY,))
    apply(image, [encode_record("UnregisterBrokerRecord", {"brokerId": 3})])
    assert image.nodes == {}


# --- transactions of records ------------------------------------------------------------------------------------------


def test_records_of_a_transaction_count_at_its_end() -> None:
    image = apply(MetadataImage(), [encode_record("BeginTransactionRecord", {"name": "many topics"})])
    apply(image, create_topic("t", TOPIC_ID, {0: ONE}, leader=1))
    assert image.topics == {}
    apply(image, [encode_record("EndTransactionRecord", {})])
    assert list(image.topics) == ["t"]


def test_records_of_an_aborted_transaction_never_count() -> None:
    image = apply(MetadataImage(), [encode_record("BeginTransactionRecord", {})])
    apply(image, create_topic("t", TOPIC_ID, {0: ONE}, leader=1))
    apply(image, [encode_record("AbortTransactionRecord", {"reason": "changed my mind"})])
    apply(image, create_topic("u", OTHER_ID, {0: ONE}, leader=1))
    assert list(image.topics) == ["u"]


# --- records as bytes -------------------------------------------------------------------------------------------------


def test_the_frame_is_that_of_kafka() -> None:
    value = encode_record("TopicRecord", {"name": "t", "topicId": TOPIC_ID})
    assert value == b"\x01\x02\x00" + b"\x02t" + TOPIC_ID.bytes + b"\x00"
    assert decode_record(value) == MetadataRecord("TopicRecord", 0, {"name": "t", "topicId": TOPIC_ID})


def test_every_kind_of_metadata_record_is_decoded_and_applied_or_skipped() -> None:
    for name in names("metadata"):
        if name.startswith("Remote"):
            continue
        for version in range(message(name).versions.low, message(name).versions.high + 1):
            record = decode_record(encode_record(name, {}, version))
            assert (record.name, record.version) == (name, version)
            if not any(word in name for word in ("Topic", "Partition", "Scram", "RemoveAccess")):
                MetadataImage().apply(record)


def test_unknown_records_of_no_use_are_skipped(image: MetadataImage) -> None:
    unknown_type = b"\x01\xe8\x07\x05whatever"
    newer_unused = b"\x01" + bytes([message("NoOpRecord").api_key]) + b"\x07new"
    for value in (unknown_type, newer_unused):
        record = decode_record(value)
        assert record.name is None
        image.apply(record)
    assert list(image.topics) == ["clicks"]


def test_a_newer_version_of_a_used_record_is_refused() -> None:
    with pytest.raises(UnsupportedFormat, match="PartitionRecord"):
        decode_record(b"\x01" + bytes([message("PartitionRecord").api_key]) + b"\x07")


@pytest.mark.parametrize("frame", [0, 2, 200])
def test_an_unknown_frame_is_refused(frame: int) -> None:
    with pytest.raises(UnsupportedFormat, match="frame version"):
        decode_record((frame.to_bytes(1, "big") if frame < 128 else b"\xc8\x01") + b"\x02\x00")


def test_bytes_after_a_record_are_refused() -> None:
    with pytest.raises(CorruptBatch, match="2 bytes follow a RemoveTopicRecord"):
        decode_record(remove_topic(TOPIC_ID)[0] + b"\x00\x00")


def test_every_prefix_of_a_record_is_refused() -> None:
    for value in create_topic("t", TOPIC_ID, {0: ONE}, leader=1, config={"a": "b"}):
        for size in range(len(value)):
            with pytest.raises(CorruptBatch):
                decode_record(value[:size])


@given(st.binary(max_size=100))
def test_noise_raises_only_errors_of_pylog(noise: bytes) -> None:
    """Another error comes out of the test."""
    with contextlib.suppress(PylogError):
        MetadataImage().apply(decode_record(noise))


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "__consumer_offsets", "x" * 249, "-"])
def test_valid_topic_names_are_taken(name: str) -> None:
    """A name that is not taken is an error."""
    validate_topic_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        (".", "folders"),
        ("..", "folders"),
        ("x" * 250, "250 characters"),
        ("a/b", "only ASCII"),
        ("a b", "only ASCII"),
        ("é", "only ASCII"),
        ("a\n", "only ASCII"),
        ("a\0", "only ASCII"),
        (METADATA_TOPIC, "metadata log"),
    ],
)
def test_invalid_topic_names_are_refused(name: str, reason: str) -> None:
    with pytest.raises(InvalidTopic, match=reason):
        validate_topic_name(name)


def test_names_that_differ_in_dots_and_underscores_alone_collide() -> None:
    validate_topic_name("a.b", ["a.b", "a.b.c", "ab"])
    with pytest.raises(InvalidTopic, match=r"there is 'a_b' already"):
        validate_topic_name("a.b", ["c", "a_b"])


def test_a_record_with_an_invalid_name_makes_no_topic() -> None:
    (record, *_) = create_topic("clicks", TOPIC_ID, {}, leader=1)
    value = decode_record(record)
    bad = replace(value, value={**value.value, "name": "../clicks"})
    with pytest.raises(CorruptBatch, match=r"impossible name '\.\./clicks'"):
        MetadataImage().apply(bad)


def test_a_partition_with_a_negative_number_is_refused() -> None:
    with pytest.raises(CorruptBatch, match="partition -1"):
        apply(MetadataImage(), create_topic("clicks", TOPIC_ID, {-1: ONE}, leader=1))


def test_removing_a_topic_leaves_another_of_its_name(image: MetadataImage) -> None:
    apply(image, create_topic("clicks", OTHER_ID, {0: ONE}, leader=1))
    apply(image, remove_topic(TOPIC_ID))
    assert image.topics["clicks"].id == OTHER_ID
    assert (image._by_id.get(TOPIC_ID), image.removed) == (None, {TOPIC_ID: "clicks"})


def test_changing_a_topic_leaves_another_of_its_name(image: MetadataImage) -> None:
    apply(image, create_topic("clicks", OTHER_ID, {0: ONE}, leader=1))
    after = apply(image.successor(), add_partitions(TOPIC_ID, {2: ONE}, leader=1))
    assert (after.topics["clicks"].id, sorted(after.topics["clicks"].partitions)) == (OTHER_ID, [0])
    older = after._by_id.get(TOPIC_ID)
    assert older is not None and sorted(older.partitions) == [0, 1, 2]


def test_the_credential_of_a_user_is_replaced_and_removed() -> None:
    image = MetadataImage()
    for salt in (b"one", b"two"):
        credential = ScramCredential(ScramMechanism.SHA_512, salt, b"stored", b"server", 4096)
        for value in set_user("alice", credential):
            image.apply(decode_record(value))
        assert image.users == {("alice", ScramMechanism.SHA_512): credential}
    later = image.successor()
    for value in remove_user("alice", ScramMechanism.SHA_512):
        later.apply(decode_record(value))
    assert (len(image.users), later.users) == (1, {})


def test_a_users_record_that_makes_no_sense_is_refused() -> None:
    image = MetadataImage()
    record = {"name": "alice", "mechanism": 1}
    with pytest.raises(CorruptBatch, match="no earlier record made"):
        image.apply(decode_record(encode_record("RemoveUserScramCredentialRecord", record)))
    with pytest.raises(UnsupportedFormat, match="SCRAM mechanism 3"):
        image.apply(decode_record(encode_record("RemoveUserScramCredentialRecord", {**record, "mechanism": 3})))


# --- configs of brokers and groups ------------------------------------------------------------------------------------


def test_configs_of_brokers_and_groups_are_looked_up_and_summed_up(image: MetadataImage) -> None:
    group, before = ConfigResource(ResourceType.GROUP, "g"), image.configs_of(BROKER)
    assert before == {"log.retention.ms": "5"}
    after = apply(image.successor(), change_config(group, {"consumer.session.timeout.ms": "50000"}))
    assert after.configs_of(BROKER) is before
    assert after.configs_of(group) == {"consumer.session.timeout.ms": "50000"}
    assert image.configs_of(group) is image.configs_of(ConfigResource(ResourceType.BROKER, "1"))

    again = apply(MetadataImage(), list(image_records(after)))

    assert again.configs == after.configs
    assert apply(again, change_config(group, {"consumer.session.timeout.ms": None})).configs == image.configs
    assert not apply(again, change_config(BROKER, {"log.retention.ms": None, "other": None})).configs


def test_configs_of_what_has_none_here_are_only_kept(image: MetadataImage) -> None:
    value = {"resourceType": 16, "resourceName": "m", "name": "metrics", "value": "a"}
    record = encode_record("ConfigRecord", value)

    assert record in apply(image, [record]).others
