"""The form that appends one record: text, JSON, hexadecimal or by a schema of the log, with a key and headers."""

import json
from collections.abc import Mapping
from io import BytesIO

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from pylog.errors import PylogError
from pylog.handles.any_log import AnyLog
from pylog.serde.avro import parsed_avro
from pylog.serde.json_schema import json_schema
from pylog.serde.log_registry import LogRegistry
from pylog.serde.registry import AVRO, JSON, Schema
from pylog.serde.schema_decoder import message_class
from pylog.serde.wire import head
from pylog.ui.avro_input import InputError, avro_datum
from pylog.ui.pages import Pages, after, form
from pylog.ui.parameters import choice, needed, pairs, partition
from pylog.ui.topic_changes import changing

__all__ = ["produce", "produce_form"]

FORMATS = ("text", "json", "hex", "schema", "null")
REQUEST_MS, DELIVERY_MS = 5_000, 10_000
"""How long a visitor waits for a server that does not answer."""
FIRST_MESSAGE = b"\0"
"""The indexes of the first message of a file of Protobuf."""


def produce_form(request: Request) -> Response:
    """The form, empty."""
    return _form(request, {}, "", 200)


def produce(request: Request) -> Response:
    """Append a record. An error stands above the form, which keeps what was typed."""
    topic, words = request.path_params["topic"], form(request)
    try:
        number = partition(words)
        headers = [(name, text.encode()) for name, text in pairs(words, "headers", "trace=77")]
        with changing(request) as log:
            key, value = (_bytes(log, words, name) for name in ("key", "value"))
            with log.producer(request_timeout_ms=REQUEST_MS, delivery_timeout_ms=DELIVERY_MS) as producer:
                sent = producer.send(topic, value, key=key, partition=number, headers=headers).result()
    except (HTTPException, PylogError, ValueError) as error:
        return _form(request, words, error.detail if isinstance(error, HTTPException) else str(error), 400)
    return after("produced", "topics", topic, "records", sent.partition, sent.offset)


def _form(request: Request, words: Mapping[str, str], problem: str, status: int) -> Response:
    pages: Pages = request.app.state.pages
    topic = request.path_params["topic"]
    partitions = request.app.state.source.log.topic(topic)
    return pages.html(
        "produce.html", request.scope, status, topic=topic, words=words, problem=problem, formats=FORMATS,
        subjects=request.app.state.schemas.state().subjects(), partitions=[one.partition for one in partitions],
    )  # fmt: skip


def _bytes(log: AnyLog, words: Mapping[str, str], name: str) -> bytes | None:
    """The key or the value as bytes. Raises HTTPException (400), PylogError."""
    # A browser ends the lines of a form by CR LF.
    text = words.get(name, "").replace("\r\n", "\n")
    match choice(words, f"{name}-format", FORMATS):
        case "null":
            return None
        case "hex":
            try:
                return bytes.fromhex(text)
            except ValueError as error:
                raise HTTPException(400, f"{name} is not hexadecimal, as in 00 ff: {error}") from error
        case "text":
            return text.encode()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"{name} is not JSON: {error}") from error
    if words[f"{name}-format"] == "json":
        return text.encode()
    return _by_schema(LogRegistry(log), needed(words, f"{name}-subject"), value, name)


def _by_schema(registry: LogRegistry, subject: str, value: object, name: str) -> bytes:
    """A value by the latest schema of a subject, in Confluent's format."""
    latest = registry.version(subject)
    unfit = f"{name} does not fit schema {latest.id} of {subject}"
    try:
        if latest.schema.type == AVRO:
            return head(latest.id) + _avro(registry, latest.schema, value, name)
        if latest.schema.type == JSON:
            return _checked_json(registry, subject, value, name)
        return head(latest.id) + FIRST_MESSAGE + _message(registry, latest.schema, value)
    except InputError as error:
        raise HTTPException(400, f"{unfit}: {error}") from error
    except Exception as error:
        # A library raises what it likes for a value that does not fit; so does one that is missing.
        raise HTTPException(400, f"{unfit}: {type(error).__name__}: {error}") from error


def _avro(registry: LogRegistry, schema: Schema, value: object, name: str) -> bytes:
    try:
        from fastavro import schemaless_writer
    except ModuleNotFoundError as error:
        raise InputError(f"Avro needs fastavro: pip install fastavro ({error})") from error

    parsed, _ = parsed_avro(schema, registry.referenced)
    out = BytesIO()
    schemaless_writer(out, parsed, avro_datum(parsed, value, name))
    return out.getvalue()


def _checked_json(registry: LogRegistry, subject: str, value: object, name: str) -> bytes:
    checked = json_schema(registry, subject)
    from jsonschema import ValidationError

    try:
        return checked.serialize(value)
    except ValidationError as error:
        raise InputError(f"{name}{error.json_path[1:]}: {error.message}") from error


def _message(registry: LogRegistry, schema: Schema, value: object) -> bytes:
    from google.protobuf.json_format import ParseDict

    of = message_class(schema, registry.referenced)([0])
    data: bytes = ParseDict(value, of()).SerializeToString()
    return data
