"""A log as the options of `format("pylog")`: a directory, or `kafka.*` options of servers."""

import os
from collections.abc import Mapping
from typing import TypeAlias

from pylog.spark.options.where import Where, parse_where

LogPlace: TypeAlias = str | os.PathLike[str] | Mapping[str, str]
"""The path of a log directory, or options such as {"kafka.bootstrap.servers": "127.0.0.1:9092"}."""


def options_of(log: LogPlace) -> dict[str, str]:
    """The options that say where the log is."""
    return dict(log) if isinstance(log, Mapping) else {"path": os.fspath(log)}


def where_of(log: LogPlace) -> Where:
    """The place that the options mean. Raises ValueError."""
    return parse_where({name.lower(): value for name, value in options_of(log).items()})
