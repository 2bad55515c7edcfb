"""Configs with their values and where each comes from: of a topic, of the node, of all nodes and of a group.

The first of these that has a config decides (Kafka: ConfigHelper):

    the topic, the group      what is set on it, under its own name
    the node, all nodes       what was set while they ran, under the broker's name
    the node                  what it was given when it was opened
    the default
"""

from collections.abc import Mapping

from pylog.config import ConfigType, DynamicBrokerConfig, GroupConfig, NodeConfig, TopicConfig, config_type
from pylog.config.dynamic import broker_kinds, dynamic_kinds
from pylog.config.options import Kind
from pylog.protocol.messages.configs import ConfigSource, DescribeConfigsResponse

__all__ = ["ConfigEntry", "NodeEntries", "group_entries", "topic_entries"]

ConfigEntry = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult
Synonym = ConfigEntry.DescribeConfigsSynonym
DEFAULTS = NodeConfig().to_kafka()


class NodeEntries:
    """The configs of a node, and what they are by default, as given, and as set on all nodes and on this one."""

    def __init__(self, configs: DynamicBrokerConfig) -> None:
        self.configs = configs
        self.altered, self.config = configs.altered, configs.current
        self.given = configs.given_texts

    def synonyms(self, name: str) -> list[Synonym]:
        """The values for a config, the strongest first. One that was given as it is by default counts as the default;
        a name that no broker has gives none.
        """
        values = {
            ConfigSource.DYNAMIC_BROKER_CONFIG: self.altered.own.get(name),
            ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: self.altered.cluster.get(name),
            ConfigSource.STATIC_BROKER_CONFIG: self.given.get(name),
            ConfigSource.DEFAULT_CONFIG: DEFAULTS.get(name),
        }
        if values[ConfigSource.STATIC_BROKER_CONFIG] == values[ConfigSource.DEFAULT_CONFIG]:
            del values[ConfigSource.STATIC_BROKER_CONFIG]
        return [Synonym(name=name, value=value, source=source) for source, value in values.items() if value is not None]

    def entries(self) -> dict[str, ConfigEntry]:
        """Every config of the node."""
        kinds, dynamic = broker_kinds(), dynamic_kinds()
        return {
            name: _entry(name, value, self.synonyms(name), kinds[name], is_read_only=name not in dynamic)
            for name, value in self.config.to_kafka().items()
        }

    def entries_of_all(self) -> dict[str, ConfigEntry]:
        """The configs that were set on all nodes."""
        dynamic, source = dynamic_kinds(), ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        return {
            name: _entry(name, value, [Synonym(name=name, value=value, source=source)], dynamic[name])
            for name, value in self.altered.cluster.items()
            if name in dynamic
        }


def topic_entries(overrides: Mapping[str, str], node: NodeEntries) -> dict[str, ConfigEntry]:
    """Every config of a topic on which these are set."""
    kinds, broker_names = TopicConfig.kinds(), TopicConfig.broker_names()
    values = TopicConfig.loaded(overrides, defaults=node.config.topic_defaults).to_kafka()
    entries = {}
    for key, value in values.items():
        synonyms = [synonym for one in broker_names[key][:1] for synonym in node.synonyms(one)]
        own = _own(key, value, overrides, kinds[key], ConfigSource.DYNAMIC_TOPIC_CONFIG)
        entries[key] = _entry(key, value, own + synonyms, kinds[key])
    return entries


def group_entries(name: str, node: NodeEntries) -> dict[str, ConfigEntry]:
    """Every config of a group, which may not be there."""
    kinds, overrides = GroupConfig.kinds(), node.configs.group_overrides(name)
    entries = {}
    for key, value in node.configs.of_group(name).to_kafka().items():
        own = _own(key, value, overrides, kinds[key], ConfigSource.DYNAMIC_GROUP_CONFIG)
        entries[key] = _entry(key, value, own + node.synonyms(f"group.{key}"), kinds[key])
    return entries


def _own(
    name: str, value: str, overrides: Mapping[str, str], kind: Kind, source: ConfigSource
) -> list[Synonym]:  # fmt: skip
    """The value that is set on a resource itself. Words stand there in the order in which they were given."""
    if name not in overrides:
        return []
    text = overrides[name] if config_type(kind) is ConfigType.LIST else value
    return [Synonym(name=name, value=text, source=source)]


def _entry(
    name: str, value: str, synonyms: list[Synonym], kind: Kind, *, is_read_only: bool = False
) -> ConfigEntry:  # fmt: skip
    is_list = bool(synonyms) and config_type(kind) is ConfigType.LIST
    return ConfigEntry(
        name=name, value=synonyms[0].value if is_list else value, read_only=is_read_only,
        config_source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG, synonyms=synonyms,
        config_type=int(config_type(kind)), documentation=None,
    )  # fmt: skip
