"""Members of share groups, and the host of their coordinator."""

from typing import Any
from uuid import UUID

from pylog.config import NodeConfig
from pylog.coordinator.group.share_group import ShareGroup
from pylog.protocol.messages import LEAVE_EPOCH
from pylog.protocol.messages.share import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from support.group_host import FixedTopics, GroupHost

SHARE_SESSION_MS = NodeConfig().group_share_session_timeout_ms


class ShareHost(GroupHost):
    """A coordinator with share groups."""

    def __init__(self, config: NodeConfig | None = None, **partitions: int) -> None:
        super().__init__(config)
        self.topics.topics = FixedTopics(**(partitions or {"t": 4})).topics

    def group(self, group_id: str = "g") -> ShareGroup:
        group = self.coordinator._groups[group_id]
        assert isinstance(group, ShareGroup)
        return group

    def slots(self, topic: str = "t") -> set[tuple[UUID, int]]:
        topic_id, count = self.topics.topics[topic]
        return {(topic_id, number) for number in range(count)}


class ShareClient:
    """A member: it knows what the last answer has said."""

    def __init__(self, host: ShareHost, name: str, topics: list[str], group_id: str = "g", address: str = "/h") -> None:
        self.host, self.name, self.topics, self.group_id, self.address = host, name, topics, group_id, address
        self.epoch = 0
        self.owned: set[tuple[UUID, int]] = set()
        self.ticket = 0

    def message(self, **values: Any) -> ShareGroupHeartbeatRequest:
        said = self.topics if self.epoch == 0 else None
        given = {"subscribed_topic_names": said, "member_epoch": self.epoch, **values}
        return ShareGroupHeartbeatRequest(group_id=self.group_id, member_id=self.name, **given)

    def beat(self, **values: Any) -> ShareGroupHeartbeatResponse:
        """Send a heartbeat whose answer comes at once."""
        self.ticket = self.host.send(self.message(**values), host=self.address)
        return self.hear()

    def hear(self) -> ShareGroupHeartbeatResponse:
        """Take the answer to the last heartbeat."""
        answer: ShareGroupHeartbeatResponse = self.host.answers.pop(self.ticket)
        if answer.error is None:
            self.epoch = answer.member_epoch
        if answer.assignment is not None:
            parts = answer.assignment.topic_partitions
            self.owned = {(topic.topic_id, number) for topic in parts for number in topic.partitions}
        return answer

    def wait(self, max_wait_ms: int = 1000) -> None:
        """Send a heartbeat whose answer may be kept back."""
        self.ticket = self.host.send(self.message(max_wait_ms=max_wait_ms), host=self.address)

    def leave(self) -> ShareGroupHeartbeatResponse:
        self.ticket = self.host.send(self.message(member_epoch=LEAVE_EPOCH), host=self.address)
        answer: ShareGroupHeartbeatResponse = self.host.answers.pop(self.ticket)
        self.epoch, self.owned = 0, set()
        return answer
