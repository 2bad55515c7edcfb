"""The campaign's own parts: what it draws can be sent, and what differs is found."""

import random
from typing import Any
from uuid import UUID

from differential.campaign import differences, names_twice
from differential.known import KNOWN
from differential.requests import Asked, Requests, beginning
from differential.symbols import Numbers, Symbol
from pylog.protocol import schema
from support.every_request import MESSAGES

ALL = {name: range(low, high + 1) for name in MESSAGES for low, high in [schema.message(f"{name}Request").versions]}


def drawn(seed: int, count: int) -> list[Asked]:
    requests = Requests(random.Random(seed), "r1", ALL)
    return [requests.draw() for _ in range(count)]


def test_the_same_dice_draw_the_same_requests_and_each_can_be_sent() -> None:
    numbers, asked = Numbers(), [*beginning("r1"), *drawn(1, 600)]

    for one in asked:
        schema.message(f"{one.message}Request").encode(one.version, numbers.resolve(one.body))
    assert {one.message for one in asked} == set(MESSAGES)
    assert list(map(str, asked[-600:])) == list(map(str, drawn(1, 600))) != list(map(str, drawn(2, 600)))


def test_a_server_s_own_numbers_stand_for_symbols() -> None:
    numbers, topic_id = Numbers(), UUID(int=5 << 100)
    numbers.learn("CreateTopics", {}, {"topics": [{"errorCode": 0, "name": "t", "topicId": topic_id}]})
    numbers.learn("InitProducerId", {"transactionalId": "x"}, {"errorCode": 0, "producerId": 9, "producerEpoch": 3})

    resolved = numbers.resolve({"a": [Symbol("topicId", "t")], "b": Symbol("producerEpoch", "x", plus=-1)})

    assert resolved == {"a": [topic_id], "b": 2}
    assert numbers.name("producerId", 9) == "producerId 1 of x"


def test_a_difference_is_told_with_its_place() -> None:
    def told(one: Any, other: Any) -> list[tuple[str, Any, Any]]:
        return list(differences(one, other))

    assert told({"a": [{"b": 1}]}, {"a": [{"b": 2}]}) == [(".a[].b", 1, 2)]
    assert told({"errorCode": "NONE", "a": 1}, {"errorCode": "OTHER", "a": 2}) == [(".errorCode", "NONE", "OTHER")]
    assert told({"a": [1]}, {"a": [1, 2]}) == [(".a", [1], [1, 2])]
    assert told({"a": 1}, {"a": 1}) == []


def test_a_request_names_something_twice_in_one_of_its_lists() -> None:
    assert names_twice({"topics": [{"name": "t", "partitions": [0, 1, 0]}]})
    assert names_twice({"topics": [{"name": "t", "x": 1}, {"name": "t", "x": 2}]})
    assert not names_twice({"topics": [{"name": "t", "partitions": [0]}, {"name": "u", "partitions": [0]}]})


def test_a_known_difference_looks_at_any_request_of_its_kind() -> None:
    for asked in drawn(3, 600):
        for known in KNOWN:
            for place in (".errorCode", ".topics", ".responses[].partitions[].errorCode", ".nextCursor"):
                assert known.explains(asked, place, "NONE", "NONE") in (True, False)
