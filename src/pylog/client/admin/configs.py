"""Configs of topics, of nodes and of groups: described, and changed while everything runs."""

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import NamedTuple

from pylog.client.cluster import Cluster, checked_name, checked_names, raise_first, sole
from pylog.protocol.messages import ConfigResource, ConfigSource, ResourceType
from pylog.protocol.messages.configs import (
    OPERATIONS,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
)

AlterableConfig = IncrementalAlterConfigsRequest.AlterConfigsResource.AlterableConfig
ConfigEntry = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult
SOURCES = {source.value: source for source in ConfigSource}
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
        """Every config that a topic goes by, by Kafka's names. Raises UnknownTopicOrPartition, InvalidTopic.

        >>> admin.describe_topic_config("orders")["retention.ms"]
        ConfigValue(value='-1', source=<ConfigSource.DEFAULT_CONFIG: 5>)
        """
        return self._values_of(ConfigResource(ResourceType.TOPIC, name))

    def describe_group_config(self, group_id: str) -> dict[str, ConfigValue]:
        """Every config that a group of the consumer protocol goes by, by Kafka's names. The group need not be there.

        Raises InvalidRequest for a group without a name.

        >>> admin.describe_group_config("billing")["consumer.session.timeout.ms"].value
        '45000'
        """
        return self._values_of(ConfigResource(ResourceType.GROUP, group_id))

    def describe_node_config(self) -> dict[str, NodeConfigValue]:
        """Every config that the node goes by, by Kafka's names. At a cluster it is the node with the lowest id.

        >>> admin.describe_node_config()["log.retention.ms"]
        NodeConfigValue(value='-1', source=<ConfigSource.DEFAULT_CONFIG: 5>, is_read_only=False)
        """
        found = self._configs_of(ConfigResource(ResourceType.BROKER, str(self._cluster.node)))
        return {
            one.name: NodeConfigValue(one.value, source_of(one), one.read_only)
            for one in found
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

        >>> admin.alter_config("orders", {"retention.ms": 86_400_000})
        >>> admin.describe_topic_config("orders")["retention.ms"].value
        '86400000'
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

        >>> admin.alter_node_config({"log.retention.ms": 86_400_000})
        >>> admin.describe_topic_config("orders")["retention.ms"].value
        '86400000'
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

        >>> admin.alter_group_config("billing", {"consumer.session.timeout.ms": 50_000})
        >>> admin.describe_group_config("billing")["consumer.session.timeout.ms"].value
        '50000'
        """
        changes = _changes(config, delete, None, None)
        self._alter(ConfigResource(ResourceType.GROUP, group_id), changes, validate_only)

    def _values_of(self, resource: ConfigResource) -> dict[str, ConfigValue]:
        return {one.name: ConfigValue(one.value or "", source_of(one)) for one in self._configs_of(resource)}

    def _configs_of(self, resource: ConfigResource) -> list[ConfigEntry]:
        asked = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=resource.type, resource_name=checked_name(resource.type.name.lower(), resource.name)
        )
        result = sole(self._cluster.ask(DescribeConfigsRequest(resources=[asked])).results, "one resource")
        raise_first([result.error])
        return sorted(result.configs, key=attrgetter("name"))

    def _alter(self, resource: ConfigResource, changes: list[AlterableConfig], validate_only: bool) -> None:
        change = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=resource.type, resource_name=checked_name(resource.type.name.lower(), resource.name),
            configs=changes,
        )  # fmt: skip
        request = IncrementalAlterConfigsRequest(resources=[change], validate_only=validate_only)
        raise_first([sole(self._cluster.ask(request).responses, "one resource").error])


def source_of(config: ConfigEntry) -> ConfigSource:
    """The source of a config's value. One that only later versions of Kafka have is `ConfigSource.UNKNOWN`."""
    return SOURCES.get(config.config_source, ConfigSource.UNKNOWN)


def _changes(
    config: Mapping[str, object] | None, delete: Iterable[str], append: Mapping[str, object] | None,
    subtract: Mapping[str, object] | None,
) -> list[AlterableConfig]:  # fmt: skip
    changes = [_change(key, "delete", None) for key in checked_names("delete", delete)]
    for operation, given in {"set": config, "append": append, "subtract": subtract}.items():
        changes += [_change(key, operation, text) for key, text in config_texts(given or {}).items()]
    return changes


def _change(key: str, operation: str, value: str | None) -> AlterableConfig:
    return AlterableConfig(name=_dotted(key), config_operation=OPERATIONS.index(operation), value=value)


def _dotted(key: str) -> str:
    return key.replace("_", ".")


def config_texts(config: Mapping[str, object]) -> dict[str, str]:
    """The values of configs as texts. Raises TypeError."""
    if not isinstance(config, Mapping):
        raise TypeError(f"a config is a dict of names and values, not {type(config).__name__}")
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}
