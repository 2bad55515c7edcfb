"""OffsetFetch as a client says and hears it: below version 8 one group has fields of its own."""

from typing import Any

import pytest

from pylog.errors import GroupAuthorization, NotLeaderOrFollower, UnsupportedFormat
from pylog.protocol.messages.offsets import FetchedOffset, OffsetFetchRequest, OffsetFetchResponse, OffsetsFetched
from pylog.protocol.schema import message
from pylog.record import OffsetAndMetadata, TopicPartition

KEYS = [TopicPartition("t", 1), TopicPartition("u", 0), TopicPartition("t", 0)]
VERSIONS = range(OffsetFetchRequest.lowest, OffsetFetchRequest.highest + 1)
FAILED = NotLeaderOrFollower("elsewhere")


def said(asked: OffsetFetchRequest, version: int) -> dict[str, Any]:
    """The group that a server reads, in a version."""
    data = message("OffsetFetchRequest").encode(version, asked.said_in(version))
    body: dict[str, Any] = message("OffsetFetchRequest").decode(version, data)[0]
    assert body.get("requireStable", False) == asked.require_stable
    if version < 8:
        return body
    (group,) = body["groups"]
    return dict(group)


def heard(asked: OffsetFetchRequest, group: OffsetsFetched, version: int) -> OffsetFetchResponse:
    """What a client makes of the bytes of an answer."""
    topics: Any = group.topics
    one = OffsetFetchResponse(topics=topics, error=group.error)
    whole = OffsetFetchResponse(groups=[group]) if version >= 8 else one
    data = message("OffsetFetchResponse").encode(version, whole)
    return asked.heard_in(version, message("OffsetFetchResponse").decode(version, data, into=OffsetFetchResponse)[0])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_is_asked_for_in_every_version(version: int) -> None:
    group = said(OffsetFetchRequest.of("g", KEYS), version)
    assert (group["groupId"], [(topic["name"], topic["partitionIndexes"]) for topic in group["topics"]]) == (
        "g", [("t", [1, 0]), ("u", [0])]
    )  # fmt: skip
    assert said(OffsetFetchRequest.of("g"), version)["topics"] is None


@pytest.mark.parametrize("version", VERSIONS)
def test_stable_offsets_are_asked_for_where_a_version_can_say_it(version: int) -> None:
    asked = OffsetFetchRequest.of("g", KEYS, require_stable=True)
    if version >= 7:
        assert said(asked, version)["groupId"] == "g"
    else:
        with pytest.raises(UnsupportedFormat, match="requireStable"):
            said(asked, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_are_heard_as_they_were_told(version: int) -> None:
    asked = OffsetFetchRequest.of("g", KEYS)
    group = asked.groups[0].answered(
        lambda key, _: asked.groups[0].told(key, FAILED) if key == KEYS[1] else FetchedOffset(
            partition_index=key.partition, committed_offset=5, committed_leader_epoch=3, metadata=None
        )
    )  # fmt: skip
    answer = heard(asked, group, version)
    found = asked.found(answer)
    assert list(found) == asked.groups[0].partitions() == [KEYS[0], KEYS[2], KEYS[1]]
    assert found[KEYS[0]].position == OffsetAndMetadata(5, "", 3 if version >= 5 else -1)
    assert isinstance(asked.first_error(answer), NotLeaderOrFollower) and asked.group_error(answer) is None
    assert OffsetFetchRequest.of("g").found(answer).keys() == set(KEYS)

    del group.topics[1:]
    assert "without a word of u-0" in str(asked.found(heard(asked, group, version))[KEYS[1]].error)
    refused = heard(asked, OffsetsFetched(group_id="g", error=GroupAuthorization("no")), version)
    assert isinstance(asked.group_error(refused), GroupAuthorization)
    assert isinstance(asked.first_error(refused), GroupAuthorization)


def test_a_group_that_is_missing_in_a_response_is_an_error() -> None:
    asked = OffsetFetchRequest.of("g", KEYS)
    assert "without a word of group 'g'" in str(asked.first_error(OffsetFetchResponse()))
    (group,) = asked.refused(FAILED).groups
    assert (group.group_id, group.error, group.topics) == ("g", FAILED, [])
