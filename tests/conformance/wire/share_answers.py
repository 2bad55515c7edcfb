"""What members of share groups are given, in a form that two servers share."""

from dataclasses import dataclass
from typing import Any

from conformance.wire.share_workload import ACCEPT, PART, RENEW
from pylog.protocol.batch import split
from support.raw_client import Body

FAR = 10_000
ACKNOWLEDGED, ARCHIVED = 2, 4
Given = dict[PART, tuple[tuple[str, str], list[tuple[int, int, int]], list[tuple[int, bytes | None]]]]
"""What an answer gives of each partition: its errors, the acquired ranges, the records."""


@dataclass(slots=True)
class Held:
    """What a member acquired."""

    member: str
    first: int
    last: int
    count: int


def batch(first: int, last: int, types: list[int]) -> Body:
    """What is said of a range."""
    return {"firstOffset": first, "lastOffset": last, "acknowledgeTypes": types}


def wrong_batches(right: Body, wrong: str) -> list[Body]:
    """The batches of an acknowledgement, which may not be meant."""
    first, last = right["firstOffset"], right["lastOffset"]
    found = {
        "beyond": [batch(first, last + FAR, [ACCEPT])], "backwards": [batch(last, first - 1, [ACCEPT])],
        "type": [batch(first, last, [7])], "count": [batch(first, last, [ACCEPT] * (last + 3 - first))],
        "twice": [right, right], "renewed": [batch(first, last, [RENEW])],
    }  # fmt: skip
    return found.get(wrong, [right])


def joined(ranges: list[Any]) -> list[Any]:
    """Ranges (first, last, state...), neighbours in one state as one: servers cut them in other places."""
    found: list[Any] = []
    for one in sorted(ranges):
        if found and found[-1][1] + 1 == one[0] and found[-1][2:] == one[2:]:
            found[-1] = (found[-1][0], *one[1:])
        else:
            found.append(one)
    return found


def moved(start: int, batches: list[Any]) -> tuple[int, list[Any]]:
    """The start behind what is done with there, and the batches from there on. Kafka writes down a start that an end of
    locks has moved with the next change.
    """
    while batches and batches[0][0] <= start <= batches[0][1] and batches[0][2] in (ACKNOWLEDGED, ARCHIVED):
        start = batches.pop(0)[1] + 1
    return start, batches


def count_of(given: Given) -> int:
    """How many records there are in an answer, or offsets that are taken for some."""
    return sum(last + 1 - first for _, ranges, _ in given.values() for first, last, _ in ranges)


def merged(one: Given, more: Given) -> Given:
    """What two answers give."""
    found = dict(one)
    for where, (errors, ranges, rows) in more.items():
        before = found.get(where, (errors, [], []))
        found[where] = before[0], joined([*before[1], *ranges]), sorted([*before[2], *rows])
    return found


def rows(data: bytes | None, ranges: list[tuple[int, int, int]]) -> list[tuple[int, bytes | None]]:
    """The records that were acquired. An answer has whole batches."""
    records = [one for batch in split(data or b"") if not batch.is_control for one in batch.records("", 0)]
    return [(one.offset, one.value) for one in records if any(low <= one.offset <= high for low, high, _ in ranges)]
