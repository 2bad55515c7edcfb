"""`pylog config describe [--topic NAME]`: what a log goes by, and what it would go by unless told otherwise.

A node's configs are given where the log is opened, and written down nowhere: here are their defaults. A topic's are in
the log; `pylog topic alter` changes them.
"""

import argparse

import pylog
from pylog.cli.arguments import Parser, add_log, examples, log_paths
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
    if args.topic is None:
        config, overrides = NodeConfig().to_kafka(), {}
    else:
        with pylog.open(log_paths(args), mode="read") as log:
            topic = log.topic(args.topic)
            config, overrides = topic.config.to_kafka(), topic.overrides
    if args.json:
        print_line(json_line(config))
        return 0
    rows = [(name, value, "set" if name in overrides else "default") for name, value in sorted(config.items())]
    print_table((Column("config"), Column("value"), Column("from")), rows)
    return 0
