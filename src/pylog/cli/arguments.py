"""What the commands share in their arguments: where the log is, and how words become values.

`--log PATH` may stand before or after the command; without it the environment variable PYLOG_LOG says where the log
is. `--bootstrap HOST:PORT`, in its place, names a server that runs, and `--command-config FILE` has lines like
`security.protocol=SASL_SSL` for it. Values are parsed here, so that a wrong one is wrong usage (exit code 2, argparse's
message) and never an error halfway through.

    --config retention.ms=604800000        a pair
    --headers trace=1,source=web           pairs, UTF-8
    --since 10m | 2h | 2024-05-01T12:00 | 1714564800000
"""

import argparse
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from pylog.client_half import ClientHalf
from pylog.config.typed import TopicOptions
from pylog.errors import UnknownTopicOrPartition
from pylog.record import TopicPartition
from pylog.runtime.clock import Clock

__all__ = [
    "Moment",
    "Parser",
    "add_directory",
    "add_log",
    "bootstrap",
    "codec",
    "config_pair",
    "count",
    "examples",
    "headers",
    "log_path",
    "log_paths",
    "moment",
    "natural",
    "partitions_of",
    "place",
    "properties",
    "refuse_bootstrap",
    "separator",
    "topic_options",
    "topic_partition",
]

ENVIRONMENT = "PYLOG_LOG"
UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that shows examples as they are written and takes no abbreviated options."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **settings)
        self._is_intermixing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Take positional arguments from between options too: `produce clicks --codec zstd access.log`."""
        if self._is_intermixing or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._is_intermixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixing = False


def add_log(parser: argparse.ArgumentParser) -> None:
    """Give `parser` the options that say where the log is. They have no defaults, so that they may be given to a
    command or in front of it.
    """
    _add_directory(parser)
    parser.add_argument(
        "--bootstrap", metavar="HOST:PORT", default=argparse.SUPPRESS,
        help="a server that runs, pylog's or Kafka's, in place of --log; several with commas",
    )  # fmt: skip
    parser.add_argument(
        "--command-config", metavar="FILE", default=argparse.SUPPRESS,
        help="with --bootstrap: lines of configs, as security.protocol=SASL_SSL, sasl.mechanism=..., sasl.username=...",
    )  # fmt: skip


def add_directory(parser: argparse.ArgumentParser) -> None:
    """Give `parser` the option --log alone: the command needs the files, and says so to --bootstrap."""
    _add_directory(parser)
    parser.add_argument("--bootstrap", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def _add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log", metavar="PATH", default=argparse.SUPPRESS,
        help=f"the log's directory; several, for what changes topics, with commas (default: ${ENVIRONMENT})",
    )  # fmt: skip


def bootstrap(args: argparse.Namespace) -> str | None:
    """The server that was named by --bootstrap, if one was. Ends the program with code 2 where --log was, too."""
    servers: str | None = getattr(args, "bootstrap", None)
    parser: argparse.ArgumentParser = args.parser
    if servers is not None and hasattr(args, "log"):
        parser.error("give --log, for a directory, or --bootstrap, for a server that runs, not both")
    if servers is None and hasattr(args, "command_config"):
        parser.error("--command-config says how to log in to a server: it needs --bootstrap")
    return servers


def place(args: argparse.Namespace) -> str:
    """The place of the log, as text for a message."""
    return bootstrap(args) or log_path(args)


def properties(args: argparse.Namespace) -> dict[str, str]:
    """The configs in the file of --command-config, as Kafka's tools have them. Raises OSError, ValueError."""
    path: str | None = getattr(args, "command_config", None)
    if path is None:
        return {}
    found = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            text = line.strip()
            if not text or text[0] in "#!":
                continue
            name, equals, value = text.partition("=")
            if not equals:
                raise ValueError(f"{path}, line {number}: {text!r} is not NAME=VALUE")
            found[name.strip()] = value.strip()
    return found


def log_path(args: argparse.Namespace) -> str:
    """The directory that was named, by --log or by PYLOG_LOG. Ends the program with code 2 when none was."""
    refuse_bootstrap(args)
    path: str = getattr(args, "log", None) or os.environ.get(ENVIRONMENT, "")
    parser: argparse.ArgumentParser = args.parser
    if not path:
        parser.error(f"no log was named: give --log PATH or set {ENVIRONMENT}, or --bootstrap HOST:PORT where it may")
    return path


def refuse_bootstrap(args: argparse.Namespace) -> None:
    """End the program with code 2 where --bootstrap was given: the command needs the files."""
    parser: argparse.ArgumentParser = args.parser
    if hasattr(args, "bootstrap"):
        parser.error("this command needs the files of the log: give --log PATH, not --bootstrap")


def log_paths(args: argparse.Namespace) -> list[str]:
    """The directories that were named, the one with the list of topics first. A path that exists is one, whatever is
    in its name. Ends the program with code 2 when none was.
    """
    path = log_path(args)
    return [path] if os.path.exists(path) else [one.strip() for one in path.split(",")]


def config_pair(text: str) -> tuple[str, str]:
    """`retention.ms=1000` -> ("retention.ms", "1000")."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, as in retention.ms=604800000")
    return name.strip(), value.strip()


def topic_options(args: argparse.Namespace) -> TopicOptions:
    """The `--config`s of a topic. Their names are checked where the topic is."""
    return cast(TopicOptions, dict(args.config))


def headers(text: str) -> tuple[tuple[str, bytes], ...]:
    """`a=1,b=2` -> (("a", b"1"), ("b", b"2")): in this order, names may repeat."""
    pairs = []
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals:
            raise argparse.ArgumentTypeError(f"{part!r} is not NAME=VALUE, as in --headers trace=1,source=web")
        pairs.append((name, value.encode()))
    return tuple(pairs)


def codec(text: str) -> str:
    """The name of a codec."""
    if text not in CODECS:
        raise argparse.ArgumentTypeError(f"{text!r} is no codec: choose one of {', '.join(CODECS)}")
    return text


def separator(text: str) -> bytes:
    """The bytes between key and value; `\\t` and other escapes of Python strings are understood."""
    data = (
        text.encode("latin-1", "backslashreplace").decode("unicode_escape").encode() if "\\" in text else text.encode()
    )
    if not data or b"\n" in data:
        raise argparse.ArgumentTypeError("the separator must not be empty, nor hold a line break")
    return data


def count(text: str) -> int:
    """A number above zero."""
    number = natural(text)
    if number == 0:
        raise argparse.ArgumentTypeError("0 is too few: give at least 1")
    return number


def natural(text: str) -> int:
    """A number, zero or above; `1_000` and `1,000` are understood."""
    digits = text.replace("_", "").replace(",", "")
    if not digits.isascii() or not digits.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 0 or above")
    return int(digits)


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time: `ms` since 1970, or `ago_ms` before now."""

    ms: int | None = None
    ago_ms: int = 0

    def at(self, clock: Clock) -> int:
        """The time in ms since 1970; 0 for earlier times, which records cannot have."""
        return max(0, clock.wall_ms() - self.ago_ms if self.ms is None else self.ms)


def moment(text: str) -> Moment:
    """`10m` or `2h` (ago), ms since 1970, or ISO 8601 (UTC where it names no zone)."""
    ago = re.fullmatch(r"(\d+)(ms|s|m|h|d|w)( ago)?", text)
    if ago:
        return Moment(ago_ms=int(ago[1]) * UNITS_MS[ago[2]])
    if text.isascii() and text.isdigit() and len(text) > 8:
        return Moment(ms=int(text))
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time: give 10m or 2h (ago), 2024-05-01T12:00 (UTC), or ms since 1970"
        ) from error
    at = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
    return Moment(ms=round(at.timestamp() * 1000))


def topic_partition(text: str) -> tuple[str, int | None]:
    """`clicks` -> ("clicks", None); `clicks:3` -> ("clicks", 3)."""
    name, colon, number = text.partition(":")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC or TOPIC:PARTITION")
    return name, natural(number) if colon else None


def partitions_of(log: ClientHalf[Any], name: str, number: int | None) -> list[TopicPartition]:
    """One partition of a topic, or all. Raises UnknownTopicOrPartition."""
    numbers = [view.partition for view in log.topic(name)]
    if number is not None and number not in numbers:
        raise UnknownTopicOrPartition(f"topic {name!r} has no partition {number}; it has {len(numbers)}, from 0 on")
    return [TopicPartition(name, one) for one in numbers if number in (None, one)]


def examples(lines: Sequence[str]) -> str:
    """The end of a help text."""
    return "examples:\n" + "\n".join(f"  {line}" for line in lines)
