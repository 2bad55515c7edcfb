"""The pages of the reference that are tables: configs, errors and commands, written from the code each time.

reference/configs.md     the list of the pages of configs, a page for each config class: names, types, defaults, what is
                         allowed, the text below each field, and what Kafka has besides (`kafka_configs`) (committed)
reference/errors.md      the classes in `pylog.errors`, as the tree that they are
reference/command.md     the help texts of the command
"""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import kafka_configs
from kafka_configs import Absent

from pylog import cli, errors
from pylog.config import ConsumerConfig, GroupConfig, NodeConfig, ProducerConfig, TopicConfig
from pylog.config.connection import ConnectionConfig
from pylog.config.documentation import described, documentation
from pylog.config.dynamic import DYNAMIC
from pylog.config.options import Config, kafka_name
from pylog.config.share_consumer import ShareConsumerConfig
from pylog.server.security import SecurityOptions

PAGES: dict[str, tuple[type[Config], str, list[Absent]]] = {
    "topic": (TopicConfig, "log.create_topic(config=...)", kafka_configs.TOPIC),
    "node": (NodeConfig, "pylog.open(config=...)", kafka_configs.NODE),
    "group": (GroupConfig, "log.admin.alter_group_config(...)", []),
    "producer": (ProducerConfig, "log.producer(...)", kafka_configs.PRODUCER),
    "consumer": (ConsumerConfig, "log.consumer(...)", kafka_configs.CONSUMER),
    "share_consumer": (ShareConsumerConfig, "log.share_consumer(...)", []),
    "connection": (ConnectionConfig, "pylog.connect(...)", []),
}
"""The pages of configs: their class, where they are given, and what Kafka has besides."""


def setup(app: Any) -> dict[str, Any]:
    """Sphinx calls this: the pages are written before it looks for pages."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / "reference"))
    return {"parallel_read_safe": True}


def write(folder: Path) -> None:
    """Write the pages; one that says what it said keeps its time."""
    folder.mkdir(exist_ok=True)
    for name, text in {**pages(), "errors": error_tree(), "command": command()}.items():
        page = folder / f"{name}.md"
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


# --- configs ----------------------------------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    """The committed pages: the configs of each kind, and the list of these pages."""
    made = {name: configs(*page) for name, page in PAGES.items()}
    return {**made, "server": server(), "configs": contents()}


def contents() -> str:
    """The list of the pages of configs."""
    head = (
        "# Configs\n\nNames are Kafka's. In Python an underscore stands for each dot: `linger_ms` is `linger.ms`. A "
        "bad name or value is `InvalidConfig`, which says what is near, or allowed. The pages of topics, nodes, "
        "producers and consumers end with the configs that Kafka has besides, and what stands in their place."
    )
    places = {name: place for name, (_, place, _) in PAGES.items()} | {"server": "log.serve(...)"}
    titles = {name: name.replace("_", " ").capitalize() for name in places}
    lines = [f"| [{titles[name]}]({name}.md) | `{place}` |" for name, place in places.items()]
    return "\n".join([head, "", "| configs of a | given to |", "|---|---|", *lines, ""])


def configs(kind: type[Config], place: str, absent: list[Absent]) -> str:
    """The configs of one class."""
    title = kind.__name__.removesuffix("Config")
    parts = [f"# {title}\n\nThe configs that `{place}` takes. [All pages of configs](configs.md)."]
    if kind is NodeConfig:
        parts.append(
            "A node has the defaults of [topics](topic.md), too, by the names that stand there. These, and a few "
            "others, can be altered while it runs: `log.admin.alter_node_config(...)`, `pylog config alter`."
        )
    others = kafka_configs.OTHER_DEFAULTS.get(title, {})
    on_nodes = {kafka_name(field.name): field.metadata.get("broker", ()) for field in fields(kind)}
    of_node = {kafka_name(field.name) for field in fields(NodeConfig)}
    for one in described(kind):
        nodes = (
            [name for name in [f"group.{one.name}"] if name in of_node] if kind is GroupConfig else on_nodes[one.name]
        )
        facts = [
            f"{one.type}.",
            f"Default: `{one.default or '(empty)'}`{_on_node(nodes)}.",
            f"Kafka's default: `{others[one.name]}`." if one.name in others else "",
            f"Allowed: {one.allowed}.",
            "Can be altered while the node runs." if kind is NodeConfig and one.name in DYNAMIC else "",
        ]
        parts.append(f"## `{one.name}`\n\n{' '.join(filter(None, facts))}\n\n{one.documentation}")
    if absent:
        lines = [f"| {', '.join(f'`{name}`' for name in one.patterns.split())} | {one.reason} |" for one in absent]
        table = ["| Kafka's config | instead |", "|---|---|", *lines]
        parts.append("## What Kafka has besides\n\nThese names are unknown to pylog: they raise `InvalidConfig`.")
        parts.append("\n".join(table))
    return "\n\n".join(parts) + "\n"


def _on_node(names: Sequence[str]) -> str:
    return f", or what the node has as {' or '.join(f'`{name}`' for name in names)}" if names else ""


def server() -> str:
    """The options of a server."""
    head = (
        "# Server\n\nThe options that `log.serve(...)` and `pylog.serve(...)` take besides `listen` and `advertise`. "
        "What a server does is set by the configs of its [node](node.md). [All pages of configs](configs.md)."
    )
    texts = documentation(SecurityOptions)
    return "\n\n".join([head, *(f"## `{name.replace('.', '_')}`\n\n{text}" for name, text in texts.items())]) + "\n"


# --- errors -----------------------------------------------------------------------------------------------------------


def error_tree() -> str:
    """All errors, each below the one that it is a kind of."""
    head = (
        "# Errors\n\nEvery error that pylog raises on purpose is a `PylogError`. Misuse, such as a wrong type, is "
        "`TypeError` or `ValueError`. `code` is Kafka's number; `retriable` says that the same call may succeed later."
    )
    return "\n\n".join([head, *_errors(errors.PylogError, 2)]) + "\n"


def _errors(kind: type[errors.PylogError], level: int) -> Iterator[str]:
    facts = [f"a `{kind.__mro__[1].__name__}`"] if level > 2 else []
    if "code" in vars(kind):
        facts.append(f"code {kind.code}")  # type: ignore[attr-defined]
    if kind.retriable:
        facts.append("retriable")
    said = f"*{', '.join(facts)}.* " if facts else ""
    yield f"{'#' * min(level, 4)} {kind.__name__}\n\n{said}{inspect.cleandoc(kind.__doc__ or '')}"
    for below in sorted(kind.__subclasses__(), key=lambda one: one.__name__):
        if below.__module__ == errors.__name__ and not below.__name__.startswith("_"):
            yield from _errors(below, level + 1)


# --- the command ------------------------------------------------------------------------------------------------------


def command() -> str:
    """The help of the command, and of each command below it."""
    top = click.Context(cli.root, info_name="pylog", terminal_width=100, **cli.root.context_settings)
    return "\n\n".join(["# The command", *_helps(cli.root, top)]) + "\n"


def _helps(command: click.Command, ctx: click.Context) -> Iterator[str]:
    yield f"## {ctx.command_path}\n\n```\n{command.get_help(ctx).rstrip()}\n```"
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            assert below is not None, name
            yield from _helps(below, click.Context(below, ctx, name, terminal_width=100))


if __name__ == "__main__":
    write(Path(__file__).parent / "reference")
