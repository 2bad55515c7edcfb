"""The stand-in for tests, by raw frames: real clients meet it in `tests/integration`."""

from collections.abc import Iterator
from typing import Any

import pytest

import pylog
from pylog import Record, errors
from pylog.server.api.table import APIS
from pylog.testing import StandIn
from support.patience import HANG_SECONDS
from support.wire_bodies import BODIES, UNREFUSED, batch, fetch, fetched_part, produce, produced_parts
from support.wire_client import WireClient


@pytest.fixture
def kafka() -> Iterator[StandIn]:
    with StandIn() as made:
        yield made


@pytest.fixture
def client(kafka: StandIn) -> Iterator[WireClient]:
    with WireClient(kafka.bootstrap_servers) as made:
        yield made


def sent(client: WireClient, value: bytes, topic: str = "t") -> int:
    code: int = produced_parts(client.ask("Produce", 9, produce(topic, batch(value))))[0]["errorCode"]
    return code


def test_a_failed_request_does_nothing_and_the_next_one_does(kafka: StandIn, client: WireClient) -> None:
    kafka.log.create_topic("t")
    kafka.fail("Produce", errors.NotLeaderOrFollower)

    assert [sent(client, b"a"), sent(client, b"b")] == [6, 0]

    kafka.assert_records("t", [b"b"])


@pytest.mark.parametrize("error", ["NotLeaderOrFollower", ValueError, 3.5, errors.NotLeaderOrFollower("x")])
def test_a_fault_that_is_not_an_error_of_kafka_is_refused(kafka: StandIn, error: Any) -> None:
    with pytest.raises(TypeError, match="is not a class of Kafka's errors"):
        kafka.fail("Produce", error)


def test_a_fault_holds_until_it_is_healed(kafka: StandIn, client: WireClient) -> None:
    kafka.log.create_topic("t")
    kafka.fail("Produce", errors.NotEnoughReplicas, times=None)

    assert [sent(client, b"a") for _ in range(3)] == [19] * 3
    kafka.heal()
    assert sent(client, b"a") == 0


def test_faults_of_one_key_follow_each_other(kafka: StandIn, client: WireClient) -> None:
    kafka.log.create_topic("t")
    kafka.fail("Produce", errors.NotLeaderOrFollower, times=2)
    kafka.fail("Produce", errors.RequestTimedOut)

    assert [sent(client, b"a") for _ in range(4)] == [6, 6, 7, 0]


def test_a_request_that_names_its_topic_by_an_id_can_fail(kafka: StandIn) -> None:
    kafka.log.create_topic("t")
    with pylog.connect(kafka.bootstrap_servers) as log, log.producer() as producer:
        kafka.fail("Produce", errors.PolicyViolation)
        with pytest.raises(errors.PolicyViolation):
            producer.send("t", b"a").result(HANG_SECONDS)
    assert kafka.log.topic("t")[0].next_offset == 0


def test_each_error_of_kafka_can_be_the_answer_to_a_produce(kafka: StandIn, client: WireClient) -> None:
    kafka.log.create_topic("t")
    codes = [code for code in range(1, 140) if errors.for_code(code).code == code]
    for code in codes:
        kafka.fail("Produce", errors.for_code(code))

    told = {errors.TransactionAbortable.code: errors.InvalidTxnState.code}
    assert [sent(client, b"a") for _ in codes] == [told.get(code, code) for code in codes], "as version 9 knows them"
    assert kafka.log.topic("t")[0].next_offset == 0


def seen(kafka: StandIn, api: str, times: int = 1) -> None:
    """Wait until the node has seen so many requests of a key."""
    with WireClient(kafka.bootstrap_servers) as other:
        while len(kafka.requests_of(api)) < times:
            other.ask("Metadata", 12, {"topics": []})


@pytest.mark.parametrize(("name", "version"), sorted(BODIES | UNREFUSED))
def test_every_key_can_be_refused(kafka: StandIn, client: WireClient, name: str, version: int) -> None:
    kafka.log.create_topic("t")
    kafka.fail(name, errors.ClusterAuthorization)
    body = (BODIES | UNREFUSED)[name, version]

    assert "31" in codes(client.ask(name, version, body))
    assert "31" not in codes(client.ask(name, version, body)) or name == "DescribeLogDirs"


def test_a_fault_waits_for_an_answer_that_has_a_place_for_it(kafka: StandIn, client: WireClient) -> None:
    kafka.fail("Metadata", errors.LeaderNotAvailable)

    assert client.ask("Metadata", 12, {"topics": []})["brokers"]
    assert client.ask("Metadata", 12, {"topics": [{"name": "t"}]})["topics"][0]["errorCode"] == 5
    assert client.ask("Metadata", 12, {"topics": [{"name": "t"}]})["topics"][0]["errorCode"] == 0


def test_faults_of_a_request_without_an_answer_leave_its_connection(kafka: StandIn, client: WireClient) -> None:
    kafka.log.create_topic("t")
    kafka.drop("Produce")
    kafka.delay("Produce", 3_600_000)

    for value in (b"a", b"b"):
        client.send("Produce", 9, produce("t", batch(value), acks=0))

    assert sent(client, b"c") == 0
    kafka.assert_records("t", [b"a", b"b", b"c"])


def test_a_fault_that_is_used_up_meanwhile_refuses_nothing(kafka: StandIn, client: WireClient) -> None:
    kafka.fail("CreateTopics", errors.PolicyViolation)
    creating = BODIES["CreateTopics", 7]
    with WireClient(kafka.bootstrap_servers) as other:
        for one in (client, other):
            one.send("CreateTopics", 7, creating)
        made = [one.receive("CreateTopics", 7)[1]["topics"][0]["errorCode"] for one in (client, other)]

    assert sorted(made) == [0, 44]


def codes(body: object) -> set[str]:
    if isinstance(body, dict):
        return {str(body.get("errorCode", body.get("partitionErrorCode")))}.union(*map(codes, body.values()))
    return set().union(*map(codes, body)) if isinstance(body, list) else set()


def test_a_topic_is_not_made_by_a_refused_request(kafka: StandIn, client: WireClient) -> None:
    kafka.fail("CreateTopics", errors.PolicyViolation)
    asked = {"topics": [{"name": "t", "numPartitions": 1, "replicationFactor": 1}], "timeoutMs": 1000}

    assert client.ask("CreateTopics", 7, asked)["topics"][0]["errorCode"] == 44
    kafka.fail("Metadata", errors.LeaderNotAvailable)
    assert client.ask("Metadata", 12, {"topics": [{"name": "t"}]})["topics"][0]["errorCode"] == 5

    assert [topic.name for topic in kafka.log.topics()] == []


def test_a_dropped_answer_leaves_its_request_done(kafka: StandIn, client: WireClient) -> None:
    kafka.log.create_topic("t")
    kafka.drop("Produce")

    client.send("Produce", 9, produce("t", batch(b"a")))
    with kafka.log.consumer("t", auto_offset_reset="earliest") as consumer:
        assert [record.value for record in consumer.poll(HANG_SECONDS * 1000)] == [b"a"]

    client.socket.settimeout(0.05)
    with pytest.raises(TimeoutError):
        client.receive_frame()


@pytest.mark.parametrize(("carried_out", "left"), [(True, [b"a"]), (False, [])])
def test_a_connection_ends_in_place_of_an_answer(
    kafka: StandIn, client: WireClient, carried_out: bool, left: list[bytes]
) -> None:
    kafka.log.create_topic("t")
    kafka.disconnect("Produce", carried_out=carried_out)

    client.send("Produce", 9, produce("t", batch(b"a")))

    assert client.is_closed()
    kafka.assert_records("t", left)


def test_a_delayed_answer_comes_in_its_time_and_order(kafka: StandIn, client: WireClient) -> None:
    kafka.log.create_topic("t")
    assert sent(client, b"first") == 0
    kafka.requests.clear()
    kafka.delay("Produce", 3_600_000)
    client.send("Produce", 9, produce("t", batch(b"a")), correlation_id=1)
    client.send("Produce", 9, produce("t", batch(b"b")), correlation_id=2)
    seen(kafka, "Produce", 2)

    kafka.advance(3_600_000)

    assert [client.receive("Produce", 9)[0] for _ in range(2)] == [1, 2]


def test_a_poll_ends_when_the_clock_is_moved(kafka: StandIn, client: WireClient) -> None:
    kafka.log.create_topic("t")
    client.send("Fetch", 12, fetch("t", 0, maxWaitMs=3_600_000))
    seen(kafka, "Fetch")

    kafka.advance(3_600_001)

    assert fetched_part(client.receive("Fetch", 12)[1])["errorCode"] == 0


def test_what_was_written_is_there_after_a_kill_and_a_restart(kafka: StandIn, client: WireClient) -> None:
    kafka.log.create_topic("t")
    address = kafka.bootstrap_servers
    assert sent(client, b"a") == 0

    kafka.kill()
    kafka.kill()
    assert client.is_closed()
    with pytest.raises(OSError):
        WireClient(address)
    kafka.restart()

    assert kafka.bootstrap_servers == address
    with WireClient(address) as again:
        assert sent(again, b"b") == 0
    kafka.assert_records("t", [b"a", b"b"])


def test_a_close_waits_for_no_client(client: WireClient, kafka: StandIn) -> None:
    kafka.log.create_topic("t")
    # Longer than a test may take.
    client.send("Fetch", 12, fetch("t", 0, maxWaitMs=600_000))

    kafka.close()
    kafka.close()

    assert client.is_closed()


def test_requests_are_seen_with_their_fields(kafka: StandIn, client: WireClient) -> None:
    client.ask("Metadata", 12, {"topics": [{"name": "t"}]})

    (seen,) = kafka.requests_of("Metadata")
    assert (seen.api, seen.version, [topic["name"] for topic in seen.body["topics"]]) == ("Metadata", 12, ["t"])
    assert kafka.requests == [seen]

    client.ask("Heartbeat", 3, {"groupId": "g", "memberId": "m"})
    (beat,) = kafka.requests_of("Heartbeat")
    assert beat.body == {"groupId": "g", "generationId": 0, "memberId": "m", "groupInstanceId": None}


def test_a_name_that_is_no_key_is_refused_with_the_nearest_one(kafka: StandIn) -> None:
    with pytest.raises(ValueError, match="'Produse' is no API key: did you mean 'Produce'"):
        kafka.drop("Produse")
    with pytest.raises(ValueError, match=f"there are {min(api.name for api in APIS.values())}"):
        kafka.requests_of("?")
    with pytest.raises(ValueError, match="times is 0"):
        kafka.drop("Produce", times=0)


def test_records_that_differ_are_told_line_by_line(kafka: StandIn) -> None:
    kafka.log.create_topic("t")[0].append([Record(value=b"a", key=b"k"), Record(value=None)])

    kafka.assert_records("t", ["a", None])
    kafka.assert_records("t", [("k", b"a"), None], partition=0)
    with pytest.raises(AssertionError) as told:
        kafka.assert_records("t", [b"a", b"b"])

    assert str(told.value).splitlines() == [
        "t has 2 records, 2 are expected (- expected, + found):", "  b'a'", "- b'b'", "+ None",
    ]  # fmt: skip


def test_records_of_several_partitions_have_no_order_among_them(kafka: StandIn) -> None:
    topic = kafka.log.create_topic("t", 2)
    topic[1].append([Record(value=b"a")])
    topic[0].append([Record(value=b"b")])

    kafka.assert_records("t", [b"a", b"b"])
