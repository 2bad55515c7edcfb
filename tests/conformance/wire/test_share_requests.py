"""The records of share groups over a raw socket: sessions, acknowledgements, and what is written down of them."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any
from uuid import UUID

import pytest

from conformance.wire.conftest import Topics
from conformance.wire.servers import Server
from pylog.protocol.batch import split
from pylog.protocol.messages.share_state import share_partition_name
from support.clients.values import until
from support.raw_client import WireClient
from support.wire_requests import Requests, error_of, records

SHARE = 2
ANN, BEN = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
Said = Sequence[tuple[int, int, list[int]]]
Acquired = list[tuple[int, int, int]]


class Shared:
    """A topic of one partition, and a share group that reads it: each member has a connection."""

    def __init__(self, servers: str, topics: Topics, closing: ExitStack) -> None:
        self.group, self.topic = topics.name(), topics.create()
        self.servers, self.closing = servers, closing
        self.wires: dict[str, WireClient] = {}
        self.requests = Requests(self.wire(""))
        self.topic_id: UUID = self.requests.topic_id(self.topic)
        name = share_partition_name(self.group, self.topic_id, 0)
        until(lambda: self._is_coordinated(name))
        until(lambda: self.state("Initialize", stateEpoch=1, startOffset=0)["errorCode"] == 0)

    def _is_coordinated(self, name: str) -> bool:
        asked = {"keyType": SHARE, "coordinatorKeys": [name]}
        return error_of(self.wire("").ask("FindCoordinator", asked)["coordinators"][0]) == "NONE"

    def wire(self, member: str) -> WireClient:
        if member not in self.wires:
            self.wires[member] = self.closing.enter_context(WireClient(self.servers))
        return self.wires[member]

    def produce(self, *counts: int) -> None:
        for count in counts:
            self.requests.produce(self.topic, records(*[b"x"] * count))

    def state(self, what: str, *, is_summary: bool = False, **part: Any) -> dict[str, Any]:
        """The part of the answer to a request about the state of the partition."""
        name = f"{what}ShareGroupState{'Summary' if is_summary else ''}"
        topics = [{"topicId": self.topic_id, "partitions": [{"partition": 0, **part}]}]
        answer = self.wire("").ask(name, {"groupId": self.group, "topics": topics})
        return dict(answer["results"][0]["partitions"][0])

    def stored(self) -> tuple[int, list[tuple[int, int, int, int]]]:
        """The start, and the states behind it."""
        found = self.state("Read", leaderEpoch=0)
        names = ("firstOffset", "lastOffset", "deliveryState", "deliveryCount")
        return found["startOffset"], [tuple(one[name] for name in names) for one in found["stateBatches"]]

    def _topics(self, said: Said) -> list[dict[str, Any]]:
        names = ("firstOffset", "lastOffset", "acknowledgeTypes")
        batches = [dict(zip(names, one, strict=True)) for one in said]
        parts = [{"partitionIndex": 0, "acknowledgementBatches": batches}]
        return [{"topicId": self.topic_id, "partitions": parts}]

    def fetch(self, epoch: int, said: Said = (), member: str = ANN, **more: Any) -> dict[str, Any]:
        body = {
            "groupId": self.group, "memberId": member, "shareSessionEpoch": epoch, "maxWaitMs": 0, "minBytes": 1,
            "maxBytes": 1 << 20, "maxRecords": 500, "batchSize": 500, "topics": self._topics(said),
            "forgottenTopicsData": [],
        }  # fmt: skip
        return self.wire(member).ask("ShareFetch", body | more)

    def begin(self, member: str = ANN, **more: Any) -> Acquired:
        """What the first request of a session acquires. A broker of Kafka's loads the share partition meanwhile."""

        def asked() -> Acquired | None:
            found = self.acquired(self.fetch(0, member=member, maxWaitMs=500, **more))
            if not found:
                self.fetch(-1, member=member, topics=[])
            return found

        return until(asked)

    def acquired(self, answer: dict[str, Any]) -> Acquired:
        """The ranges in an answer, with the number of deliveries of each record."""
        assert error_of(answer) == "NONE"
        parts = [part for topic in answer["responses"] for part in topic["partitions"]]
        assert [(part["errorCode"], part["acknowledgeErrorCode"]) for part in parts] in ([], [(0, 0)])
        found = [one for part in parts for one in part["acquiredRecords"]]
        ranges = [(one["firstOffset"], one["lastOffset"], one["deliveryCount"]) for one in found]
        spans = [(batch.base_offset, batch.last_offset) for part in parts for batch in split(part["records"] or b"")]
        assert not ranges or (spans[0][0] <= ranges[0][0] and ranges[-1][1] <= spans[-1][1])
        return joined(ranges)

    def acknowledge(self, epoch: int, said: Said, member: str = ANN, **more: Any) -> str:
        body = {"groupId": self.group, "memberId": member, "shareSessionEpoch": epoch, "topics": self._topics(said)}
        answer = self.wire(member).ask("ShareAcknowledge", body | more)
        return error_of(answer) if answer["errorCode"] else error_of(answer["responses"][0]["partitions"][0])


def joined(ranges: Acquired) -> Acquired:
    """The ranges, neighbours that were delivered as often as one: servers cut them in other places."""
    found: Acquired = []
    for first, last, count in ranges:
        if found and found[-1][1] + 1 == first and found[-1][2] == count:
            found[-1] = (found[-1][0], last, count)
        else:
            found.append((first, last, count))
    return found


@pytest.fixture
def shared(server: Server, topics: Topics) -> Iterator[Shared]:
    with ExitStack() as closing:
        yield Shared(server.bootstrap_servers, topics, closing)


def test_records_are_accepted_released_and_rejected(shared: Shared) -> None:
    shared.produce(10, 5)
    assert shared.begin() == [(0, 14, 1)]
    assert shared.acquired(shared.fetch(1, [(0, 4, [1])])) == []
    assert shared.acknowledge(2, [(5, 9, [1, 2, 3, 0, 1])]) == "NONE"
    assert shared.acquired(shared.fetch(3)) == [(6, 6, 2)]
    assert shared.acknowledge(4, [(6, 6, [1]), (10, 13, [1])]) == "NONE"
    assert shared.stored() == (6, [(6, 6, 2, 2), (7, 8, 4, 1), (9, 13, 2, 1)])
    summary = shared.state("Read", is_summary=True, leaderEpoch=0)
    assert (summary["startOffset"], summary["deliveryCompleteCount"]) == (6, 8)


def test_acknowledgements_that_are_refused(shared: Shared) -> None:
    shared.produce(10)
    shared.begin()
    for epoch, (said, error) in enumerate((
        ([(5, 30, [1])], "INVALID_REQUEST"), ([(40, 45, [1])], "INVALID_REQUEST"), ([(0, 4, [5])], "INVALID_REQUEST"),
        ([(0, 4, [1, 1])], "INVALID_REQUEST"), ([(0, 4, [])], "INVALID_REQUEST"), ([(4, 0, [1])], "INVALID_REQUEST"),
        ([(4, 4, [1]), (0, 0, [1])], "INVALID_REQUEST"), ([(0, 4, [4])], "INVALID_REQUEST"),
        ([(0, 4, [1])], "NONE"), ([(5, 6, [1])], "NONE"), ([(8, 9, [1])], "NONE"),
        ([(8, 9, [1])], "INVALID_RECORD_STATE"), ([(0, 4, [1])], "NONE"),
    ), 1):  # fmt: skip
        assert shared.acknowledge(epoch, said) == error, said


def test_a_member_says_nothing_of_another_one_s_records(shared: Shared) -> None:
    shared.produce(4)
    assert shared.begin() == [(0, 3, 1)]
    assert shared.acquired(shared.fetch(0, member=BEN)) == []
    assert shared.acknowledge(1, [(0, 3, [1])], BEN) == "INVALID_RECORD_STATE"
    assert shared.acknowledge(1, [(0, 3, [1])]) == "NONE"


def test_requests_of_a_session_follow_each_other(shared: Shared) -> None:
    shared.produce(1)
    assert error_of(shared.fetch(1)) == "SHARE_SESSION_NOT_FOUND"
    assert shared.acknowledge(1, [(0, 0, [1])]) == "SHARE_SESSION_NOT_FOUND"
    assert error_of(shared.fetch(0, [(0, 0, [1])])) == "INVALID_REQUEST"
    assert error_of(shared.fetch(0, member="")) == "INVALID_REQUEST"
    assert error_of(shared.fetch(0, member="x" * 37)) == "INVALID_REQUEST"
    assert error_of(shared.fetch(0, groupId=None)) == "INVALID_REQUEST"
    shared.begin()
    assert error_of(shared.fetch(7)) == "INVALID_SHARE_SESSION_EPOCH"
    assert shared.acknowledge(0, [(0, 0, [1])]) == "INVALID_SHARE_SESSION_EPOCH"
    assert shared.acknowledge(3, [(0, 0, [1])]) == "INVALID_SHARE_SESSION_EPOCH"
    assert error_of(shared.fetch(-1, topics=[])) == "NONE"
    assert error_of(shared.fetch(-1, topics=[])) == "SHARE_SESSION_NOT_FOUND"


def test_the_end_of_a_session_frees_its_records(shared: Shared) -> None:
    shared.produce(4)
    shared.begin()
    shared.fetch(0, member=BEN)
    assert shared.acquired(shared.fetch(-1, [(0, 1, [1])])) == []
    found = until(lambda: shared.acquired(shared.fetch(0, member=BEN, maxWaitMs=500)))
    assert found == [(2, 3, 2)]


def test_the_end_of_a_connection_frees_its_client_s_records(shared: Shared) -> None:
    shared.produce(4)
    shared.begin()
    shared.fetch(0, member=BEN)
    shared.wire(ANN).close()
    found = until(lambda: shared.acquired(shared.fetch(0, member=BEN, maxWaitMs=500)))
    assert found == [(0, 3, 2)]


def test_locks_are_renewed_by_requests_that_say_so(shared: Shared) -> None:
    shared.produce(4)
    shared.begin()
    assert shared.acknowledge(1, [(0, 3, [4])], isRenewAck=True) == "NONE"
    assert error_of(shared.fetch(2, [(0, 3, [4])], isRenewAck=True)) == "INVALID_REQUEST"
    nothing = {"maxBytes": 0, "minBytes": 0, "maxRecords": 0, "maxWaitMs": 0}
    assert shared.acquired(shared.fetch(2, [(0, 3, [4])], isRenewAck=True, **nothing)) == []


def test_how_many_records_are_acquired_at_once(shared: Shared) -> None:
    shared.produce(3, 1, 3, 1)
    assert shared.begin(maxRecords=2, shareAcquireMode=1) == [(0, 1, 1)]
    assert shared.acquired(shared.fetch(1, maxRecords=4, shareAcquireMode=1)) == [(2, 5, 1)]
    assert shared.acquired(shared.fetch(2, maxRecords=1)) == [(6, 6, 1)]
    assert shared.acquired(shared.fetch(3, maxRecords=100)) == [(7, 7, 1)]


def test_a_group_that_begins_again_fences_who_read_before(shared: Shared) -> None:
    shared.produce(6)
    shared.begin()
    assert shared.state("Initialize", stateEpoch=2, startOffset=3)["errorCode"] == 0
    assert shared.acknowledge(1, [(0, 5, [1])]) == "NOT_LEADER_OR_FOLLOWER"
    assert until(lambda: shared.acquired(shared.fetch(0, maxWaitMs=500))) == [(3, 5, 1)]
