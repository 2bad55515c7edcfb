"""Where the log is: a directory (`path`, `load(path)`), several (`paths`, `load([...])`), or `kafka.bootstrap.servers`
and how these are reached.

Spark turns `load(["/a", "/b"])` into the option `paths`, a JSON list. A stream and a sink take one path, so there the
option is given as it is.

Options that begin with `kafka.` and are not read elsewhere are configs of the connection, by the names that
`pylog.connect` knows: kafka.security.protocol, kafka.sasl.mechanism, kafka.ssl.ca.location...
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import unquote, urlsplit

from pylog.spark.options.values import expected, json_texts

PATHS: Final = "paths"
"""The option that names several directories."""
_PATHS_EXAMPLE: Final = '["/disk1/data","/disk2/data"]'
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
class GivenDirectories:
    """All log directories of a log, on disks that the driver's host and every executor see at these absolute paths."""

    paths: tuple[str, ...]
    """The first one has the list of topics."""

    def __str__(self) -> str:
        return ", ".join(self.paths)

    @property
    def name(self) -> str:
        """Names the log in what a stream keeps; the same when the log gets one more directory."""
        return self.paths[0]

    def is_log_of(self, other: "Where") -> bool:
        """Whether the other place is the same log."""
        return isinstance(other, GivenDirectories) and not set(self.paths).isdisjoint(other.paths)


@dataclass(frozen=True, slots=True)
class Servers:
    """A pylog server or a Kafka cluster, which the driver's host and every executor reach by these addresses."""

    bootstrap_servers: str
    config: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Configs of `pylog.connect`; they may hold a password."""

    def __str__(self) -> str:
        return self.bootstrap_servers

    @property
    def name(self) -> str:
        """Names the log in what a stream keeps."""
        return self.bootstrap_servers

    def is_log_of(self, other: "Where") -> bool:
        """Whether the other place is the same log, as far as the options tell."""
        return self == other


Where: TypeAlias = GivenDirectories | Servers


def parse_where(given: Mapping[str, str], apart: Collection[str] = ()) -> Where:
    """The one of path, paths and kafka.bootstrap.servers that was given. `apart`: kafka options that are not configs
    of a connection, in lower case and without "kafka.".

    Raises ValueError for none or several, for paths that are no JSON list, name a directory twice or are on another
    machine, and for kafka options that mean nothing here.
    """
    kafka = {name.removeprefix("kafka."): value for name, value in given.items() if name.startswith("kafka.")}
    for name in kafka:
        if name in _INSTEAD:
            raise ValueError(f"Kafka option 'kafka.{name}' is not supported: {_INSTEAD[name]}")
    if _BOOTSTRAP in given:
        for name in ("path", PATHS):
            if given.get(name, "").strip():
                raise ValueError(
                    f"both {name} '{given[name]}' and {_BOOTSTRAP} '{given[_BOOTSTRAP]}' are given: the log is in "
                    "directories or behind servers"
                )
        return _servers(kafka, apart)
    for name in kafka:
        if name not in apart:
            raise ValueError(
                f"Kafka option 'kafka.{name}' is not supported: a log directory is read without a connection"
            )
    return GivenDirectories(_paths(given))


def _servers(kafka: Mapping[str, str], apart: Collection[str]) -> Servers:
    servers = kafka["bootstrap.servers"].strip()
    if not servers:
        raise ValueError(f"{_BOOTSTRAP} is empty: give it as host:port, several with commas")
    config = {name: value for name, value in kafka.items() if name != "bootstrap.servers" and name not in apart}
    return Servers(servers, tuple(sorted(config.items())))


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    one, several = given.get("path", "").strip(), given.get(PATHS)
    if several is None:
        if not one:
            raise ValueError(
                "format('pylog') needs the log's directory, load(path) or option('path', ...), or "
                f"option('{_BOOTSTRAP}', 'host:port'); several directories of one log are option('{PATHS}', "
                f"'{_PATHS_EXAMPLE}')"
            )
        return (_absolute(one),)
    if one:
        raise ValueError(f"both path '{one}' and {PATHS} '{several}' are given: name all directories in {PATHS}")
    texts = json_texts(several, PATHS, _PATHS_EXAMPLE)
    if not texts or not all(text.strip() for text in texts):
        raise expected(PATHS, _PATHS_EXAMPLE, several)
    paths = tuple(_absolute(text.strip()) for text in texts)
    if len(set(paths)) < len(paths):
        raise ValueError(f"option '{PATHS}' names a directory twice: {several}")
    return paths


def _absolute(text: str) -> str:
    """A directory as an absolute path: tasks may run with another working directory than the planner."""
    url = urlsplit(text)
    if (url.scheme and "://" in text) or url.scheme == "file":
        if url.scheme != "file" or url.netloc not in ("", "localhost"):
            raise ValueError(f"format('pylog') takes local directories only, got path '{text}'")
        text = unquote(url.path)
    return str(Path(text).absolute())
