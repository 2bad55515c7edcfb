"""The standing of a share group in the partitions that this node leads, for every client that asks.

Kafka has no request for it. It is a read-only config of the group, `pylog.share.standing`, as JSON, which is given to
those who ask for it by name. So every client may ask, under the rules that hold for configs.
"""

from collections.abc import Callable, Iterable

from pylog.coordinator.share.standing import Standing
from pylog.protocol.messages.configs import (
    SHARE_STANDING,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ResourceType,
)
from pylog.record import TopicPartition
from pylog.runtime.json_lines import json_line

Standings = Callable[[str], Iterable[tuple[TopicPartition, Standing]]]
"""Gives the standing of a group in each partition."""
Entry = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult


def with_standing(
    asked: DescribeConfigsRequest, answer: DescribeConfigsResponse, standings: Standings
) -> DescribeConfigsResponse:
    """An answer with the standing of each group of which that is asked."""
    for resource, result in zip(asked.resources, answer.results, strict=True):
        is_group = resource.resource_type == ResourceType.GROUP and result.error is None
        if is_group and SHARE_STANDING in (resource.configuration_keys or ()):
            found = [[*key, *one] for key, one in standings(resource.resource_name)]
            entry = Entry(name=SHARE_STANDING, value=json_line(found), documentation=None, read_only=True)
            result.configs.append(entry)
    return answer
