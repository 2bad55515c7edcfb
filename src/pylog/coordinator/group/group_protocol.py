"""The interface of a group of any protocol for offsets and administration."""

from typing import NamedTuple, Protocol

from pylog.coordinator.effects import LogRecord
from pylog.coordinator.group.effects_builder import EffectsBuilder
from pylog.coordinator.group.records import Committed
from pylog.protocol.messages.groups import ListGroupsResponse
from pylog.protocol.messages.offsets import OffsetCommitRequest, OffsetsToFetch, TxnOffsetCommitRequest
from pylog.record import TopicPartition


class Group(Protocol):
    """A group of any protocol."""

    group_id: str
    expires: bool
    """True if it goes when it has no members and no offsets left."""

    @property
    def is_empty(self) -> bool:
        """True if it has no members: then it may be deleted."""

    def check_commit(self, message: OffsetCommitRequest | TxnOffsetCommitRequest) -> None:
        """Raises the ProtocolError with which this commit is refused."""

    def commits(self, message: OffsetCommitRequest, out: EffectsBuilder) -> None:
        """Note a commit of a member as a sign of life, where the protocol counts it as one."""

    def check_fetch(self, message: OffsetsToFetch) -> None:
        """Raises the ProtocolError with which this fetch is refused."""

    def check_offset_delete(self) -> None:
        """Raises the ProtocolError with which a deletion of offsets is refused."""

    def is_subscribed(self, topic: str) -> bool:
        """True if members read the topic, as far as it is known: its offsets stay."""

    def expires_from(self, committed: Committed) -> int | None:
        """The time (wall ms) from which the retention of an offset counts; None: it does not expire as things stand."""

    def tombstones(self) -> list[LogRecord]:
        """The records that delete the group itself."""

    def listed(self) -> ListGroupsResponse.ListedGroup:
        """The group as a list of groups shows it."""

    def close(self) -> None:
        """Close the group: it is deleted."""


class Census(NamedTuple):
    """The counts of a coordinator since it took over."""

    groups: list[tuple[ListGroupsResponse.ListedGroup, dict[TopicPartition, Committed]]]
    """Each group, and what it has committed."""
    offset_commits: int
    classic_rebalances: int
    """Generations of classic groups that were assigned."""
    consumer_rebalances: int
    """New epochs of consumer groups."""
