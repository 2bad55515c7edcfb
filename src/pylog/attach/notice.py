"""The notice of an owner in the lock file of its first directory: how to reach it, and its settings.

    4711                                                                  its pid
    {"format": 1, "socket": ".socket", "flush": "sync", ...}              the notice, a line of JSON

The notice is written when the socket listens, so a lock file without one is that of an owner that opens, or of another
program. While a notice is written, a mixture of two may be read: that is no JSON, and is read again.

Directories are known by device and number, as one may have several paths: processes in containers mount them anywhere.
A copy of a directory has another number, so a process that opens it does not attach to the owner of the original.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pylog.config import NodeConfig
from pylog.errors import InvalidConfig, LogNotFound, ReadOnly, UnsupportedFormat
from pylog.files import Files, join
from pylog.files.outside import place_of
from pylog.logdirs.log_directory import LOCK

__all__ = ["Notice", "Place", "places_of", "read_notice", "unusual"]

FORMAT = 1
NOTICE_BYTES_MAX = 1 << 20
PID_DIGITS_MAX = 20
FLUSHES = "sync", "interval", "none"
FIELDS = {
    "socket": str, "obstacle": str, "node_id": int, "flush": str, "paths": list, "places": list, "config": dict,
}  # fmt: skip

Place = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """The facts about an owner."""

    pid: int
    socket: str
    """The path of its Unix socket, from its first directory on; "" where it could not listen."""
    obstacle: str = ""
    """Why it could not."""
    node_id: int
    flush: str
    paths: tuple[str, ...]
    """Its log directories, as it calls them."""
    places: tuple[Place, ...]
    """The device and the number of each."""
    config: Mapping[str, str]
    """Those of its configs that are not the defaults, by Kafka's names."""

    def text(self) -> str:
        """The notice as it stands in the lock file, behind the pid."""
        said = {name: getattr(self, name) for name in FIELDS}
        return json.dumps({"format": FORMAT, **said}, separators=(",", ":"))

    @property
    def who(self) -> str:
        """The owner, for a message."""
        return f"process {self.pid}, the owner of {self.paths[0]},"


def places_of(paths: Iterable[str]) -> tuple[Place, ...]:
    """The device and the number of each directory, or (0, 0)."""
    return tuple(map(place_of, paths))


def unusual(config: NodeConfig) -> dict[str, str]:
    """The configs that are not the defaults, by Kafka's names."""
    usual = _usual()
    return {name: value for name, value in config.to_kafka().items() if value != usual[name]}


@cache
def _usual() -> dict[str, str]:
    return NodeConfig().to_kafka()


def read_notice(files: Files, path: str) -> Notice | None:
    """The notice of the last owner of the directory `path`; None: the directory has no owner, or no notice yet.

    Raises UnsupportedFormat (the owner is of a newer version), ReadOnly (it is another user's), StorageError.
    """
    try:
        content = files.read_file(join(path, LOCK), NOTICE_BYTES_MAX)
    except LogNotFound:
        return None
    except ReadOnly as error:
        raise ReadOnly(
            f"{error}. The owner of the log is, or was, a process of another user: run both as the same user, or read "
            "with mode='read'"
        ) from error
    pid, _, rest = content.partition(b"\n")
    try:
        said = json.loads(rest)
    except (ValueError, RecursionError):
        return None
    if not pid.isdigit() or len(pid) > PID_DIGITS_MAX:
        return None
    if not isinstance(said, dict) or type(said.get("format")) is not int:
        return None
    if said["format"] > FORMAT:
        raise UnsupportedFormat(
            f"{join(path, LOCK)}: the owner lets others in by format {said['format']}, and this pylog knows {FORMAT}: "
            "use the same version in all processes"
        )
    return _checked(int(pid), said)


def _checked(pid: int, said: dict[str, Any]) -> Notice | None:
    if not all(type(said.get(name)) is kind for name, kind in FIELDS.items()):
        return None
    paths, places, config = said["paths"], said["places"], said["config"]
    if not paths or len(places) != len(paths) or not all(isinstance(one, str) for one in [*paths, *config.values()]):
        return None
    if not all(isinstance(one, list) and [type(number) for number in one] == [int, int] for one in places):
        return None
    if said["flush"] not in FLUSHES or not 0 <= said["node_id"] < 1 << 31:
        return None
    try:
        os.fsencode(said["socket"])
        NodeConfig.from_kafka(config)
    except (InvalidConfig, UnicodeEncodeError):
        return None
    fields = {name: said[name] for name in FIELDS}
    return Notice(pid=pid, **{**fields, "paths": tuple(paths), "places": tuple((one[0], one[1]) for one in places)})
