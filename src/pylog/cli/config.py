"""`pylog config describe [--topic NAME]`: what a log goes by, and what it would go by unless told otherwise.

A node's configs are given where the log is opened, and written down nowhere: here are their defaults, or, with
--bootstrap, those of the node that runs. A topic's are in the log; `pylog topic alter` changes them.
"""

from collections.abc import Mapping

from pylog.cli import completion as complete
from pylog.cli.commands import Group
from pylog.cli.opening import looking
from pylog.cli.output import Column, json_line, print_line, print_table
from pylog.cli.params import json_option, option
from pylog.cli.place import Place
from pylog.client.admin.topics import NodeConfigValue, TopicConfigValue
from pylog.config import NodeConfig
from pylog.protocol.messages import ConfigSource

__all__ = ["command"]

ORIGINS = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "set",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "node",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "node",
    ConfigSource.STATIC_BROKER_CONFIG: "node",
}


command = Group("config", short_help="the configs of a node or a topic", help="Configs.")


@command.verb(
    "describe",
    short_help="all configs with their values",
    examples=("pylog config describe", "pylog config describe --topic clicks --json"),
)
@option("--topic", metavar="NAME", help="a topic's", shell_complete=complete.topics)
@json_option
def describe(place: Place, topic: str | None, as_json: bool) -> int:
    """All configs of a topic, or, without one, of a node with their defaults."""
    config, origins = _configs(place, topic)
    if as_json:
        print_line(json_line(config))
        return 0
    rows = [(name, value, origins.get(name, "default")) for name, value in sorted(config.items())]
    print_table((Column("config"), Column("value"), Column("from")), rows)
    return 0


def _configs(place: Place, topic: str | None) -> tuple[dict[str, str], dict[str, str]]:
    """The configs, and where those come from that are no defaults."""
    if topic is not None:
        with looking(place) as log:
            return _with_origins(log.admin.describe_topic_config(topic))
    if place.servers is None:
        return NodeConfig().to_kafka(), {}
    with looking(place) as log:
        return _with_origins(log.admin.describe_node_config())


def _with_origins(
    found: Mapping[str, TopicConfigValue | NodeConfigValue],
) -> tuple[dict[str, str], dict[str, str]]:
    origins = {name: ORIGINS[one.source] for name, one in found.items() if one.source in ORIGINS}
    return {name: one.value for name, one in found.items()}, origins
