"""`pylog config describe [--topic NAME]`: what a log goes by, and what it would go by unless told otherwise.

A node's configs are given where the log is opened, and written down nowhere: here are their defaults, or, with
--bootstrap, those of the node that runs. A topic's are in the log; `pylog topic alter` changes them.
"""

import argparse

from pylog.cli.arguments import Parser, add_log, bootstrap, examples
from pylog.cli.opening import looking
from pylog.cli.output import Column, json_line, print_line, print_table
from pylog.config import NodeConfig

__all__ = ["add"]


def add(commands: "argparse._SubParsersAction[Parser]") -> None:
    """Add `config` and its subcommands."""
    group = commands.add_parser("config", help="the configs of a node or a topic", description="Configs.")
    add_log(group)
    verbs = group.add_subparsers(title="commands", dest="verb", metavar="COMMAND", required=True)
    parser = verbs.add_parser(
        "describe",
        help="all configs with their values",
        description="All configs of a topic, or, without one, of a node with their defaults.",
        epilog=examples(("pylog config describe", "pylog config describe --topic clicks --json")),
    )
    parser.add_argument("--topic", metavar="NAME", help="a topic's")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_log(parser)
    parser.set_defaults(run=describe, parser=parser)


def describe(args: argparse.Namespace) -> int:
    """Run `config describe`."""
    config, origins = _configs(args)
    if args.json:
        print_line(json_line(config))
        return 0
    rows = [(name, value, origins.get(name, "default")) for name, value in sorted(config.items())]
    print_table((Column("config"), Column("value"), Column("from")), rows)
    return 0


def _configs(args: argparse.Namespace) -> tuple[dict[str, str], dict[str, str]]:
    """The configs, and where those come from that are no defaults."""
    if args.topic is not None:
        with looking(args) as log:
            found = log.admin.describe_topic_config(args.topic)
        return {name: one.value for name, one in found.items()}, {
            name: "set" for name, one in found.items() if one.is_set
        }
    if bootstrap(args) is None:
        return NodeConfig().to_kafka(), {}
    with looking(args) as log:
        config = log.admin.describe_node_config()
    return config, dict.fromkeys(config, "node")
