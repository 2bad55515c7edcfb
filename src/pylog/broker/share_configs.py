"""The configs that the share groups of a node go by, each looked up once in a state of the metadata log."""

from typing import NamedTuple

from pylog.broker.replica_manager import ReplicaManager
from pylog.config import GroupConfig
from pylog.coordinator.share.share_partition import Limits
from pylog.protocol.isolation import Isolation
from pylog.protocol.metadata_image import MetadataImage

GROUPS_MAX = 1000
"""How many groups are kept."""


class ShareConfig(NamedTuple):
    """The configs of a share group, and those of its node."""

    limits: Limits
    isolation: Isolation
    auto_offset_reset: str
    fetch_max_bytes: int
    sessions_max: int

    @classmethod
    def of(cls, group: GroupConfig, fetch_max_bytes: int, sessions_max: int) -> "ShareConfig":
        """These configs, of a group and of the node."""
        limits = Limits(
            group.share_delivery_count_limit, group.share_partition_max_record_locks,
            group.share_record_lock_duration_ms, group.share_renew_acknowledge_enable,
        )  # fmt: skip
        isolation = Isolation.named(group.share_isolation_level)
        return cls(limits, isolation, group.share_auto_offset_reset, fetch_max_bytes, sessions_max)


class ShareConfigs:
    """The configs of a node's share groups. Thread-safe."""

    def __init__(self, node: ReplicaManager) -> None:
        self._configs, self._log = node.configs, node.topics.metadata_log
        self._known: tuple[MetadataImage | None, dict[str, ShareConfig]] = None, {}

    def of(self, group_id: str) -> ShareConfig:
        """The configs that a group goes by now."""
        image, (seen, groups) = self._log.image, self._known
        if image is not seen or len(groups) > GROUPS_MAX:
            groups = {}
            self._known = image, groups
        found = groups.get(group_id)
        if found is None:
            now = self._configs.current
            found = groups[group_id] = ShareConfig.of(
                self._configs.of_group(group_id), now.fetch_max_bytes, now.group_share_max_share_sessions
            )
        return found
