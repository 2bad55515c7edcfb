"""Configs of topics, of nodes and of groups: described, and changed while everything runs."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pylog.client.cluster import Cluster, checked_name, checked_names
from pylog.errors import PylogError
from pylog.protocol.messages import (
    AlterConfigs,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigsAltered,
    ConfigSource,
    DescribeConfigs,
    DescribedConfigs,
    ResourceChange,
    ResourceType,
)

SET_ON_IT = frozenset({ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_GROUP_CONFIG})


class ConfigValue(NamedTuple):
    """A config of a topic or a group, and where it comes from."""

    value: str
    source: ConfigSource

    @property
    def is_set(self) -> bool:
        """True for a config that the topic, or the group, itself has; False for a default."""
        return self.source in SET_ON_IT


class NodeConfigValue(NamedTuple):
    """A config of a node, and where it comes from: it was set on the node, or on all nodes, while it ran; it was given
    when the node was opened; or it is the default.
    """

    value: str
    source: ConfigSource
    is_read_only: bool
    """True for a config that can only be given when the node is opened."""


class ConfigAdmin:
    """Admin calls about configs."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def describe_topic_config(self, name: str) -> dict[str, ConfigValue]:
        """Every config that a topic goes by, by Kafka's names. Raises UnknownTopicOrPartition, InvalidTopic."""
        return self._values_of(ConfigResource(ResourceType.TOPIC, name))

    def describe_group_config(self, group_id: str) -> dict[str, ConfigValue]:
        """Every config that a group of the consumer protocol goes by, by Kafka's names. The group need not be there.

        Raises InvalidRequest for a group without a name.
        """
        return self._values_of(ConfigResource(ResourceType.GROUP, group_id))

    def describe_node_config(self) -> dict[str, NodeConfigValue]:
        """Every config that the node goes by, by Kafka's names. At a cluster it is the node with the lowest id."""
        found = self._configs_of(ConfigResource(ResourceType.BROKER, str(self._cluster.node)))
        return {
            key: NodeConfigValue(one.value, one.source, one.is_read_only)
            for key, one in sorted(found.items())
            if one.value is not None
        }

    def alter_config(
        self, name: str, config: Mapping[str, object] | None = None, delete: Iterable[str] = (), *,
        append: Mapping[str, object] | None = None, subtract: Mapping[str, object] | None = None,
        validate_only: bool = False,
    ) -> None:  # fmt: skip
        """Set configs of a topic, take others back to their defaults, and add words to those that are lists or take
        them away (`append`, `subtract`); or only say what would be wrong with that (`validate_only`).

        Raises UnknownTopicOrPartition, InvalidConfig, TypeError; nothing is changed then.
        """
        changes = _changes(config, delete, append, subtract)
        self._alter(ConfigResource(ResourceType.TOPIC, name), changes, validate_only)

    def alter_node_config(
        self, config: Mapping[str, object] | None = None, delete: Iterable[str] = (), *, node: int | None = None,
        append: Mapping[str, object] | None = None, subtract: Mapping[str, object] | None = None,
        validate_only: bool = False,
    ) -> None:  # fmt: skip
        """Set configs of all nodes of the cluster, or of one `node`; they go by them at once, and after they are opened
        again. What is set on one node comes first, then what is set on all, then what it was given when it was opened.

        The defaults of topics can be set by their broker names (`log.retention.ms`, `log.segment.bytes`), and few
        others: `describe_node_config` says which are read-only. `delete`, `append`, `subtract`, `validate_only`: see
        `alter_config`. Raises InvalidRequest, also for a bad value, as Kafka does; nothing is changed then.
        """
        name = "" if node is None else str(node)
        changes = _changes(config, delete, append, subtract)
        self._alter(ConfigResource(ResourceType.BROKER, name), changes, validate_only)

    def alter_group_config(
        self, group_id: str, config: Mapping[str, object] | None = None, delete: Iterable[str] = (), *,
        validate_only: bool = False,
    ) -> None:  # fmt: skip
        """Set configs of a group of the consumer protocol, which need not be there yet: `consumer.session.timeout.ms`,
        `consumer.heartbeat.interval.ms`. Its members hear of an interval with their next heartbeat.

        The node limits them (`group.consumer.min.session.timeout.ms`...). `delete`, `validate_only`: see
        `alter_config`. Raises InvalidConfig, InvalidRequest; nothing is changed then.
        """
        changes = _changes(config, delete, None, None)
        self._alter(ConfigResource(ResourceType.GROUP, group_id), changes, validate_only)

    def _values_of(self, resource: ConfigResource) -> dict[str, ConfigValue]:
        found = sorted(self._configs_of(resource).items())
        return {key: ConfigValue(one.value or "", one.source) for key, one in found}

    def _configs_of(self, resource: ConfigResource) -> dict[str, ConfigEntry]:
        checked_name(resource.type.name.lower(), resource.name)
        answer: DescribedConfigs = self._cluster.ask(DescribeConfigs([resource]))
        (found,) = answer.configs
        if isinstance(found, PylogError):
            raise found
        return found

    def _alter(self, resource: ConfigResource, changes: list[ConfigChange], validate_only: bool) -> None:
        checked_name(resource.type.name.lower(), resource.name)
        answer: ConfigsAltered = self._cluster.ask(AlterConfigs([ResourceChange(resource, changes)], validate_only))
        (error,) = answer.errors
        if error is not None:
            raise error


def _changes(
    config: Mapping[str, object] | None, delete: Iterable[str], append: Mapping[str, object] | None,
    subtract: Mapping[str, object] | None,
) -> list[ConfigChange]:  # fmt: skip
    changes = [ConfigChange(_dotted(key), operation="delete") for key in checked_names("delete", delete)]
    for operation, given in {"set": config, "append": append, "subtract": subtract}.items():
        changes += [ConfigChange(_dotted(key), text, operation) for key, text in config_texts(given or {}).items()]
    return changes


def _dotted(key: str) -> str:
    return key.replace("_", ".")


def config_texts(config: Mapping[str, object]) -> dict[str, str]:
    """The values of configs as texts. Raises TypeError."""
    if not isinstance(config, Mapping):
        raise TypeError(f"a config is a dict of names and values, not {type(config).__name__}")
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}
