"""ListOffsets: offsets by time, and the ends of the log.

    1        one offset a partition                   4   leader epochs (KIP-320)
    7        -3: the record with the largest time     8   -4: where the log starts on this node's disk
    9, 11    -5, -6: ends of tiered storage             10  a time limit, for tiered storage

There is no tiered storage: -4 is the start of the log, and of -5 and -6 there is no offset. A time below 0 that the
version does not know is UnsupportedVersion. A partition that is named twice is InvalidRequest.
"""

from collections import Counter
from dataclasses import replace

from pylog.errors import InvalidRequest, PylogError, UnsupportedVersion
from pylog.protocol.messages import EARLIEST, LATEST, ListedOffsets, ListedPart, ListOffsets, ListOffsetsPart
from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.table import MAPPINGS
from pylog.server.api.call import Outcome, Reply, Request, api
from pylog.server.served_node import ServedNode

EARLIEST_LOCAL, TIERED = -4, frozenset({-5, -6})
KNOWN_FROM = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}
"""Since which version a time below 0 means something."""
IN_THE_LOG = {EARLIEST_LOCAL: EARLIEST, **dict.fromkeys(TIERED, LATEST)}
"""The time that stands in for a time of tiered storage. The partition has the same errors for both."""
MAPPING = MAPPINGS["ListOffsets"]


def answer(request: Request, node: ServedNode) -> Outcome:
    """Look the offsets up. A part that cannot be looked up has an error."""
    body, version = request.body, request.version
    asked: ListOffsets = MAPPING.message(body, version)
    times_named = Counter((part.topic, part.partition) for part in asked.parts)
    known: dict[int, ListedPart] = {}
    sent: list[ListOffsetsPart] = []
    tiered: list[bool] = []
    for index, part in enumerate(asked.parts):
        if times_named[part.topic, part.partition] > 1:
            twice = InvalidRequest(f"{part.topic}-{part.partition} is named more than once")
            known[index] = ListedPart(part.topic, part.partition, twice)
        elif part.timestamp < 0 and version < KNOWN_FROM.get(part.timestamp, version + 1):
            unknown = UnsupportedVersion(f"the time {part.timestamp} means nothing in version {version} of ListOffsets")
            known[index] = ListedPart(part.topic, part.partition, unknown)
        else:
            tiered.append(part.timestamp in TIERED)
            part.timestamp = IN_THE_LOG.get(part.timestamp, part.timestamp)
            sent.append(part)

    def response(given: ListedOffsets) -> Body:
        looked_up = (
            ListedPart(part.topic, part.partition) if is_tiered and part.error is None else part
            for part, is_tiered in zip(given.parts, tiered, strict=True)
        )
        parts = [known[index] if index in known else next(looked_up) for index in range(len(asked.parts))]
        return MAPPING.response(body, ListedOffsets(parts), version)

    def refused(error: PylogError) -> Body:
        return MAPPING.response(body, MAPPING.refusal(asked, error), version)

    try:
        return Reply(node.handle(replace(asked, parts=sent), request.session), response, refused)
    except PylogError as error:
        return refused(error)


API = api("ListOffsets", answer)
