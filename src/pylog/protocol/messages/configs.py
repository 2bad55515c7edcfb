"""Configs: the messages that describe them, and those that change them."""

import enum
from collections.abc import Iterable
from dataclasses import field
from typing import Any, NamedTuple, TypeVar

from pylog.errors import InvalidRequest, PylogError
from pylog.protocol.messages.api import ApiRequest, ApiResponse, api_message
from pylog.protocol.messages.message import message

R = TypeVar("R", covariant=True)


class ResourceType(enum.IntEnum):
    """The kind of resource that has configs, as Kafka numbers it (ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class ConfigResource(NamedTuple):
    """Something that has configs. The name of a broker is its id; "" means every broker of the cluster."""

    type: ResourceType
    name: str


def config_resource(kind: int, name: str) -> ConfigResource:
    """The resource that a request names. Raises InvalidRequest for another kind."""
    if kind not in KINDS:
        raise InvalidRequest(
            f"resources of type {kind} have no configs here: topics (2), brokers (4) and groups (32) have"
        )
    return ConfigResource(ResourceType(kind), name)


KINDS = frozenset(ResourceType)


class ConfigSource(enum.IntEnum):
    """Where the value of a config comes from, as Kafka names and numbers it (ConfigEntry.ConfigSource)."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    """It is set on the topic itself."""
    DYNAMIC_BROKER_CONFIG = 2
    """It was set on the node while that ran."""
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    """It was set on every node of the cluster."""
    STATIC_BROKER_CONFIG = 4
    """It was given when the node was opened."""
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8
    """It is set on the group itself."""


OPERATIONS = ("set", "delete", "append", "subtract")
"""The operations of a `ConfigChange`, by the number that Kafka gives them (AlterConfigOp.OpType)."""
GIVES_VALUE = frozenset({"set", "append"})
"""The operations that give a config a value."""


@message
class ConfigChange:
    """A change of one config: "set" it, "delete" it (back to its default), "append" to or "subtract" from a list."""

    name: str
    value: str | None = None
    operation: str = "set"


@message
class ResourceChange:
    resource: ConfigResource
    changes: list[ConfigChange]
    is_whole: bool = False
    """Whether the configs that are not named go back to their defaults. (Kafka: AlterConfigs)"""


@api_message
class _AlterResponse(ApiResponse):
    @api_message
    class AlterConfigsResourceResponse:
        error: PylogError | None = None
        resource_type: int
        resource_name: str

    throttle_time_ms: int = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)


class _AlterRequest(ApiRequest[R]):
    """A request that changes configs of resources."""

    __slots__ = ()
    resources: list[Any]

    def answered(self, errors: Iterable[PylogError | None]) -> R:
        """The response with these errors of the resources, in their order."""
        result = _AlterResponse.AlterConfigsResourceResponse
        made: R = self.response(
            responses=[
                result(resource_type=one.resource_type, resource_name=one.resource_name, error=error)
                for one, error in zip(self.resources, errors, strict=True)
            ]
        )
        return made

    def refused(self, error: PylogError) -> R:
        """The response with an error for each resource."""
        return self.answered([error for _ in self.resources])


@api_message
class IncrementalAlterConfigsResponse(_AlterResponse):
    pass


@api_message
class IncrementalAlterConfigsRequest(_AlterRequest[IncrementalAlterConfigsResponse]):
    """A request that changes single configs (KIP-339)."""

    @api_message
    class AlterConfigsResource:
        @api_message
        class AlterableConfig:
            name: str
            config_operation: int = 0
            """The place of its operation in `OPERATIONS`."""
            value: str | None

        resource_type: int
        resource_name: str
        configs: list[AlterableConfig] = field(default_factory=list)

    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: bool = False


@api_message
class AlterConfigsResponse(_AlterResponse):
    pass


@api_message
class AlterConfigsRequest(_AlterRequest[AlterConfigsResponse]):
    """A request that says all configs of resources: those that it does not name go back to their defaults."""

    @api_message
    class AlterConfigsResource:
        @api_message
        class AlterableConfig:
            name: str
            value: str | None

        resource_type: int
        resource_name: str
        configs: list[AlterableConfig] = field(default_factory=list)

    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: bool = False


SHARE_STANDING = "pylog.share.standing"
"""A config of groups that holds what their members have now. Only a client that names it gets it."""


@api_message
class DescribeConfigsResponse(ApiResponse):
    @api_message
    class DescribeConfigsResult:
        @api_message
        class DescribeConfigsResourceResult:
            @api_message
            class DescribeConfigsSynonym:
                """A value that a config has, or would have without those before it."""

                name: str
                value: str | None
                source: int

            name: str
            value: str | None
            """None: a node of Kafka's does not tell it, or has no value."""
            read_only: bool = False
            config_source: int = -1
            is_sensitive: bool = False
            synonyms: list[DescribeConfigsSynonym] = field(default_factory=list)
            """The values for it, the strongest first; none where they were not asked for."""
            config_type: int = 0
            """Its type, as `config.ConfigType` numbers it."""
            documentation: str | None

        error: PylogError | None = None
        resource_type: int
        resource_name: str
        configs: list[DescribeConfigsResourceResult] = field(default_factory=list)

    throttle_time_ms: int = 0
    results: list[DescribeConfigsResult] = field(default_factory=list)


@api_message
class DescribeConfigsRequest(ApiRequest[DescribeConfigsResponse]):
    @api_message
    class DescribeConfigsResource:
        resource_type: int
        resource_name: str
        configuration_keys: list[str] | None = field(default_factory=list)
        """Empty, or None: all of them."""

    resources: list[DescribeConfigsResource]
    include_synonyms: bool = False
    include_documentation: bool = False

    def refused(self, error: PylogError) -> DescribeConfigsResponse:
        """The response with an error for each resource."""
        result = DescribeConfigsResponse.DescribeConfigsResult
        return DescribeConfigsResponse(
            results=[
                result(resource_type=one.resource_type, resource_name=one.resource_name, error=error)
                for one in self.resources
            ]
        )


@api_message
class ListConfigResourcesResponse(ApiResponse):
    @api_message
    class ConfigResource:
        resource_name: str
        resource_type: int

    throttle_time_ms: int = 0
    error: PylogError | None = None
    config_resources: list[ConfigResource] = field(default_factory=list)


@api_message
class ListConfigResourcesRequest(ApiRequest[ListConfigResourcesResponse]):
    """A request for what has configs (KIP-1142)."""

    resource_types: list[int] = field(default_factory=list)
    """Empty: all kinds."""
