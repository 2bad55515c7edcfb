"""A log as the options of `format("pylog")`: a directory, several, or `kafka.*` options of servers."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pylog.spark.options.where import PATHS, Where, parse_where

LogPlace: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Mapping[str, str]
"""The path of a log directory, those of all directories of a log, or options such as {"kafka.bootstrap.servers":
"127.0.0.1:9092"}.
"""


def options_of(log: LogPlace) -> dict[str, str]:
    """The options that say where the log is."""
    if isinstance(log, Mapping):
        return dict(log)
    if isinstance(log, str | os.PathLike):
        return {"path": os.fspath(log)}
    return {PATHS: json.dumps([os.fspath(one) for one in log])}


def where_of(log: LogPlace) -> Where:
    """The place that the options mean. Raises ValueError."""
    return parse_where({name.lower(): value for name, value in options_of(log).items()})
