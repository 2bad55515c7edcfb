"""The questions of a client to its nodes."""

from typing import Any

import pytest

from pylog.client.admin.admin import Admin
from pylog.client.cluster import Cluster
from pylog.errors import ClusterAuthorization, ResourceNotFound, UnknownServer
from pylog.protocol.messages import ApiResponse
from pylog.protocol.messages.users import (
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from pylog.runtime.future import completed
from pylog.transport import MemoryTransport

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


@pytest.mark.parametrize("answer", [AlterUserScramCredentialsResponse()])
def test_an_answer_without_a_word_of_what_was_asked_is_an_error(answer: Any) -> None:
    with pytest.raises(UnknownServer, match="alone, and answers about 0"):
        Admin(answering(answer)).set_password("ann", "secret", mechanisms=["SCRAM-SHA-256"])


def test_a_user_that_was_deleted_meanwhile_is_not_told() -> None:
    gone = Described(user="bob", error=ResourceNotFound("gone"))
    answer = DescribeUserScramCredentialsResponse(results=[Described(user="ann"), gone])
    assert Admin(answering(answer)).users() == {"ann": {}}
