"""The description of configs: of topics, of the node, of all nodes and of groups."""

from collections.abc import Callable, Mapping

from pylog.broker.describe import absent_topic
from pylog.config import DynamicBrokerConfig, NodeConfig
from pylog.config.dynamic import Altered
from pylog.controller.configs import check_broker
from pylog.errors import InvalidRequest, PylogError
from pylog.protocol.described_configs import NodeEntries, group_entries, topic_entries
from pylog.protocol.messages import (
    ConfigEntry,
    ConfigResource,
    DescribeConfigs,
    DescribedConfigs,
    ListedConfigResources,
    ResourceType,
)
from pylog.protocol.metadata_image import MetadataImage

__all__ = ["describe_configs", "list_config_resources", "looked_up"]


def looked_up(image: Callable[[], MetadataImage], given: NodeConfig, broker: str) -> DynamicBrokerConfig:
    """The configs in force on a node that was opened with these configs: `image` gives what was set since. `broker` is
    its id.
    """
    cluster, own = (ConfigResource(ResourceType.BROKER, name) for name in ("", broker))

    def altered() -> Altered:
        now = image()
        return Altered(now.configs_of(cluster), now.configs_of(own))

    def of_group(group_id: str) -> Mapping[str, str]:
        return image().configs_of(ConfigResource(ResourceType.GROUP, group_id))

    return DynamicBrokerConfig(given, altered, of_group)


def list_config_resources(image: MetadataImage) -> ListedConfigResources:
    """Answer a ListConfigResources request."""
    return ListedConfigResources(sorted(one for one in image.configs if one.type is ResourceType.GROUP))


def describe_configs(
    image: MetadataImage, configs: DynamicBrokerConfig, node_id: int, asked: DescribeConfigs
) -> DescribedConfigs:
    """Answer a DescribeConfigs request: every config that a resource goes by; one without configs carries its error."""
    node = NodeEntries(configs)
    found: list[dict[str, ConfigEntry] | PylogError] = []
    for resource in asked.resources:
        try:
            entries = _entries(resource, image, node, node_id)
        except PylogError as error:
            found.append(error.with_traceback(None))
            continue
        for entry in entries.values() if not asked.with_synonyms else ():
            entry.synonyms = []
        found.append(entries)
    return DescribedConfigs(found)


def _entries(
    resource: ConfigResource, image: MetadataImage, node: NodeEntries, node_id: int
) -> dict[str, ConfigEntry]:  # fmt: skip
    """Raises UnknownTopicOrPartition, InvalidTopic, InvalidRequest."""
    kind, name = resource
    if kind is ResourceType.TOPIC:
        topic = image.topics.get(name)
        if topic is None:
            raise absent_topic(name)
        return topic_entries(topic.config, node)
    if kind is ResourceType.GROUP:
        if not name:
            raise InvalidRequest("Group name must not be empty")
        return group_entries(name, node)
    check_broker(name, node_id)
    return node.entries() if name else node.entries_of_all()
