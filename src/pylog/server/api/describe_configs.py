"""DescribeConfigs: the configs of topics and of the node, with where each comes from.

    1-2    sources and synonyms            3    types, and documentation where it is asked for (KIP-569)

An empty list of names asks for all configs, as null does (Kafka: ConfigHelper.createResponseConfig).
A topic's config is its own, or the node's default under its broker name, or Kafka's. A config of the node is read-only:
it is given when the log is opened. Other kinds of resources (loggers, client metrics, groups) are InvalidRequest.
"""

from collections.abc import Mapping

from pylog.config import ConfigType, NodeConfig, TopicConfig, config_type
from pylog.config.documentation import documentation
from pylog.errors import InvalidRequest, PylogError
from pylog.protocol.messages import ClusterMetadata, Metadata
from pylog.protocol.wire.mapping import Body, error_code, error_message
from pylog.server.api.call import Later, Outcome, Request, api
from pylog.server.served_node import ServedNode

TOPIC, BROKER = 2, 4
OF_TOPIC, OF_NODE, DEFAULT = 1, 4, 5
"""Where a config comes from, as Kafka numbers it."""
TYPES_FROM = 3


RESOURCES_AT_ONCE = 4
"""How many resources are described in the loop's thread: one takes half a millisecond."""


def answer(request: Request, node: ServedNode) -> Outcome:
    """Describe each resource. The first documentation is read from files, so all of it is outside of the loop."""
    if len(request.body["resources"]) > RESOURCES_AT_ONCE or request.body.get("includeDocumentation"):
        return Later(lambda: _all(request, node), is_long=True)
    return _all(request, node)


def _all(request: Request, node: ServedNode) -> Body:
    return {"results": [_described(resource, request, node) for resource in request.body["resources"]]}


def _described(resource: Body, request: Request, node: ServedNode) -> Body:
    kind, name = resource["resourceType"], resource["resourceName"]
    result: Body = {"resourceType": kind, "resourceName": name, "errorCode": 0, "errorMessage": None}
    wanted = resource["configurationKeys"]
    try:
        if kind == TOPIC:
            configs = topic_configs(overrides_of(name, request, node), node, request.body["includeSynonyms"])
        else:
            check_broker(kind, name, node)
            configs = node_configs(node.config, request.body["includeSynonyms"])
    except PylogError as error:
        # Its traceback would refer to itself.
        error.__traceback__ = None
        return {**result, "errorCode": error_code(error), "errorMessage": error_message(error)}
    if wanted:
        configs = [config for config in configs if config["name"] in wanted]
    if request.version < TYPES_FROM:
        for config in configs:
            del config["configType"], config["documentation"]
    elif request.body["includeDocumentation"]:
        told = documentation(TopicConfig) if kind == TOPIC else _documentation_of_node()
        for config in configs:
            config["documentation"] = told.get(config["name"])
    return {**result, "configs": configs}


def _documentation_of_node() -> Mapping[str, str]:
    """The text of each config of the node; that of a default of topics is the topic's."""
    of_topics = documentation(TopicConfig)
    defaults = {names[0]: of_topics.get(name, "") for name, names in TopicConfig.broker_names().items() if names}
    return {**documentation(NodeConfig), **defaults}


def overrides_of(topic: str, request: Request, node: ServedNode) -> dict[str, str]:
    """The configs that are set on a topic itself. Raises UnknownTopicOrPartition, InvalidTopic."""
    found: ClusterMetadata = node.ask(Metadata([topic], partitions_max=0), request.session)
    if found.topics[0].error is not None:
        raise found.topics[0].error
    return found.topics[0].config


def check_broker(kind: int, name: str, node: ServedNode) -> None:
    """Refuse resources that are neither a topic nor this node. Raises InvalidRequest."""
    if kind != BROKER:
        raise InvalidRequest(f"resources of type {kind} have no configs here: topics (2) and brokers (4) have")
    if name not in ("", str(node.node_id)):
        raise InvalidRequest(f"broker {name!r} is not this one, {node.node_id}")


def topic_configs(overrides: Mapping[str, str], node: ServedNode, with_synonyms: bool) -> list[Body]:
    """All configs of a topic with these of its own."""
    broker_names = TopicConfig.broker_names()
    kinds, defaults = TopicConfig.kinds(), TopicConfig().to_kafka()
    of_node = node.config.topic_defaults.to_kafka()
    effective = TopicConfig.loaded(overrides, defaults=node.config.topic_defaults).to_kafka()
    # Words stand there in the order in which they were given.
    effective |= {
        name: text for name, text in overrides.items() if name in kinds and config_type(kinds[name]) is ConfigType.LIST
    }
    configs = []
    for name, value in sorted(effective.items()):
        from_node = OF_NODE if of_node[name] != defaults[name] else DEFAULT
        synonyms = [_synonym(name, value, OF_TOPIC)] if name in overrides else []
        if of_node[name] != defaults[name]:
            synonyms += [_synonym(one, of_node[name], OF_NODE) for one in broker_names[name][:1]]
        synonyms += [_synonym(one, defaults[name], DEFAULT) for one in broker_names[name][:1]]
        configs.append({
            "name": name, "value": value, "readOnly": False, "isSensitive": False,
            "configSource": OF_TOPIC if name in overrides else from_node,
            "synonyms": synonyms if with_synonyms else [],
            "configType": int(config_type(kinds[name])), "documentation": None,
        })  # fmt: skip
    return configs


def node_configs(config: NodeConfig, with_synonyms: bool) -> list[Body]:
    """All configs of the node."""
    kinds, defaults = dict(NodeConfig.kinds()), NodeConfig().to_kafka()
    for name, broker_names in TopicConfig.broker_names().items():
        kinds.update(dict.fromkeys(broker_names[:1], TopicConfig.kinds()[name]))
    configs = []
    for name, value in config.to_kafka().items():
        source = OF_NODE if value != defaults[name] else DEFAULT
        synonyms = [_synonym(name, value, OF_NODE)] if source == OF_NODE else []
        configs.append({
            "name": name, "value": value, "readOnly": True, "isSensitive": False, "configSource": source,
            "synonyms": [*synonyms, _synonym(name, defaults[name], DEFAULT)] if with_synonyms else [],
            "configType": int(config_type(kinds[name])), "documentation": None,
        })  # fmt: skip
    return configs


def _synonym(name: str, value: str, source: int) -> Body:
    return {"name": name, "value": value, "source": source}


API = api("DescribeConfigs", answer)
