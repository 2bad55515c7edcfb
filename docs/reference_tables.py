"""The pages of the reference that are tables: configs, errors and commands, written from the code each time.

reference/configs.md     the config classes: names, defaults, what is allowed, the text below each field (committed)
reference/errors.md      the classes in `pylog.errors`, as the tree that they are
reference/command.md     the help texts of the command
"""

import inspect
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from pylog import cli, errors
from pylog.config import ConsumerConfig, GroupConfig, NodeConfig, ProducerConfig, TopicConfig
from pylog.config.connection import ConnectionConfig
from pylog.config.documentation import described
from pylog.config.dynamic import DYNAMIC
from pylog.config.options import Config, kafka_name

CONFIGS: dict[type[Config], str] = {
    TopicConfig: "log.create_topic(config=...)",
    NodeConfig: "pylog.open(config=...)",
    GroupConfig: "log.admin.alter_group_config(...)",
    ProducerConfig: "log.producer(...)",
    ConsumerConfig: "log.consumer(...)",
    ConnectionConfig: "pylog.connect(...)",
}


def setup(app: Any) -> dict[str, Any]:
    """Sphinx calls this: the pages are written before it looks for pages."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / "reference"))
    return {"parallel_read_safe": True}


def write(folder: Path) -> None:
    """Write the pages; one that says what it said keeps its time."""
    folder.mkdir(exist_ok=True)
    for name, text in {"configs": configs(), "errors": error_tree(), "command": command()}.items():
        page = folder / f"{name}.md"
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


# --- configs ----------------------------------------------------------------------------------------------------------


def configs() -> str:
    """The configs of topics, nodes and clients."""
    head = (
        "# Configs\n\nNames are Kafka's. In Python an underscore stands for each dot: `linger_ms` is `linger.ms`. A "
        "bad name or value is `InvalidConfig`, which says what is near, or allowed. The node's defaults of topics, "
        "under the first of their names, and few other configs of a node can be altered while it runs: "
        "`log.admin.alter_node_config(...)`, `pylog config alter`."
    )
    parts = [head]
    for kind, place in CONFIGS.items():
        fields_by_name = {kafka_name(field.name): field for field in fields(kind)}
        parts.append(f"## {kind.__name__.removesuffix('Config')}: `{place}`")
        for one in described(kind):
            name = one.name
            on_node = " or ".join(f"`{other}`" for other in fields_by_name[name].metadata["broker"])
            if kind is GroupConfig:
                on_node = f"`group.{name}`"
            is_altered = kind is NodeConfig and name in DYNAMIC
            parts.append(
                f"### `{name}`\n\nDefault: `{one.default or '(empty)'}`"
                f"{f', or what the node has as {on_node}' if on_node else ''}. Allowed: "
                f"{one.allowed}.{' Can be altered while the node runs.' if is_altered else ''}"
                f"\n\n{one.documentation}"
            )
    return "\n\n".join(parts) + "\n"


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
