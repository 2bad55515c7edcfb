"""ListOffsets: offsets by time, and the ends of the log.

    1        one offset a partition                   4   leader epochs (KIP-320)
    7        -3: the record with the largest time     8   -4: where the log starts on this node's disk
    9, 11    -5, -6: ends of tiered storage             10  a time limit, for tiered storage

There is no tiered storage: -4 is the start of the log, and of -5 and -6 there is no offset. A time below 0 that the
version does not know is UnsupportedVersion. A partition that is named twice is InvalidRequest.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from pylog.errors import InvalidRequest, PylogError, UnsupportedVersion
from pylog.protocol.messages import EARLIEST, LATEST, NO_EPOCH
from pylog.protocol.messages.records import (
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from pylog.record import TopicPartition
from pylog.server.api.call import Outcome, Request, api
from pylog.server.api.plain import changed, handed_on
from pylog.server.served_node import ServedNode

EPOCHS_FROM = 4
EARLIEST_LOCAL, TIERED = -4, frozenset({-5, -6})
KNOWN_FROM = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}
"""Since which version a time below 0 means something."""
IN_THE_LOG = {EARLIEST_LOCAL: EARLIEST, **dict.fromkeys(TIERED, LATEST)}
"""The time that stands in for a time of tiered storage. The partition has the same errors for both."""


def answer(request: Request, node: ServedNode) -> Outcome:
    """Look the offsets up. A part that cannot be looked up has an error."""
    outcome = _looked_up(request, node)
    return changed(outcome, _without_epochs) if request.version < EPOCHS_FROM else outcome


def _without_epochs(answer: ListOffsetsResponse) -> ListOffsetsResponse:
    for topic in answer.topics:
        for part in topic.partitions:
            part.leader_epoch = NO_EPOCH
    return answer


def _looked_up(request: Request, node: ServedNode) -> Outcome:
    asked: ListOffsetsRequest = request.body
    parts = asked.keyed()
    errors = _errors(parts, request.version)
    if not errors and all(part.timestamp not in IN_THE_LOG for _, part in parts):
        return handed_on(request, node)
    sent = [
        (key, replace(part, timestamp=IN_THE_LOG.get(part.timestamp, part.timestamp)))
        for key, part in parts
        if key not in errors
    ]

    def response(given: ListOffsetsResponse) -> ListOffsetsResponse:
        found = asked.found(given)

        def listed(key: TopicPartition, part: ListOffsetsPartition) -> ListedOffset:
            if key in errors:
                raise errors[key]
            is_nowhere = part.timestamp in TIERED and found[key].error is None
            return asked.told(key) if is_nowhere else found[key]

        return asked.answered(listed)

    left = request._replace(body=replace(asked, topics=asked.by_topic(sent)))
    return changed(handed_on(left, node), response)


def _errors(
    parts: list[tuple[TopicPartition, ListOffsetsPartition]], version: int
) -> Mapping[TopicPartition, PylogError]:
    """The errors of partitions that cannot be looked up."""
    times_named = Counter(key for key, _ in parts)
    errors: dict[TopicPartition, PylogError] = {}
    for key, part in parts:
        if times_named[key] > 1:
            errors[key] = InvalidRequest(f"{key.topic}-{key.partition} is named more than once")
        elif part.timestamp < 0 and version < KNOWN_FROM.get(part.timestamp, version + 1):
            errors[key] = UnsupportedVersion(
                f"the time {part.timestamp} means nothing in version {version} of ListOffsets"
            )
    return errors


API = api("ListOffsets", answer, into=ListOffsetsRequest)
