"""A job that is given up, as a record of the dead-letter topic: its key, value and headers as they were, and headers
that name its place and its error.

Six of these are those of Kafka 4.4 (KIP-1191), and two have the endings of Kafka Connect's:

    __dlq.errors.topic, .partition, .offset     where the record lies
    __dlq.errors.group                          the share group that gave it up
    __dlq.errors.delivery.count                 how often it was delivered
    __dlq.errors.message                        the error
    __dlq.errors.exception.class.name           its class
    __dlq.errors.exception.stacktrace           the line that raised it
"""

from traceback import extract_tb
from typing import Any

from pylog.errors import DeserializationError
from pylog.record import ShareRecord

PREFIX = "__dlq.errors."


def dead_letter_headers(
    record: ShareRecord[Any, Any], group_id: str, error: BaseException
) -> list[tuple[str, bytes | None]]:
    """The headers of the record for the dead-letter topic."""
    cause = error.__cause__ if isinstance(error, DeserializationError) and error.__cause__ is not None else error
    said: dict[str, object] = {
        "topic": record.topic, "partition": record.partition, "offset": record.offset, "group": group_id,
        "delivery.count": record.delivery_count, "message": cause, "exception.class.name": type(cause).__qualname__,
        "exception.stacktrace": _last_line(cause),
    }  # fmt: skip
    return [*record.headers, *((PREFIX + name, str(value).encode(errors="replace")) for name, value in said.items())]


def _last_line(error: BaseException) -> str:
    frames = extract_tb(error.__traceback__)
    return f'File "{frames[-1].filename}", line {frames[-1].lineno}, in {frames[-1].name}' if frames else ""
