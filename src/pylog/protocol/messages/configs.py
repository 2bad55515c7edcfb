"""Configs: the messages that describe them, and the one that changes them."""

import enum
from dataclasses import field
from typing import NamedTuple

from pylog.errors import PylogError
from pylog.protocol.messages.message import message


class ResourceType(enum.IntEnum):
    """The kind of resource that has configs, as Kafka numbers it (ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class ConfigResource(NamedTuple):
    """Something that has configs. The name of a broker is its id; "" means every broker of the cluster."""

    type: ResourceType
    name: str


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


@message
class AlterConfigs:
    """Kafka's IncrementalAlterConfigs."""

    resources: list[ResourceChange]
    validate_only: bool = False


@message
class ConfigsAltered:
    """The answer to AlterConfigs: one error or None for each resource, in the order asked."""

    errors: list[PylogError | None]


@message
class DescribeConfigs:
    resources: list[ConfigResource]
    with_synonyms: bool = False


class ConfigSynonym(NamedTuple):
    """A value that a config has, or would have without those before it."""

    name: str
    value: str
    source: ConfigSource


@message
class ConfigEntry:
    value: str | None
    """None: a node of Kafka's does not tell it, or has no value."""
    source: ConfigSource
    is_read_only: bool = False
    type: int = 0
    """Its type, as `config.ConfigType` numbers it."""
    synonyms: list[ConfigSynonym] = field(default_factory=list)
    """The values for it, the strongest first; none where they were not asked for."""


@message
class DescribedConfigs:
    configs: list[dict[str, ConfigEntry] | PylogError]
    """The configs of each resource by their names, in the order asked."""


@message
class ListConfigResources:
    """A request for the groups that have configs of their own."""


@message
class ListedConfigResources:
    resources: list[ConfigResource]
