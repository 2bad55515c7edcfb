"""The forms that change topics. Each takes the log for the time of the change alone."""

from contextlib import AbstractContextManager
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from pylog.handles.any_log import AnyLog
from pylog.record import TopicPartition
from pylog.ui.pages import after, form, seen
from pylog.ui.parameters import choice, needed, needed_number, needed_partition, pairs

__all__ = ["add_partitions", "alter_config", "changing", "create", "delete", "trim"]

PARTITIONS_MAX = 10_000


def changing(request: Request) -> AbstractContextManager[AnyLog]:
    """The log, to be changed. Raises what opening it raises."""
    change = seen(request).change
    assert change is not None, "the routes of changes are there with it alone"
    return change()


def create(request: Request) -> Response:
    """Make a topic."""
    words = form(request)
    name, partitions = needed(words, "name"), needed_number(words, "partitions", 1, PARTITIONS_MAX)
    config: Any = dict(pairs(words, "config", "retention.ms=604800000"))
    with changing(request) as log:
        log.create_topic(name, partitions, config)
    return after("created", "topics", name)


def delete(request: Request) -> Response:
    """Remove a topic, where its name was typed once more."""
    name = request.path_params["topic"]
    if needed(form(request), "confirm") != name:
        raise HTTPException(400, f"Nothing was deleted: type the name {name} to confirm.")
    with changing(request) as log:
        log.delete_topic(name)
    return after("deleted")


def add_partitions(request: Request) -> Response:
    """Let a topic have more partitions."""
    name, total = request.path_params["topic"], needed_number(form(request), "total", 1, PARTITIONS_MAX)
    with changing(request) as log:
        log.create_partitions(name, total)
    return after("partitions", "topics", name)


def trim(request: Request) -> Response:
    """Let a partition start later."""
    name, words = request.path_params["topic"], form(request)
    partition, before = needed_partition(words), needed_number(words, "before")
    with changing(request) as log:
        log.delete_records({TopicPartition(name, partition): before})
    return after("trimmed", "topics", name)


def alter_config(request: Request) -> Response:
    """Set a config of a topic, or take it back to its default."""
    name, words = request.path_params["topic"], form(request)
    key = needed(words, "name")
    with changing(request) as log:
        if choice(words, "what", ("set", "reset")) == "reset":
            log.alter_config(name, delete=[key])
        else:
            value: Any = {key: words.get("value", "").strip()}
            log.alter_config(name, value)
    return after("config", "topics", name, "config")
