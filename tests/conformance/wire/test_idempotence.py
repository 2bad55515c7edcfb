"""Idempotent producers over a raw socket: sequences that come twice, out of order, or from an old epoch.

In each scenario one batch of two records, sequences 0 and 1, has been stored before.
"""

import pytest

from conformance.wire.conftest import Topics
from support.clients.values import until
from support.raw_client import WireClient
from support.wire_requests import LATEST, Requests, error_of, records

NO_PRODUCER = {"producer_id": 123_456_789, "producer_epoch": 0}
INIT_PRODUCER_ID = 22
LAST_SEQUENCE = 2**31 - 1


class Begun:
    """A producer that has stored one batch of two records in a new topic."""

    def __init__(self, wire: WireClient, topics: Topics) -> None:
        self.requests = Requests(wire)
        self.topic = topics.create()
        found = until(lambda: (answer := self.requests.init_producer())["errorCode"] == 0 and answer)
        self.producer_id, self.epoch = found["producerId"], found["producerEpoch"]
        assert self.send(b"a", b"b", sequence=0) == ("NONE", 0)

    def send(self, *values: bytes, sequence: int, epoch: int | None = None) -> tuple[str, int]:
        epoch = self.epoch if epoch is None else epoch
        data = records(*values, producer_id=self.producer_id, producer_epoch=epoch, base_sequence=sequence)
        part = self.requests.produce(self.topic, data)
        return error_of(part), part["baseOffset"]

    @property
    def end(self) -> int:
        return self.requests.offset(self.topic, LATEST)


@pytest.fixture
def begun(wire: WireClient, topics: Topics) -> Begun:
    return Begun(wire, topics)


def test_next_sequence_is_stored(begun: Begun) -> None:
    assert begun.send(b"c", sequence=2) == ("NONE", 2)


def test_repeated_batch_has_its_first_offset_and_is_stored_once(begun: Begun) -> None:
    assert begun.send(b"a", b"b", sequence=0) == ("NONE", 0)
    assert begun.end == 2


def test_each_of_the_last_five_batches_is_recognized(begun: Begun) -> None:
    for sequence in range(2, 6):
        begun.send(b"x", sequence=sequence)

    assert begun.send(b"a", b"b", sequence=0) == ("NONE", 0)
    assert begun.send(b"x", sequence=3) == ("NONE", 3)
    assert begun.end == 6


def test_repeated_batch_before_the_last_five_is_refused(begun: Begun) -> None:
    for sequence in range(2, 7):
        begun.send(b"x", sequence=sequence)

    error, _ = begun.send(b"a", b"b", sequence=0)

    assert error in {"DUPLICATE_SEQUENCE_NUMBER", "OUT_OF_ORDER_SEQUENCE_NUMBER"}
    assert begun.end == 7


def test_sequence_with_a_gap_is_refused(begun: Begun) -> None:
    assert begun.send(b"d", sequence=3)[0] == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert begun.end == 2


def test_batch_that_overlaps_the_last_one_is_refused(begun: Begun) -> None:
    assert begun.send(b"b", b"c", sequence=1)[0] == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert begun.end == 2


def test_new_epoch_begins_at_sequence_zero(begun: Begun) -> None:
    assert begun.send(b"c", sequence=2, epoch=begun.epoch + 1)[0] == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert begun.send(b"c", sequence=0, epoch=begun.epoch + 1) == ("NONE", 2)


def test_old_epoch_is_refused(begun: Begun) -> None:
    begun.send(b"c", sequence=0, epoch=begun.epoch + 1)

    assert begun.send(b"d", sequence=2)[0] == "INVALID_PRODUCER_EPOCH"
    assert begun.end == 3


def test_unknown_producer_may_begin_anywhere(begun: Begun) -> None:
    data = records(b"x", base_sequence=17, **NO_PRODUCER)

    assert error_of(begun.requests.produce(begun.topic, data)) == "NONE"


def test_sequences_go_on_at_zero_after_the_largest_integer(begun: Begun) -> None:
    identity = {"producer_id": begun.producer_id + 1_000_000, "producer_epoch": 0}
    first = records(b"x", b"y", base_sequence=LAST_SEQUENCE - 1, **identity)
    following = records(b"z", base_sequence=0, **identity)

    assert error_of(begun.requests.produce(begun.topic, first)) == "NONE"
    assert error_of(begun.requests.produce(begun.topic, following)) == "NONE"
    assert begun.requests.produce(begun.topic, following)["baseOffset"] == 4
    assert begun.end == 5


@pytest.mark.parametrize("version", range(3, 14))
def test_duplicate_is_recognized_in_every_version(begun: Begun, version: int) -> None:
    data = records(
        b"a", b"b", producer_id=begun.producer_id, producer_epoch=begun.epoch, base_sequence=0
    )  # fmt: skip

    part = begun.requests.produce(begun.topic, data, version=version)

    assert (error_of(part), part["baseOffset"]) == ("NONE", 0)
    assert begun.end == 2


def test_new_producers_have_ids_of_their_own(begun: Begun) -> None:
    low, high = begun.requests.wire.versions[INIT_PRODUCER_ID]
    found = [begun.requests.init_producer(version=version) for version in range(low, high + 1)]

    assert {error_of(answer) for answer in found} == {"NONE"}
    assert {answer["producerEpoch"] for answer in found} == {0}
    assert len({answer["producerId"] for answer in found} | {begun.producer_id}) == len(found) + 1


def test_epoch_of_a_producer_rises_when_it_asks_again(begun: Begun) -> None:
    again = begun.requests.init_producer(producer_id=begun.producer_id, epoch=begun.epoch)

    assert error_of(again) == "NONE"
    assert again["producerEpoch"] >= 0
