"""The records of a schedule.

    key                     value       headers
    wait/<id>/<nonce>       the job's   the job's, after __schedule.topic .due .key .null .delay .first .sent .unique
                                        .cron .timezone (those that apply)
    cancel/<id>/<nonce>     empty       none
    taken/<id>              empty       __schedule.until

A record without a value ends what its key began, and only a scheduler writes one. So a key has one writer at a time:
its sender, who makes it with a nonce, then the scheduler. Without nonces the end of an older job could hide a newer one
that has the same id, once the topic is compacted.

Times are milliseconds since 1970 UTC, as digits.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pylog.record import ConsumerRecord, DeserializedRecord

PREFIX = "__schedule."
ID, DUE = PREFIX + "id", PREFIX + "due"
MOMENT_MAX = 1 << 53
"""The largest number that a record may say: beyond it are times that no clock reaches."""

Stored: TypeAlias = "ConsumerRecord[bytes, bytes] | DeserializedRecord[bytes, bytes]"
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledJob:
    """A job that waits."""

    job_id: str
    topic: str
    """Where it goes."""
    at_ms: int
    """When it is due, in milliseconds since 1970 UTC."""
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    cron: str | None = None
    """The times of a job that is repeated; it waits for the next one."""
    timezone: str = "UTC"
    unique_for_ms: int | None = None
    """How long its id is taken once it is moved."""
    is_delay: bool = False
    """Whether it waits for a span of time, which steps of the clock do not change."""
    entry: bytes = b""
    """The key of its record in the schedule."""
    order: int = -1
    """The offset of the first record of that key: later ones take the place of earlier ones that have the same id."""
    sent_ms: int = 0
    """When it was sent."""

    def due_record(self) -> tuple[bytes | None, bytes | None, Headers]:
        """Key, value and headers of its record in its topic."""
        told = ((ID, self.job_id.encode()), (DUE, b"%d" % self.at_ms))
        return self.key, self.value, (*told, *self.headers)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """All jobs with an id that were sent before are not to be moved."""

    job_id: str
    entry: bytes
    order: int


@dataclass(frozen=True, slots=True)
class Taken:
    """An id is taken until a moment: jobs that are sent with it before are dropped."""

    job_id: str
    until_ms: int

    @property
    def entry(self) -> bytes:
        """The key of its record."""
        return b"taken/" + self.job_id.encode()


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of an entry."""

    entry: bytes


Entry = ScheduledJob | Cancelled | Taken | Ended


def waiting_key(job_id: str, nonce: str) -> bytes:
    """The key of the record of a job that waits."""
    return f"wait/{job_id}/{nonce}".encode()


def cancelling_key(job_id: str, nonce: str) -> bytes:
    """The key of the record of a cancellation."""
    return f"cancel/{job_id}/{nonce}".encode()


# --- to bytes --------------------------------------------------------------------------------------------------------


def encoded(entry: Entry) -> tuple[bytes, bytes | None, Headers]:
    """Key, value and headers of the record of an entry."""
    match entry:
        case ScheduledJob():
            return entry.entry, entry.value or b"", (*_said_of(entry), *entry.headers)
        case Taken():
            return entry.entry, b"", ((PREFIX + "until", b"%d" % entry.until_ms),)
        case Cancelled():
            return entry.entry, b"", ()
    return entry.entry, None, ()


def _said_of(job: ScheduledJob) -> Iterable[tuple[str, bytes]]:
    numbers = {"due": job.at_ms, "unique": job.unique_for_ms}
    if job.order >= 0:
        numbers |= {"first": job.order, "sent": job.sent_ms}
    texts: Mapping[str, str | None] = {
        "topic": job.topic, "cron": job.cron, "timezone": None if job.cron is None else job.timezone,
        "null": None if job.value is not None else "", "delay": "" if job.is_delay else None,
        **{name: None if number is None else str(number) for name, number in numbers.items()},
    }  # fmt: skip
    found = [(PREFIX + name, text.encode()) for name, text in texts.items() if text is not None]
    return found if job.key is None else [*found, (PREFIX + "key", job.key)]


# --- from bytes ------------------------------------------------------------------------------------------------------


def decoded(record: Stored) -> Entry:
    """The entry of a record. Raises ValueError, which names the place, for another kind of record."""
    try:
        return _decoded(record)
    except (ValueError, KeyError) as error:
        place = f"{record.topic}-{record.partition}, offset {record.offset}"
        raise ValueError(f"{place} is not an entry of a schedule: {error!r}") from error


def _decoded(record: Stored) -> Entry:
    key: bytes = record.key or b""
    if record.value is None:
        return Ended(key)
    kind, _, rest = key.decode().partition("/")
    if kind == "taken":
        return Taken(rest, _number(_said(record)["until"]))
    job_id, slash, _ = rest.rpartition("/")
    if not slash or kind not in ("wait", "cancel"):
        raise ValueError(f"its key is {key!r}")
    return Cancelled(job_id, key, record.offset) if kind == "cancel" else _job(record, job_id, _said(record))


def _job(record: Stored, job_id: str, said: Mapping[str, bytes]) -> ScheduledJob:
    return ScheduledJob(
        job_id=job_id, topic=said["topic"].decode(), at_ms=_number(said["due"]), entry=record.key or b"",
        value=None if "null" in said else record.value, key=said.get("key"),
        headers=tuple((one.key, one.value) for one in record.headers if not one.key.startswith(PREFIX)),
        cron=said["cron"].decode() if "cron" in said else None, timezone=said.get("timezone", b"UTC").decode(),
        unique_for_ms=_number(said["unique"]) if "unique" in said else None, is_delay="delay" in said,
        order=_number(said["first"]) if "first" in said else record.offset,
        sent_ms=_number(said["sent"]) if "sent" in said else record.timestamp,
    )  # fmt: skip


def _said(record: Stored) -> dict[str, bytes]:
    return {
        one.key.removeprefix(PREFIX): one.value or b"" for one in record.headers if one.key.startswith(PREFIX)
    }  # fmt: skip


def _number(text: bytes) -> int:
    if not text.isdigit() or len(text) > 16 or (number := int(text)) > MOMENT_MAX:
        raise ValueError(f"{text[:20]!r} is no time in milliseconds")
    return number
