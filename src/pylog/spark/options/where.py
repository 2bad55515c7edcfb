"""Where the log is: a directory (`path`, `load(path)`), or `kafka.bootstrap.servers` and how these are reached.

Options that begin with `kafka.` and are not read elsewhere are configs of the connection, by the names that
`pylog.connect` knows: kafka.security.protocol, kafka.sasl.mechanism, kafka.ssl.ca.location...
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import unquote, urlsplit

_BOOTSTRAP: Final = "kafka.bootstrap.servers"
_INSTEAD: Final = {
    "auto.offset.reset": "set the source option 'startingOffsets' to say where to start",
    "enable.auto.commit": "Spark's checkpoint has the offsets, nothing is committed to a group",
    "group.id": "a read belongs to no consumer group",
    "interceptor.classes": "records reach Spark as they are in the log",
    "key.deserializer": "keys are binary; deserialize them with DataFrame operations",
    "value.deserializer": "values are binary; deserialize them with DataFrame operations",
    "key.serializer": "keys are strings or binary; serialize them with DataFrame operations",
    "value.serializer": "values are strings or binary; serialize them with DataFrame operations",
}
"""What Spark's Kafka source and sink refuse, too, and what to do instead."""


@dataclass(frozen=True, slots=True)
class Directory:
    """A log directory on a disk that the driver's host and every executor see at this absolute path."""

    path: str

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class Servers:
    """A pylog server or a Kafka cluster, which the driver's host and every executor reach by these addresses."""

    bootstrap_servers: str
    config: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Configs of `pylog.connect`; they may hold a password."""

    def __str__(self) -> str:
        return self.bootstrap_servers


Where: TypeAlias = Directory | Servers


def parse_where(given: Mapping[str, str], apart: Collection[str] = ()) -> Where:
    """The one of path and kafka.bootstrap.servers that was given. `apart`: kafka options that are no configs of a
    connection, in lower case and without "kafka.".

    Raises ValueError for none or both, for a path on another machine, and for kafka options that mean nothing here.
    """
    if "paths" in given:
        raise ValueError(f"one log directory is taken, got {given['paths']}; load each by itself and union the results")
    kafka = {name.removeprefix("kafka."): value for name, value in given.items() if name.startswith("kafka.")}
    for name in kafka:
        if name in _INSTEAD:
            raise ValueError(f"Kafka option 'kafka.{name}' is not supported: {_INSTEAD[name]}")
    if _BOOTSTRAP in given:
        if given.get("path", "").strip():
            raise ValueError(
                f"both path '{given['path']}' and {_BOOTSTRAP} '{given[_BOOTSTRAP]}' are given: the log is in a "
                "directory or behind servers"
            )
        return _servers(kafka, apart)
    for name in kafka:
        if name not in apart:
            raise ValueError(
                f"Kafka option 'kafka.{name}' is not supported: a log directory is read without a connection"
            )
    return Directory(_path(given))


def _servers(kafka: Mapping[str, str], apart: Collection[str]) -> Servers:
    servers = kafka["bootstrap.servers"].strip()
    if not servers:
        raise ValueError(f"{_BOOTSTRAP} is empty: give it as host:port, several with commas")
    config = {name: value for name, value in kafka.items() if name != "bootstrap.servers" and name not in apart}
    return Servers(servers, tuple(sorted(config.items())))


def _path(given: Mapping[str, str]) -> str:
    """The directory as an absolute path: tasks may run with another working directory than the planner."""
    text = given.get("path", "").strip()
    if not text:
        raise ValueError(
            "format('pylog') needs the log's directory, load(path) or option('path', ...), or "
            f"option('{_BOOTSTRAP}', 'host:port')"
        )
    url = urlsplit(text)
    if (url.scheme and "://" in text) or url.scheme == "file":
        if url.scheme != "file" or url.netloc not in ("", "localhost"):
            raise ValueError(f"format('pylog') takes local directories only, got path '{text}'")
        text = unquote(url.path)
    return str(Path(text).absolute())
