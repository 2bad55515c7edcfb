"""The questions of a client to its nodes."""

from collections.abc import Callable

import pytest

from pylog.client.admin.admin import Admin
from pylog.client.cluster import Cluster
from pylog.errors import ClusterAuthorization, ResourceNotFound, TransactionalIdNotFound, UnknownServer
from pylog.protocol.messages import ApiResponse, ClusterMetadata, PartitionMetadata, TopicMetadata
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
from pylog.runtime.future import completed
from pylog.transport import MemoryTransport

T0 = TopicPartition("t", 0)
Described = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult


def answering(*answers: ApiResponse) -> Cluster:
    """A cluster of one node, which gives these answers one after the other."""
    left = iter(answers)
    transport = MemoryTransport()
    transport.attach(1, lambda message, session: completed(next(left)))
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
        (DescribeProducersResponse(), lambda admin: admin.describe_producers([T0]), "without a word of t-0"),
    ],
)  # fmt: skip
def test_an_answer_without_a_word_of_what_was_asked_is_an_error(
    answer: ApiResponse, ask: Callable[[Admin], object], reason: str
) -> None:
    cluster = answering(answer)
    cluster.learn(ClusterMetadata([TopicMetadata("t", partitions=[PartitionMetadata(0, 1, 0, [1], [1])])]), ["t"])
    with pytest.raises(UnknownServer, match=reason):
        ask(Admin(cluster))


@pytest.mark.parametrize("told", ["no such id", "'tx' is not known"])
def test_an_error_without_a_text_of_its_own_names_what_it_is_about(told: str) -> None:
    state = DescribeTransactionsResponse.TransactionState(transactional_id="tx", error=TransactionalIdNotFound(told))
    with pytest.raises(TransactionalIdNotFound, match="'tx'"):
        Admin(answering(DescribeTransactionsResponse(transaction_states=[state]))).describe_transaction("tx")


def test_the_first_error_of_several_answers_is_that_of_all() -> None:
    request = ListTransactionsRequest(state_filters=["Ongoing", "Odd"])
    one = ListTransactionsResponse.TransactionState(transactional_id="a", producer_id=1, transaction_state="Ongoing")
    good = ListTransactionsResponse(transaction_states=[one])
    bad = ListTransactionsResponse(error=ClusterAuthorization("not yours"))

    assert request.joined([good, bad]) is bad
    assert request.joined([good]) == ListTransactionsResponse(unknown_state_filters=["Odd"], transaction_states=[one])


def test_a_user_that_was_deleted_meanwhile_is_not_told() -> None:
    gone = Described(user="bob", error=ResourceNotFound("gone"))
    answer = DescribeUserScramCredentialsResponse(results=[Described(user="ann"), gone])
    assert Admin(answering(answer)).users() == {"ann": {}}
