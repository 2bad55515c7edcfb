"""The questions of a client to its nodes."""

from collections.abc import Callable
from typing import Any

import pytest

from pylog.client.admin.admin import Admin
from pylog.client.admin.groups import GroupDescription
from pylog.client.cluster import Cluster
from pylog.config.connection import ConnectionConfig
from pylog.errors import (
    ClusterAuthorization,
    GroupIdNotFound,
    PylogError,
    TransactionalIdNotFound,
    UnknownServer,
    UnsupportedVersion,
)
from pylog.protocol.messages import ApiResponse, Message, Session
from pylog.protocol.messages.configs import ConfigSource, DescribeConfigsResponse, IncrementalAlterConfigsResponse
from pylog.protocol.messages.groups import (
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from pylog.protocol.messages.topics import DescribeLogDirsRequest
from pylog.protocol.messages.transactions import (
    DescribeProducersResponse,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from pylog.protocol.messages.users import (
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from pylog.record import TopicPartition
from pylog.runtime.future import Future, completed, failed
from pylog.transport import MemoryTransport
from support.described import described

T0 = TopicPartition("t", 0)
LED = described(["t"], 1, 1)
Described = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult


def answering(*answers: ApiResponse | PylogError) -> Cluster:
    """A cluster of one node, which gives these answers one after the other."""
    left = iter(answers)

    def handle(message: Message, session: Session) -> Future[Any]:
        answer = next(left)
        return failed(answer) if isinstance(answer, PylogError) else completed(answer)

    transport = MemoryTransport()
    transport.attach(1, handle)
    return Cluster(transport, 1, "test")


def test_an_error_of_an_answer_as_a_whole_is_raised() -> None:
    cluster = answering(DescribeUserScramCredentialsResponse(error=ClusterAuthorization("not yours")))
    with pytest.raises(ClusterAuthorization, match="not yours"):
        cluster.ask(DescribeUserScramCredentialsRequest(users=None))


@pytest.mark.parametrize(
    ("answer", "ask", "reason"),
    [
        (
            AlterUserScramCredentialsResponse(),
            lambda admin: admin.set_password("ann", "secret", mechanisms=["SCRAM-SHA-256"]),
            "about one user alone, and answers about 0",
        ),
        (
            DescribeTransactionsResponse(), lambda admin: admin.describe_transaction("tx"),
            "about one transactional id alone, and answers about 0",
        ),
        (
            DescribeConfigsResponse(), lambda admin: admin.describe_topic_config("t"),
            "about one resource alone, and answers about 0",
        ),
        (
            IncrementalAlterConfigsResponse(), lambda admin: admin.alter_config("t", {"retention.ms": 5}),
            "about one resource alone, and answers about 0",
        ),
        (DescribeProducersResponse(), lambda admin: admin.describe_producers([T0]), "without a word of t-0"),
    ],
)  # fmt: skip
def test_an_answer_without_a_word_of_what_was_asked_is_an_error(
    answer: ApiResponse, ask: Callable[[Admin], object], reason: str
) -> None:
    cluster = answering(answer)
    cluster.learn(LED, ["t"])
    with pytest.raises(UnknownServer, match=reason):
        ask(Admin(cluster))


@pytest.mark.parametrize(
    "ask",
    [
        lambda admin: admin.create_topic("t"),
        lambda admin: admin.delete_topic("t"),
        lambda admin: admin.create_partitions("t", 2),
        lambda admin: admin.delete_records({T0: 1}),
    ],
)
def test_a_node_waits_for_its_replicas_as_long_as_the_client_does(ask: Callable[[Admin], object]) -> None:
    asked: list[Any] = []

    def handle(message: Message, session: Session) -> Future[Any]:
        asked.append(message)
        return failed(UnsupportedVersion("enough"))

    transport = MemoryTransport()
    transport.attach(1, handle)
    cluster = Cluster(transport, 1, "test")
    cluster.learn(LED, ["t"])
    with pytest.raises(UnsupportedVersion):
        ask(Admin(cluster))
    assert [one.timeout_ms for one in asked] == [ConnectionConfig().request_timeout_ms]


@pytest.mark.parametrize("told", ["no such id", "'tx' is not known"])
def test_an_error_without_a_text_of_its_own_names_what_it_is_about(told: str) -> None:
    state = DescribeTransactionsResponse.TransactionState(transactional_id="tx", error=TransactionalIdNotFound(told))
    with pytest.raises(TransactionalIdNotFound, match="'tx'"):
        Admin(answering(DescribeTransactionsResponse(transaction_states=[state]))).describe_transaction("tx")


def test_the_filters_that_mean_nothing_are_told_once() -> None:
    request = ListTransactionsRequest(state_filters=["Ongoing", "Odd"])
    one = ListTransactionsResponse.TransactionState(transactional_id="a", producer_id=1, transaction_state="Ongoing")
    good = ListTransactionsResponse(transaction_states=[one], unknown_state_filters=["Odd"])

    assert request.joined([good, good]) == ListTransactionsResponse(
        unknown_state_filters=["Odd"], transaction_states=[one, one]
    )


@pytest.mark.parametrize(
    "request_", [ListTransactionsRequest(), ListGroupsRequest(), DescribeLogDirsRequest(topics=None)]
)
def test_the_first_error_of_several_answers_is_that_of_all(request_: Any) -> None:
    good, bad = request_.response(), request_.refused(ClusterAuthorization("not yours"))
    assert request_.joined([good, bad]) is bad
    assert request_.joined([good, good]) == request_.response()


def test_a_group_that_is_dead_as_a_classic_one_may_be_of_the_consumer_protocol() -> None:
    dead = DescribeGroupsResponse.DescribedGroup(group_id="g", group_state="Dead")
    stable = ConsumerGroupDescribeResponse.DescribedGroup(group_id="g", group_state="Stable")
    admin = Admin(answering(DescribeGroupsResponse(groups=[dead]), ConsumerGroupDescribeResponse(groups=[stable])))
    assert admin.describe_group("g").type == "Consumer"


def test_a_node_that_is_too_old_for_the_consumer_protocol_is_not_an_error() -> None:
    there, dead = (
        DescribeGroupsResponse.DescribedGroup(group_id=name, group_state=state, coordinator=3)
        for name, state in {"g": "Stable", "h": "Dead"}.items()
    )
    old = UnsupportedVersion("old")
    admin = Admin(answering(DescribeGroupsResponse(groups=[there, dead]), old, old))
    found = admin.describe_groups(["g", "h"])
    assert isinstance(found["g"], GroupDescription) and isinstance(found["h"], GroupIdNotFound)
    assert (found["g"].type, found["g"].state, found["g"].coordinator) == ("Classic", "Stable", 3)


@pytest.mark.parametrize(("member_type", "upgraded"), [(-1, None), (0, False), (1, True)])
def test_a_node_may_not_tell_which_protocol_a_member_speaks(member_type: int, upgraded: bool | None) -> None:
    dead = DescribeGroupsResponse.DescribedGroup(group_id="g", group_state="Dead")
    group = ConsumerGroupDescribeResponse.DescribedGroup
    member = group.Member(member_id="m", member_epoch=1, client_id="", client_host="", member_type=member_type)
    told = ConsumerGroupDescribeResponse(groups=[group(group_id="g", members=[member])])
    (found,) = Admin(answering(DescribeGroupsResponse(groups=[dead]), told)).describe_group("g").members
    assert found.upgraded is upgraded


def test_a_classic_group_is_described_by_one_request() -> None:
    stable = DescribeGroupsResponse.DescribedGroup(group_id="g", group_state="Stable")
    # A second request would find no answer.
    assert Admin(answering(DescribeGroupsResponse(groups=[stable]))).describe_group("g").members == ()


def test_a_group_of_a_node_that_tells_no_types_is_a_classic_one() -> None:
    group = ListGroupsResponse.ListedGroup(group_id="g", protocol_type="consumer")
    assert Admin(answering(ListGroupsResponse(groups=[group]))).list_groups() == [("g", "consumer", "", "Classic")]


def test_the_parts_of_answers_are_joined_in_the_order_of_the_names() -> None:
    request = DeleteGroupsRequest(groups_names=["a", "b", "c"])
    told = [request.only([name]).answered([None]) for name in ("c", "a")]

    a, b, c = request.joined(told).results
    assert (a.group_id, a.error, c.group_id, c.error) == ("a", None, "c", None)
    assert isinstance(b.error, UnknownServer)
    assert request.only(["b"]).names == ["b"]


def test_a_source_of_a_config_that_a_later_node_tells_is_unknown() -> None:
    result = DescribeConfigsResponse.DescribeConfigsResult
    config = result.DescribeConfigsResourceResult(name="retention.ms", value="5", config_source=99, documentation=None)
    answer = DescribeConfigsResponse(results=[result(resource_type=2, resource_name="t", configs=[config])])

    assert Admin(answering(answer)).describe_topic_config("t") == {"retention.ms": ("5", ConfigSource.UNKNOWN)}
