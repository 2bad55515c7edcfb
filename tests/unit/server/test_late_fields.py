"""Fields of responses that older versions lack and cannot be silent about: a rule of the key has them off there."""

from collections.abc import Iterator

from pylog.protocol.schema.table import NEVER, Field, load
from pylog.server.api.table import APIS

RULES = {
    "AddPartitionsToTxn.resultsByTransaction": "server/api/transactions",
    "DeleteTopics.responses.name": "DeleteTopics gives a name wherever the request has one",
    "DescribeGroups.groups.authorizedOperations": "an older request cannot ask for them",
    "JoinGroup.protocolName": "server/api/membership",
    "JoinGroup.skipAssignment": "server/api/membership",
    "LeaveGroup.members": "server/api/membership",
    "OffsetFetch.groups": "server/api/offsets",
    "ListOffsets.topics.partitions.leaderEpoch": "server/api/list_offsets",
    "Metadata.clusterAuthorizedOperations": "an older request cannot ask for them",
    "Metadata.topics.name": "an older request is refused where it names a topic by its id",
    "Metadata.topics.topicAuthorizedOperations": "an older request cannot ask for them",
    "Produce.nodeEndpoints": "no version is told another leader: a client looks it up",
    "Produce.responses.partitionResponses.currentLeader": "no version is told another leader: a client looks it up",
}
"""Where it is seen to that an older version has none of them."""


def late(fields: tuple[Field, ...], low: int, high: int, path: str) -> Iterator[str]:
    """The paths of fields, of those of a message from version `low` to `high`, that come later or are None later."""
    for one in fields:
        here, first = f"{path}.{one.name}", max(one.versions.low, low)
        may_be_none_later = one.nullable != NEVER and one.nullable.low > first
        comes_later = one.versions.low > low and not one.ignorable
        if one.versions.low <= high and not one.name.startswith("error") and (comes_later or may_be_none_later):
            yield here
        yield from late(one.fields, first, high, here)


def test_each_field_that_older_versions_cannot_say_has_a_rule() -> None:
    classes = [api for api in APIS.values() if api.into is not None]
    found = [path for api in classes for path in late(load(f"{api.name}Response").fields, api.low, api.high, api.name)]
    assert sorted(found) == sorted(RULES)
