"""Quotas: which one a client goes by, how long it is passed over, and that no other client is."""

from collections.abc import Iterator
from typing import Any

import pytest

import pylog
from pylog import errors
from pylog.controller.quotas import CHANGES_MAX, QuotaControl
from pylog.protocol.messages import Session
from pylog.protocol.messages.quotas import AlterClientQuotasRequest as Asked
from pylog.protocol.messages.quotas import QuotaEntity, quota_entity
from pylog.protocol.metadata_image import MetadataImage
from pylog.runtime.clock import MovableClock
from pylog.server.quotas import CONSUME, NO_QUOTAS, PRODUCE, RATES_MAX, REQUEST, ClientQuotas, Rate
from support.raw_client import DisconnectedError, WireClient
from support.wire_requests import Requests, records

ADA = {"user": "ada", "client-id": "shop"}


class Hand(MovableClock):
    """A clock that stands still."""

    def tick_ms(self) -> int:
        return self._ahead_ms


def quotas(clock: Hand, **bounds: float) -> ClientQuotas:
    return _fixed({"client-id": "c"}, bounds, clock)


def _fixed(entity: dict[str, str | None], bounds: dict[str, float], clock: Hand) -> ClientQuotas:
    told = {quota_entity(entity): bounds}
    return ClientQuotas(lambda: told, clock)


def session(user: str = "ANONYMOUS", client_id: str = "c") -> Session:
    return Session(client_id, "/127.0.0.1", f"User:{user}")


def test_a_rate_is_measured_over_ten_seconds_at_least() -> None:
    rate = Rate()
    rate.add(1000, 0)
    assert rate.measured(0) == (100, 10)
    assert rate.measured(900) == (1000 / 10.9, 10.9)
    rate.add(1000, 5000)
    assert rate.measured(5000) == (200, 10)
    assert rate.measured(10_500) == (2000 / 10.5, 10.5)
    # The first window is over.
    assert rate.measured(11_000) == (1000 / 10, 10)
    assert rate.measured(60_000) == (0, 10)


def test_the_throttle_time_brings_the_rate_to_the_bound() -> None:
    clock = Hand()
    kept = quotas(clock, producer_byte_rate=100)
    assert kept.throttle_ms(PRODUCE, session(), 1000) == 0
    # 1500 bytes in 10 s are 150 a second: at 100 they take 5 s more.
    assert kept.throttle_ms(PRODUCE, session(), 500) == 5000
    clock.advance(20_000)
    assert kept.throttle_ms(PRODUCE, session(), 1000) == 0


def test_what_is_taken_back_does_not_count() -> None:
    kept = quotas(Hand(), consumer_byte_rate=100)
    assert kept.throttle_ms(CONSUME, session(), 1500, takes_back=True) == 5000
    assert kept.throttle_ms(CONSUME, session(), 1000) == 0
    assert (kept.bytes_at_once(session(), 5000), kept.bytes_at_once(session(), 500)) == (1000, 500)
    assert kept.bytes_at_once(session(client_id="other"), 5000) == 5000


def test_the_time_of_threads_throttles_for_a_window_at_most() -> None:
    kept = quotas(Hand(), request_percentage=1)
    assert kept.throttle_ms(REQUEST, session(), 10) == 0
    assert kept.throttle_ms(REQUEST, session(), 1) == 1000


ORDER: list[dict[str, str | None]] = [
    ADA, {"user": "ada", "client-id": None}, {"user": "ada"}, {"user": None, "client-id": "shop"},
    {"user": None, "client-id": None}, {"user": None}, {"client-id": "shop"}, {"client-id": None},
]  # fmt: skip


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_most_special_entity_counts(first: int) -> None:
    told = {quota_entity(entity): {PRODUCE: 100.0 + place} for place, entity in enumerate(ORDER) if place >= first}
    kept = ClientQuotas(lambda: told, Hand())
    over = 10 * (100 + first) + 1
    assert kept.throttle_ms(PRODUCE, session("ada", "shop"), over - 1) == 0
    assert kept.throttle_ms(PRODUCE, session("ada", "shop"), 1) > 0


def test_an_entity_without_the_quota_is_passed_over() -> None:
    told = {quota_entity(ADA): {CONSUME: 1.0}, quota_entity({"user": "ada"}): {PRODUCE: 5.0}}
    kept = ClientQuotas(lambda: told, Hand())
    assert kept.throttle_ms(PRODUCE, session("ada", "shop"), 100) > 0
    assert kept.throttle_ms(REQUEST, session("ada", "shop"), 100) == 0


def test_clients_share_the_quota_of_their_user_and_not_a_default() -> None:
    kept = _fixed({"user": "ada"}, {PRODUCE: 100}, Hand())
    assert kept.throttle_ms(PRODUCE, session("ada", "one"), 1000) == 0
    assert kept.throttle_ms(PRODUCE, session("ada", "two"), 100) > 0
    default = _fixed({"user": None}, {PRODUCE: 100}, Hand())
    assert default.throttle_ms(PRODUCE, session("ada"), 1000) == 0
    assert default.throttle_ms(PRODUCE, session("bob"), 1000) == 0


def test_quotas_that_change_count_at_once_and_rates_stay() -> None:
    held: list[dict[QuotaEntity, dict[str, float]]] = [{(("client-id", "c"),): {PRODUCE: 100}}]
    kept = ClientQuotas(lambda: held[0], Hand())
    assert kept.throttle_ms(PRODUCE, session(), 1000) == 0
    held[0] = {(("client-id", "c"),): {PRODUCE: 50}}
    assert kept.throttle_ms(PRODUCE, session(), 0) == 10_000
    held[0] = {}
    assert kept.throttle_ms(PRODUCE, session(), 10_000) == 0
    assert not kept.is_active and not NO_QUOTAS.is_active


def test_clients_with_ever_new_names_take_bounded_memory() -> None:
    kept = _fixed({"client-id": None}, {PRODUCE: 100}, Hand())
    for number in range(RATES_MAX + 100):
        kept.throttle_ms(PRODUCE, session(client_id=str(number)), 1)
    assert len(kept._rates) == RATES_MAX and len(kept._bounds) <= RATES_MAX + 1


# --- through a server ------------------------------------------------------------------------------------------------


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def log(clock: MovableClock) -> Iterator[pylog.Log]:
    with pylog.open(":memory:", clock=clock) as opened:
        opened.create_topic("t")
        yield opened


def test_a_client_over_its_quota_is_answered_and_then_passed_over(log: pylog.Log, clock: MovableClock) -> None:
    log.admin.alter_client_quotas({"client-id": "greedy"}, {PRODUCE: 1})
    with (
        log.serve() as server,
        WireClient(server.bootstrap_servers, "greedy") as greedy,
        WireClient(server.bootstrap_servers, "modest") as modest,
    ):
        topic = Requests(greedy).topic_id("t")
        answer = greedy.ask("Produce", produced(topic))
        assert answer["throttleTimeMs"] > 10_000
        greedy.send("Produce", produced(topic), version=greedy.highest("Produce"))
        # Another client has its answers meanwhile.
        for _ in range(3):
            assert modest.ask("Produce", produced(topic))["throttleTimeMs"] == 0
        assert log.topic("t")[0].high_watermark == 4
        clock.advance(answer["throttleTimeMs"] + 1)
        assert greedy.receive("Produce", greedy.highest("Produce"))["throttleTimeMs"] > 0
        assert log.topic("t")[0].high_watermark == 5


def produced(topic_id: Any, acks: int = 1) -> dict[str, Any]:
    part = {"index": 0, "records": records(b"x" * 100)}
    return {"acks": acks, "timeoutMs": 1000, "topicData": [{"topicId": topic_id, "partitionData": [part]}]}


def test_a_produce_without_an_answer_is_counted(log: pylog.Log, clock: MovableClock) -> None:
    log.admin.alter_client_quotas({"client-id": "greedy"}, {PRODUCE: 1})
    with (
        log.serve() as server,
        WireClient(server.bootstrap_servers, "greedy") as greedy,
        WireClient(server.bootstrap_servers, "modest") as modest,
    ):
        topic, version = Requests(greedy).topic_id("t"), greedy.highest("Produce")
        greedy.send("Produce", produced(topic, acks=0), version=version)
        greedy.send("Produce", produced(topic), version=version)
        while log.topic("t")[0].high_watermark == 0:
            modest.ask("ApiVersions", {}, version=0)
        modest.ask("ApiVersions", {}, version=0)
        assert log.topic("t")[0].high_watermark == 1
        # Less than an idle connection may last.
        clock.advance(500_000)
        assert greedy.receive("Produce", version)["responses"]


def test_a_fetch_over_the_quota_has_no_records_and_goes_on_later(log: pylog.Log, clock: MovableClock) -> None:
    with log.producer() as producer:
        for _ in range(20):
            producer.send("t", b"x" * 1000).result()
    log.admin.alter_client_quotas({"client-id": "greedy"}, {CONSUME: 300})
    with log.serve() as server, WireClient(server.bootstrap_servers, "greedy") as greedy:
        topic = Requests(greedy).topic_id("t")

        def fetch(offset: int, session_id: int = 0, epoch: int = -1) -> Any:
            part = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1 << 20, "currentLeaderEpoch": -1}
            topics = [{"topicId": topic, "partitions": [part]}]
            body = {"maxBytes": 1 << 20, "topics": topics, "sessionId": session_id, "sessionEpoch": epoch}
            return greedy.ask("Fetch", {"replicaId": -1, "maxWaitMs": 0, "minBytes": 0, **body})

        first = fetch(0, epoch=0)
        # No more at once than the quota gives in ten seconds.
        assert 0 < size_of(first) <= 3000
        assert first["throttleTimeMs"] == 0
        over = fetch(2, first["sessionId"], 1)
        assert (over["responses"], over["sessionId"]) == ([], first["sessionId"])
        assert over["throttleTimeMs"] > 0
        clock.advance(20_000)
        assert size_of(fetch(2, first["sessionId"], 2)) > 0
        # A session that was to begin does not.
        begun = fetch(4, epoch=0)
        assert (begun["responses"], begun["sessionId"]) == ([], 0)
    log.admin.alter_client_quotas({"client-id": "greedy"}, {CONSUME: None})
    assert log.admin.describe_client_quotas() == {}


def size_of(answer: Any) -> int:
    return sum(len(part["records"] or b"") for topic in answer["responses"] for part in topic["partitions"])


def test_a_large_request_counts_its_time_too(log: pylog.Log) -> None:
    log.admin.alter_client_quotas({"client-id": "greedy"}, {REQUEST: 1e-7})
    with log.serve() as server, WireClient(server.bootstrap_servers, "greedy") as greedy:
        names = [{"name": f"t{number}"} for number in range(2000)]
        asked = {"topics": names, "allowAutoTopicCreation": False}
        assert greedy.ask("Metadata", asked, version=9)["throttleTimeMs"] == 1000


def test_clients_without_a_quota_have_their_prepared_requests(log: pylog.Log) -> None:
    log.admin.alter_client_quotas({"client-id": "greedy"}, {PRODUCE: 1_000_000})
    quotas = ClientQuotas(lambda: log.broker.image.quotas, Hand())
    assert quotas.limits(session(client_id="greedy")) and not quotas.limits(session(client_id="modest"))
    with log.serve() as server:
        for name in ("greedy", "modest"):
            with WireClient(server.bootstrap_servers, name) as client:
                topic = Requests(client).topic_id("t")
                for _ in range(3):
                    client.ask("Produce", produced(topic))
    # The clients have sent the same; the quota of one is counted each time.
    log.admin.alter_client_quotas({"client-id": "modest"}, {PRODUCE: 1})
    with log.serve() as server, WireClient(server.bootstrap_servers, "modest") as client:
        assert client.ask("Produce", produced(Requests(client).topic_id("t")))["throttleTimeMs"] > 0


def test_a_quota_that_is_set_on_a_connection_at_work_counts_at_once(log: pylog.Log) -> None:
    with log.serve() as server, WireClient(server.bootstrap_servers, "greedy") as client:
        topic = Requests(client).topic_id("t")
        assert [client.ask("Produce", produced(topic))["throttleTimeMs"] for _ in range(3)] == [0, 0, 0]
        log.admin.alter_client_quotas({"client-id": "greedy"}, {PRODUCE: 1})
        assert client.ask("Produce", produced(topic))["throttleTimeMs"] > 0


def test_a_member_of_a_share_group_is_given_no_more_at_once_than_its_quota(log: pylog.Log) -> None:
    log.admin.alter_group_config("g", {"share.auto.offset.reset": "earliest"})
    with log.producer() as producer:
        for _ in range(20):
            producer.send("t", b"x" * 1000).result()
    log.admin.alter_client_quotas({"client-id": "greedy"}, {CONSUME: 300})
    with (
        log.serve() as server,
        pylog.connect(server.bootstrap_servers) as connected,
        connected.share_consumer("t", group_id="g", client_id="greedy") as consumer,
    ):
        assert 0 < len(consumer.poll(60_000)) <= 3


def test_all_kinds_of_answers_have_the_time(log: pylog.Log, clock: MovableClock) -> None:
    log.admin.alter_client_quotas({"client-id": None}, {REQUEST: 1e-7})
    with log.serve() as server, WireClient(server.bootstrap_servers, "any") as client:
        for name, version in (("ApiVersions", 3), ("Metadata", 9), ("ListGroups", 4), ("FindCoordinator", 4)):
            body = {"keyType": 0, "coordinatorKeys": ["g"]} if name == "FindCoordinator" else {}
            client.send(name, body, version=version)
            assert client.receive(name, version)["throttleTimeMs"] == 1000
            clock.advance(1001)
        # A version that is not served has an answer of version 0.
        client.send_frame(client.header(18, 99, False))
        assert client.receive("ApiVersions", 0)["errorCode"] == errors.UnsupportedVersion.code


def test_an_address_with_too_many_connections_gets_no_answers(log: pylog.Log, clock: MovableClock) -> None:
    log.admin.alter_client_quotas({"ip": "127.0.0.1"}, {"connection_creation_rate": 1})
    with log.serve() as server:
        for _ in range(10):
            with WireClient(server.bootstrap_servers) as client:
                client.ask("ApiVersions", {}, version=0)
        with WireClient(server.bootstrap_servers) as client:
            client.send("ApiVersions", {}, version=0)
            with pytest.raises(DisconnectedError):
                client.receive("ApiVersions", 0)
        clock.advance(20_000)
        with WireClient(server.bootstrap_servers) as client:
            client.ask("ApiVersions", {}, version=0)
        # Others have the default, or none.
        with WireClient(server.bootstrap_servers) as held:
            log.admin.alter_client_quotas({"ip": None}, {"connection_creation_rate": 1000})
            log.admin.alter_client_quotas({"ip": "127.0.0.1"}, {"connection_creation_rate": None})
            with WireClient(server.bootstrap_servers) as client:
                client.ask("ApiVersions", {}, version=0)
            held.ask("ApiVersions", {}, version=0)


def test_a_server_ends_while_a_connection_is_held(log: pylog.Log) -> None:
    log.admin.alter_client_quotas({"ip": None}, {"connection_creation_rate": 1})
    with log.serve() as server:
        clients = [WireClient(server.bootstrap_servers) for _ in range(30)]
    for client in clients:
        client.close()


def test_a_client_that_is_passed_over_may_leave(log: pylog.Log, clock: MovableClock) -> None:
    log.admin.alter_client_quotas({"client-id": "greedy"}, {PRODUCE: 1})
    with log.serve() as server:
        with WireClient(server.bootstrap_servers, "greedy") as greedy:
            answer = greedy.ask("Produce", produced(Requests(greedy).topic_id("t")))
        # Nothing is read from it, so its end is seen when its time is over.
        clock.advance(answer["throttleTimeMs"] + 1)
        with WireClient(server.bootstrap_servers, "modest") as modest:
            assert modest.ask("ApiVersions", {}, version=3)["throttleTimeMs"] == 0


def test_clients_in_the_process_have_no_quotas(log: pylog.Log) -> None:
    log.admin.alter_client_quotas({"client-id": None}, {PRODUCE: 1, REQUEST: 0.001})
    with log.producer(client_id="own") as producer:
        for _ in range(10):
            producer.send("t", b"x" * 1000).result()


# --- the admin -------------------------------------------------------------------------------------------------------


def test_quotas_are_set_described_and_removed(log: pylog.Log) -> None:
    admin = log.admin
    admin.alter_client_quotas(ADA, {PRODUCE: 1000, CONSUME: 2000})
    admin.alter_client_quotas({"user": None}, {REQUEST: 12.5})
    admin.alter_client_quotas({"client-id": "shop"}, {PRODUCE: 7}, validate_only=True)
    of_ada, of_all = quota_entity(ADA), quota_entity({"user": None})
    assert admin.describe_client_quotas() == {of_ada: {PRODUCE: 1000, CONSUME: 2000}, of_all: {REQUEST: 12.5}}
    assert list(admin.describe_client_quotas({"user": "ada"})) == [of_ada]
    assert admin.describe_client_quotas({"user": "ada"}, strict=True) == {}
    assert list(admin.describe_client_quotas({"user": None})) == [of_all]
    assert list(admin.describe_client_quotas(any_of=["user", "client-id"])) == [of_ada]
    admin.alter_client_quotas(ADA, {PRODUCE: None, CONSUME: 3000, REQUEST: None})
    assert admin.describe_client_quotas({"user": "ada"}) == {of_ada: {CONSUME: 3000}}


@pytest.mark.parametrize(
    ("entity", "changes", "says"),
    [
        ({}, {PRODUCE: 1}, "empty client quota entity"),
        ({"what": "a"}, {PRODUCE: 1}, "Unhandled client quota entity type: what"),
        ({"ip": "127.0.0.1", "user": "a"}, {PRODUCE: 1}, "should not be combined"),
        ({"ip": "nowhere"}, {"connection_creation_rate": 1}, "not a valid IP"),
        ({"ip": "127.0.0.1"}, {"connection_creation_rate": 1.5}, "cannot be a fractional value"),
        ({"ip": "127.0.0.1"}, {"connection_creation_rate": 1e10}, "too large for an INT"),
        ({"ip": "127.0.0.1"}, {PRODUCE: 1}, "Invalid configuration key producer_byte_rate"),
        ({"user": "a"}, {"connection_creation_rate": 1}, "Invalid configuration key connection_creation_rate"),
        ({"user": "a"}, {"controller_mutation_rate": 1}, "nothing would hold to it"),
        ({"user": ""}, {PRODUCE: 1}, "Invalid empty name"),
        ({"user": "a"}, {"what": 1}, "Invalid configuration key what"),
        ({"user": "a"}, {PRODUCE: 0}, "must be greater than 0"),
        ({"user": "a"}, {PRODUCE: float("nan")}, "must be greater than 0"),
        ({"user": "a"}, {PRODUCE: 1.5}, "cannot be a fractional value"),
        ({"user": "a"}, {CONSUME: 1e30}, "too large for a LONG"),
    ],
)
def test_a_quota_that_makes_no_sense_is_refused(
    log: pylog.Log, entity: dict[str, str | None], changes: dict[str, float | None], says: str
) -> None:
    with pytest.raises(errors.InvalidRequest, match=says):
        log.admin.alter_client_quotas(entity, changes)
    assert log.admin.describe_client_quotas() == {}


def test_a_request_for_too_much_is_refused() -> None:
    control = QuotaControl(MetadataImage)
    entry, part, change = Asked.EntryData, Asked.EntryData.EntityData, Asked.EntryData.OpData
    ada = [part(entity_type="user", entity_name="ada")]
    set_ = change(key=PRODUCE, value=1, remove=False)

    def codes(*entries: Asked.EntryData) -> list[str | None]:
        records, answer = control.alter(Asked(entries=list(entries)))
        assert not records or len(records) == 1
        return [None if one.error is None else str(one.error) for one in answer.entries]

    assert codes(entry(entity=ada, ops=[set_, set_])) == ["Duplicate quota key"]
    assert codes(entry(entity=ada * 2, ops=[set_])) == ["Invalid client quota entity, duplicate entity entry user"]
    first, second = codes(entry(entity=ada, ops=[set_]), entry(entity=ada, ops=[set_]))
    assert first is None and second is not None and second.startswith("Ignoring duplicate entity")
    many = [entry(entity=[part(entity_type="user", entity_name=str(n))], ops=[set_]) for n in range(CHANGES_MAX + 1)]
    with pytest.raises(errors.PolicyViolation):
        control.alter(Asked(entries=many))
    refused = Asked(entries=[entry(entity=ada, ops=[set_])]).refused(errors.ReadOnly("no"))
    assert [str(one.error) for one in refused.entries] == ["no"]


def test_quotas_are_there_when_the_log_is_opened_again(tmp_path: Any) -> None:
    with pylog.open(tmp_path) as log:
        log.admin.alter_client_quotas({"user": "ada"}, {PRODUCE: 1000})
        log.admin.alter_client_quotas({"user": "bob"}, {PRODUCE: 1000})
        log.admin.alter_client_quotas({"user": "bob"}, {PRODUCE: None})
    with pylog.open(tmp_path, mode="read") as log:
        assert log.admin.describe_client_quotas() == {(("user", "ada"),): {PRODUCE: 1000}}
