"""`pylog config describe | alter`: what a log, its topics and its groups go by.

A node's configs are given where the log is opened, and written down nowhere. So of a directory these are the defaults,
and what `alter` has set; with --bootstrap those of the node that runs. `pylog topic alter` changes those of a topic.
"""

from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress

import click

from pylog.broker.nodes import reader
from pylog.cli import completion as complete
from pylog.cli.commands import CommandGroup
from pylog.cli.opening import changing, looking
from pylog.cli.output import Column, print_line, print_table, tell
from pylog.cli.params import config_pair, json_option, option
from pylog.cli.place import LogPlace
from pylog.client.admin.configs import ConfigValue, NodeConfigValue
from pylog.config import ConsumerConfig, DynamicBrokerConfig, NodeConfig, ProducerConfig
from pylog.config.documentation import described
from pylog.config.options import Config
from pylog.errors import LogNotFound
from pylog.protocol.described_configs import NodeEntries
from pylog.protocol.messages import ConfigSource
from pylog.runtime.clock import SystemClock
from pylog.runtime.json_lines import json_line
from pylog.transport import MemoryTransport

__all__ = ["command"]

KINDS: dict[str, type[Config]] = {"producer": ProducerConfig, "consumer": ConsumerConfig}

ORIGINS = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "set",
    ConfigSource.DYNAMIC_GROUP_CONFIG: "set",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "set on the node",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "set on all nodes",
    ConfigSource.STATIC_BROKER_CONFIG: "node",
}


command = CommandGroup("config", short_help="the configs of a node, a topic or a group", help="Configs.")


@command.verb(
    "describe",
    short_help="all configs with their values",
    examples=(
        "pylog config describe", "pylog config describe --topic clicks --json", "pylog config describe --group etl",
        "pylog config describe --producer",
    ),
)  # fmt: skip
@option("--topic", metavar="NAME", help="a topic's", shell_complete=complete.topics)
@option("--group", metavar="NAME", help="a consumer group's", shell_complete=complete.groups)
@option("--producer", "kind", flag_value="producer", help="the meaning, default and values of those of a producer")
@option("--consumer", "kind", flag_value="consumer", help="the same of a consumer")
@json_option
def describe(place: LogPlace, topic: str | None, group: str | None, kind: str | None, as_json: bool) -> int:
    """All configs of a topic or a group, or, without one, of a node."""
    if topic is not None and group is not None:
        raise click.UsageError("--topic and --group name two things: give one of them")
    if kind is not None:
        if topic is not None or group is not None:
            raise click.UsageError("--topic and --group are of one log; the meaning of configs is the same in all")
        _print_reference(KINDS[kind], as_json=as_json)
        return 0
    found = _configs(place, topic, group)
    if as_json:
        print_line(json_line({name: one.value or "" for name, one in found.items()}))
        return 0
    rows = [(name, one.value or "", ORIGINS.get(one.source, "default")) for name, one in sorted(found.items())]
    print_table((Column("config"), Column("value"), Column("from")), rows)
    return 0


def _print_reference(kind: type[Config], *, as_json: bool) -> None:
    for one in sorted(described(kind), key=lambda one: one.name):
        if as_json:
            print_line(json_line(one._asdict()))
            continue
        print_line(f"{one.name} (default {one.default or 'empty'}; {one.allowed})")
        for line in one.documentation.splitlines():
            print_line(f"    {line}")


def _configs(
    place: LogPlace, topic: str | None, group: str | None
) -> Mapping[str, ConfigValue | NodeConfigValue]:  # fmt: skip
    if topic is None and group is None and place.servers is None:
        return _of_directory(place)
    with looking(place) as log:
        if topic is not None:
            return log.admin.describe_topic_config(topic)
        return log.admin.describe_group_config(group) if group is not None else log.admin.describe_node_config()


def _of_directory(place: LogPlace) -> Mapping[str, NodeConfigValue]:
    """The configs of a node that is given none."""
    configs = DynamicBrokerConfig(NodeConfig())
    with ExitStack() as opened:
        with suppress(LogNotFound):
            found = reader(place.paths, configs.given, MemoryTransport(), SystemClock(), None)
            configs = opened.enter_context(closing(found)).configs
        entries = NodeEntries(configs).entries()
    return {
        name: NodeConfigValue(one.value or "", ConfigSource(one.config_source), one.read_only)
        for name, one in entries.items()
    }


@command.verb(
    "alter",
    short_help="change the configs of nodes, or of a group",
    examples=(
        "pylog config alter --config log.retention.ms=604800000",
        "pylog config alter --node 1 --config max.connections=100",
        "pylog config alter --group etl --config consumer.session.timeout.ms=50000",
    ),
)  # fmt: skip
@option("--group", metavar="NAME", help="of a consumer group", shell_complete=complete.groups)
@option("--node", type=int, metavar="ID", help="of this node alone (default: of all)")
@option(
    "--config", "-c", "configs", type=config_pair, multiple=True, metavar="NAME=VALUE",
    help="set a config; may be repeated", shell_complete=complete.altered_configs,
)  # fmt: skip
@option(
    "--delete-config", "deleted", multiple=True, metavar="NAME", help="as if it had never been set; may be repeated",
    shell_complete=complete.altered_configs,
)  # fmt: skip
@json_option
def alter(
    place: LogPlace,
    group: str | None,
    node: int | None,
    configs: tuple[tuple[str, str], ...],
    deleted: tuple[str, ...],
    as_json: bool,
) -> int:
    """Change configs of nodes that run, or of a group. They stay when the log is opened again."""
    if not (configs or deleted):
        raise click.UsageError("nothing to change: give --config or --delete-config")
    if group is not None and node is not None:
        raise click.UsageError("--group and --node name two things: give one of them")
    for one in deleted:
        if one in dict(configs):
            raise click.UsageError(f"--config and --delete-config both name {one}: give one of them")
    with changing(place) as log:
        if group is not None:
            log.admin.alter_group_config(group, dict(configs), deleted)
        else:
            log.admin.alter_node_config(dict(configs), deleted, node=node)
    whose = f"group {group}" if group is not None else "all nodes" if node is None else f"node {node}"
    changed = [f"{name}={value}" for name, value in configs] + [f"{name} is not set any more" for name in deleted]
    facts = {"group": group, "node": node, "set": dict(configs), "deleted": deleted}
    tell(as_json, facts, f"altered {whose}: {', '.join(changed)}")
    return 0
