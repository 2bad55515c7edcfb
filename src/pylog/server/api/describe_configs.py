"""DescribeConfigs: the configs of topics, of the node, of all nodes and of groups, with where each comes from.

    1-2    sources and synonyms            3    types, and documentation where it is asked for (KIP-569)

An empty list of names asks for all configs, as null does (Kafka: ConfigHelper.createResponseConfig).
Other kinds of resources (loggers, client metrics) are InvalidRequest.
"""

from collections.abc import Mapping
from operator import itemgetter

from pylog.config import GroupConfig, NodeConfig, TopicConfig
from pylog.config.documentation import documentation
from pylog.errors import InvalidRequest, PylogError
from pylog.protocol.error_codes import error_code, error_message
from pylog.protocol.messages import (
    ConfigEntry,
    ConfigResource,
    DescribeConfigs,
    DescribedConfigs,
    ResourceType,
)
from pylog.protocol.wire.mapping import Body
from pylog.server.api.call import Later, Outcome, Request, api
from pylog.server.served_node import ServedNode

TYPES_FROM = 3
TYPES = frozenset(ResourceType)
RESOURCES_AT_ONCE = 4
"""How many resources are described in the loop's thread: one takes half a millisecond."""


def config_resource(body: Body) -> ConfigResource:
    """The resource that a request names. Raises InvalidRequest."""
    kind = body["resourceType"]
    if kind not in TYPES:
        raise InvalidRequest(
            f"resources of type {kind} have no configs here: topics (2), brokers (4) and groups (32) have"
        )
    return ConfigResource(ResourceType(kind), body["resourceName"])


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
        asked = DescribeConfigs([config_resource(resource)], with_synonyms=request.body["includeSynonyms"])
        described: DescribedConfigs = node.ask(asked, request.session)
        (found,) = described.configs
        if isinstance(found, PylogError):
            raise found
    except PylogError as error:
        # Its traceback would refer to itself.
        error.__traceback__ = None
        return {**result, "errorCode": error_code(error), "errorMessage": error_message(error)}
    has_types = request.version >= TYPES_FROM
    told = _documentation(kind) if has_types and request.body["includeDocumentation"] else {}
    return {**result, "configs": [
        _config(key, entry, told.get(key), has_types=has_types)
        for key, entry in sorted(found.items(), key=itemgetter(0)) if not wanted or key in wanted
    ]}  # fmt: skip


def _config(name: str, entry: ConfigEntry, text: str | None, *, has_types: bool) -> Body:
    config: Body = {
        "name": name, "value": entry.value, "readOnly": entry.is_read_only, "isSensitive": False,
        "configSource": entry.source, "synonyms": [one._asdict() for one in entry.synonyms],
    }  # fmt: skip
    if has_types:
        config |= {"configType": entry.type, "documentation": text}
    return config


def _documentation(kind: int) -> Mapping[str, str]:
    """The text of each config of a kind of resources; that of a default of topics is the topic's."""
    of_topics = documentation(TopicConfig)
    if kind != ResourceType.BROKER:
        return of_topics if kind == ResourceType.TOPIC else documentation(GroupConfig)
    defaults = {names[0]: of_topics.get(name, "") for name, names in TopicConfig.broker_names().items() if names}
    return {**documentation(NodeConfig), **defaults}


API = api("DescribeConfigs", answer)
