"""Offsets: the ends of a log, offsets by time, deleted records, committed offsets."""

import pytest

from conformance.wire.conftest import Opened, Topics
from support.clients.values import Sent, read_all
from support.raw_client import WireClient
from support.wire_requests import EARLIEST, LATEST, MAX_TIMESTAMP, T0, Requests, error_of, records


@pytest.fixture
def requests(wire: WireClient) -> Requests:
    return Requests(wire)


def test_offsets_by_time_are_those_of_the_first_record_at_or_after_it(client: Opened, topics: Topics) -> None:
    topic = topics.create()
    times = [10, 20, 20, 40, 30, 60]
    client.producer().send(topic, [Sent(b"x", timestamp=T0 + time) for time in times])
    consumer = client.consumer()

    asked = [0, 10, 11, 20, 21, 40, 41, 60]
    found = [consumer.offset_for_time((topic, 0), T0 + time) for time in asked]

    assert found == [0, 0, 1, 1, 3, 3, 5, 5]
    assert consumer.offset_for_time((topic, 0), T0 + 61) is None


def test_watermarks_follow_appends_and_deletions(client: Opened, topics: Topics, requests: Requests) -> None:
    topic = topics.create()
    consumer = client.consumer()
    assert consumer.watermarks((topic, 0)) == (0, 0)

    client.producer().send(topic, [Sent(b"%d" % number) for number in range(10)])
    delete(requests, topic, 4)

    assert consumer.watermarks((topic, 0)) == (4, 10)
    consumer.assign({(topic, 0): 4})
    assert [record.offset for record in read_all(consumer, 6)] == [4, 5, 6, 7, 8, 9]


def delete(requests: Requests, topic: str, before: int) -> tuple[str, int]:
    asked = [{"name": topic, "partitions": [{"partitionIndex": 0, "offset": before}]}]
    answer = requests.wire.ask("DeleteRecords", {"topics": asked, "timeoutMs": 30_000})
    part = answer["topics"][0]["partitions"][0]
    return error_of(part), part["lowWatermark"]


def test_deletion_moves_the_start_and_never_back(requests: Requests, topics: Topics) -> None:
    topic = topics.create()
    requests.produce(topic, records(*[b"x"] * 10))

    assert delete(requests, topic, 3) == ("NONE", 3)
    assert delete(requests, topic, 2) == ("NONE", 3)
    assert delete(requests, topic, -1) == ("NONE", 10), "-1 is the high watermark"
    assert delete(requests, topic, 11)[0] == "OFFSET_OUT_OF_RANGE"
    assert delete(requests, topics.name(), 1)[0] == "UNKNOWN_TOPIC_OR_PARTITION"


def test_fetch_outside_the_log_is_out_of_range(requests: Requests, topics: Topics) -> None:
    topic = topics.create()
    requests.produce(topic, records(*[b"x"] * 10))
    delete(requests, topic, 5)

    errors = {offset: error_of(requests.fetch(topic, offset)) for offset in (4, 5, 9, 10, 11)}

    assert errors == {4: "OFFSET_OUT_OF_RANGE", 5: "NONE", 9: "NONE", 10: "NONE", 11: "OFFSET_OUT_OF_RANGE"}


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_of_each_version_gives_the_same_records(requests: Requests, topics: Topics, version: int) -> None:
    topic = topics.create()
    data = records(b"a", b"b", producer_id=7_000_000, producer_epoch=0, base_sequence=0)
    assert error_of(requests.produce(topic, data)) == "NONE"

    part = requests.fetch(topic, 0, version=version)

    assert (error_of(part), part["highWatermark"], part["lastStableOffset"]) == ("NONE", 2, 2)
    assert without_epoch(part["records"]) == without_epoch(data)


def without_epoch(batch: bytes) -> bytes:
    """A batch without its base offset and leader epoch, which the server sets."""
    return batch[8:12] + batch[16:]


@pytest.mark.parametrize("version", range(1, 12))
def test_list_offsets_of_each_version_knows_both_ends(requests: Requests, topics: Topics, version: int) -> None:
    topic = topics.create()
    requests.produce(topic, records(b"a", b"b"))

    found = [requests.list_offsets(topic, when, version=version) for when in (EARLIEST, LATEST, T0, T0 + 1)]

    assert [error_of(part) for part in found] == ["NONE"] * 4
    assert [part["offset"] for part in found] == [0, 2, 0, -1]


def test_newest_record_is_found_by_its_timestamp(requests: Requests, topics: Topics) -> None:
    topic = topics.create()
    for time in (5, 9, 7):
        requests.produce(topic, records(b"x", timestamp=T0 + time))

    found = requests.list_offsets(topic, MAX_TIMESTAMP)

    assert (found["offset"], found["timestamp"]) == (1, T0 + 9)


def test_offset_of_an_empty_partition_by_time_is_none(requests: Requests, topics: Topics) -> None:
    found = requests.list_offsets(topics.create(), T0)
    assert (error_of(found), found["offset"], found["timestamp"]) == ("NONE", -1, -1)


def test_fetch_waits_until_there_are_enough_bytes(requests: Requests, topics: Topics, wire: WireClient) -> None:
    topic = topics.create()
    assert requests.fetch(topic, 0, wait_ms=50, min_bytes=1)["records"] in {None, b""}
    asked = {"maxWaitMs": 20_000, "minBytes": 1, "maxBytes": 1000, "topics": [
        {"topic": topic, "partitions": [{"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}]}]}  # fmt: skip
    waiting = WireClient(wire.bootstrap_servers)
    waiting.send("Fetch", asked, version=11)

    requests.produce(topic, records(b"x"))

    answer = waiting.receive("Fetch", 11)
    waiting.close()
    assert answer["responses"][0]["partitions"][0]["highWatermark"] == 1


def test_first_batch_comes_whole_however_small_the_limit(requests: Requests, topics: Topics) -> None:
    topic = topics.create()
    for _ in range(2):
        requests.produce(topic, records(b"x" * 1000))

    part = requests.fetch(topic, 0, max_bytes=10, version=11)

    assert len(part["records"]) > 1000
    assert part["highWatermark"] == 2


@pytest.mark.parametrize("version", range(2, 11))
def test_offset_committed_in_each_version_is_fetched(requests: Requests, topics: Topics, version: int) -> None:
    topic, group = topics.create(2), topics.name()

    assert requests.commit_offset(group, topic, 17, metadata="m", version=version) == "NONE"

    for fetch_version in range(8, 11):
        found = requests.fetch_offset(group, topic, version=fetch_version)
        assert (found["committedOffset"], found["metadata"]) == (17, "m")
        assert requests.fetch_offset(group, topic, partition=1, version=fetch_version)["committedOffset"] == -1


@pytest.mark.parametrize("version", range(1, 8))
def test_old_offset_fetch_has_one_group(requests: Requests, topics: Topics, version: int) -> None:
    topic, group = topics.create(), topics.name()
    requests.commit_offset(group, topic, 17)
    asked = {"groupId": group, "topics": [{"name": topic, "partitionIndexes": [0]}]}

    answer = requests.wire.ask("OffsetFetch", asked, version=version)

    assert answer["topics"][0]["partitions"][0]["committedOffset"] == 17


def test_commit_is_refused_for_what_does_not_exist(requests: Requests, topics: Topics) -> None:
    topic, group = topics.create(), topics.name()

    assert requests.commit_offset(group, topics.name(), 1, version=9) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert requests.commit_offset(group, topic, 1, partition=5) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert requests.commit_offset(group, topic, 1, metadata="x" * 5000) == "OFFSET_METADATA_TOO_LARGE"
    absent = topics.name()
    assert requests.commit_offset(absent, topic, 1, generation=3, member_id="m", version=8) == "ILLEGAL_GENERATION"
    assert requests.commit_offset(absent, topic, 1, generation=3, member_id="m", version=9) == "GROUP_ID_NOT_FOUND"
    assert requests.commit_offset(group, topic, 1) == "NONE"
    assert requests.commit_offset(group, topic, 1, generation=3, member_id="m") == "UNKNOWN_MEMBER_ID"
    assert requests.commit_offset("", topic, 1) in {"NONE", "INVALID_GROUP_ID"}


def test_epoch_of_the_leader_ends_where_the_log_does(requests: Requests, topics: Topics) -> None:
    topic = topics.create()
    requests.produce(topic, records(b"a", b"b"))
    asked = {"replicaId": -1, "topics": [{"topic": topic, "partitions": [
        {"partition": 0, "currentLeaderEpoch": -1, "leaderEpoch": 0}]}]}  # fmt: skip

    answer = requests.wire.ask("OffsetForLeaderEpoch", asked)

    part = answer["topics"][0]["partitions"][0]
    assert (error_of(part), part["leaderEpoch"], part["endOffset"]) == ("NONE", 0, 2)


def test_leader_epoch_of_the_future_is_refused(requests: Requests, topics: Topics) -> None:
    topic = topics.create()
    assert error_of(requests.fetch(topic, 0, leader_epoch=7)) == "UNKNOWN_LEADER_EPOCH"


def test_partition_that_was_never_written_has_the_epoch_of_its_leader(requests: Requests, topics: Topics) -> None:
    topic = topics.create()
    asked = {"replicaId": -1, "topics": [{"topic": topic, "partitions": [
        {"partition": 0, "currentLeaderEpoch": 0, "leaderEpoch": 0}]}]}  # fmt: skip

    answer = requests.wire.ask("OffsetForLeaderEpoch", asked)

    part = answer["topics"][0]["partitions"][0]
    assert (error_of(part), part["leaderEpoch"], part["endOffset"]) == ("NONE", 0, 0)
    ends = [requests.list_offsets(topic, when) for when in (EARLIEST, LATEST)]
    assert [(end["offset"], end["leaderEpoch"]) for end in ends] == [(0, 0), (0, 0)]
