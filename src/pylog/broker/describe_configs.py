"""The description of configs: of topics, of the node, of all nodes and of groups."""

from collections.abc import Callable, Mapping
from operator import itemgetter

from pylog.broker.describe import absent_topic
from pylog.config import DynamicBrokerConfig, GroupConfig, NodeConfig, TopicConfig
from pylog.config.documentation import documentation
from pylog.config.dynamic import NOTHING_ALTERED, Altered
from pylog.controller.configs import check_broker
from pylog.errors import InvalidRequest, PylogError, UnsupportedVersion
from pylog.protocol.described_configs import ConfigEntry, NodeEntries, group_entries, topic_entries
from pylog.protocol.messages.configs import (
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ResourceType,
    config_resource,
)
from pylog.protocol.metadata_image import MetadataImage

Result = DescribeConfigsResponse.DescribeConfigsResult
LOGGER, CLIENT_METRICS = 8, 16
LISTED_KINDS = frozenset({*ResourceType, LOGGER, CLIENT_METRICS})

__all__ = ["describe_configs", "list_config_resources", "looked_up"]


def looked_up(image: Callable[[], MetadataImage], given: NodeConfig, broker: str) -> DynamicBrokerConfig:
    """The configs in force on a node that was opened with these configs: `image` gives what was set since. `broker` is
    its id.
    """
    cluster, own = (ConfigResource(ResourceType.BROKER, name) for name in ("", broker))

    # The last image that was looked at: each request asks several times.
    seen: tuple[MetadataImage | None, Altered] = None, NOTHING_ALTERED

    def altered() -> Altered:
        nonlocal seen
        now, (known, found) = image(), seen
        if now is not known:
            found = Altered(now.configs_of(cluster), now.configs_of(own))
            seen = now, found
        return found

    def of_group(group_id: str) -> Mapping[str, str]:
        return image().configs_of(ConfigResource(ResourceType.GROUP, group_id))

    return DynamicBrokerConfig(given, altered, of_group)


def list_config_resources(
    image: MetadataImage, node_id: int, asked: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:  # fmt: skip
    """Answer a ListConfigResources request: all topics, this node, and the groups on which configs are set.

    Loggers and client metrics have no configs here.
    """
    wanted = set(asked.resource_types) or LISTED_KINDS
    if not wanted <= LISTED_KINDS:
        return ListConfigResourcesResponse(error=UnsupportedVersion(f"kinds of resources: {sorted(wanted)}"))
    found: list[tuple[int, str]] = []
    if ResourceType.GROUP in wanted:
        found += sorted(one for one in image.configs if one.type is ResourceType.GROUP)
    if ResourceType.TOPIC in wanted:
        found += [(ResourceType.TOPIC, name) for name in sorted(image.topics)]
    if ResourceType.BROKER in wanted:
        found.append((ResourceType.BROKER, str(node_id)))
    made = ListConfigResourcesResponse.ConfigResource
    return ListConfigResourcesResponse(
        config_resources=[made(resource_type=kind, resource_name=name) for kind, name in found]
    )


def describe_configs(
    image: MetadataImage, configs: DynamicBrokerConfig, node_id: int, asked: DescribeConfigsRequest
) -> DescribeConfigsResponse:  # fmt: skip
    """Answer a DescribeConfigs request: the configs that a resource goes by; one without configs carries its error.

    An empty list of names asks for all configs, as None does (Kafka: ConfigHelper.createResponseConfig).
    """
    node, results = NodeEntries(configs), []
    for resource in asked.resources:
        wanted = resource.configuration_keys
        result = Result(resource_type=resource.resource_type, resource_name=resource.resource_name)
        results.append(result)
        try:
            named = config_resource(resource.resource_type, resource.resource_name)
            entries = sorted(_entries(named, image, node, node_id).items(), key=itemgetter(0))
        except PylogError as error:
            result.error = error.with_traceback(None)
            continue
        result.configs = [entry for name, entry in entries if not wanted or name in wanted]
        told = _documentation(named.type) if asked.include_documentation else {}
        for entry in result.configs:
            entry.documentation = told.get(entry.name)
            if not asked.include_synonyms:
                entry.synonyms = []
    return DescribeConfigsResponse(results=results)


def _documentation(kind: ResourceType) -> Mapping[str, str]:
    """The text of each config of a kind of resources; that of a default of topics is the topic's."""
    of_topics = documentation(TopicConfig)
    if kind is not ResourceType.BROKER:
        return of_topics if kind is ResourceType.TOPIC else documentation(GroupConfig)
    defaults = {names[0]: of_topics.get(name, "") for name, names in TopicConfig.broker_names().items() if names}
    return {**documentation(NodeConfig), **defaults}


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
