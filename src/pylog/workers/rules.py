"""The rules by which jobs are done, by threads and by the tasks of an event loop. Nothing here waits, except
`JobConfig.rules` for the answers of the node.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pylog.client.consumer.fetcher import deserializing
from pylog.config.share_consumer import ShareConsumerConfig
from pylog.errors import DeserializationError
from pylog.handles.client_half import ClientHalf
from pylog.record import ShareRecord

Job = ShareRecord[Any, Any]
Read = Callable[[Job], Job]
USUAL: Mapping[str, object] = {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"}


class Reject(Exception):  # noqa: N818 - the word of share groups
    """Raise it where a job is not to be tried again: it goes to the dead-letter topic at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConfig:
    """The settings of workers, as their maker gives them."""

    topics: tuple[str, ...]
    group_id: str
    retries: int
    backoff_ms: int
    backoff_max_ms: int
    timeout_ms: int | None
    dead_letter: str | None
    """The topic of the jobs that are given up; None: they are logged, and gone."""
    group_config: Mapping[str, object]
    key_deserializer: Callable[[bytes], Any] | None
    value_deserializer: Callable[[bytes], Any] | None

    def __post_init__(self) -> None:
        check_least("retries", self.retries, 0)
        check_least("backoff_ms", self.backoff_ms, 0)
        check_least("backoff_max_ms", self.backoff_max_ms, 0)
        if self.timeout_ms is not None:
            check_least("timeout_ms", self.timeout_ms, 1)

    def rules(self, log: ClientHalf[Any]) -> "JobRules":
        """Set the configs of the group, and ask for those that rules follow from. Raises UnknownTopicOrPartition where
        there is no topic for dead letters, and what `Admin.alter_group_config` does.
        """
        if self.dead_letter is not None:
            log.topic(self.dead_letter)
        admin = log.admin
        if self.group_config:
            admin.alter_group_config(self.group_id, self.group_config)
        configs = admin.describe_group_config(self.group_id)
        return JobRules(
            config=self,
            lock_ms=int(configs["share.record.lock.duration.ms"].value or 0),
            deliveries_max=int(configs["share.delivery.count.limit"].value or 0),
        )

    def member(self, make: Callable[..., Any]) -> Any:
        """A member of the group that takes one record at a time, made by `Log.share_consumer`. It does not deserialize:
        what is given up goes on as bytes.
        """
        return make(
            *self.topics, group_id=self.group_id, acknowledgement="explicit", max_poll_records=1,
            share_acquire_mode="record_limit",
        )  # fmt: skip

    def reader(self) -> Read:
        """A function that makes a record readable, for one thread. It raises DeserializationError."""
        readable = ShareConsumerConfig(
            group_id=self.group_id, key_deserializer=self.key_deserializer, value_deserializer=self.value_deserializer
        )
        deserialize: Callable[[Any], Any] | None = deserializing(readable)
        if deserialize is None:
            return lambda record: record

        def read(record: Job) -> Job:
            made = deserialize(record)
            return record._replace(key=made.key, value=made.value)

        return read


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRules:
    """The rules that all members of one crew go by."""

    config: JobConfig
    lock_ms: int
    deliveries_max: int

    @property
    def renewal_ms(self) -> int:
        """When a lock is renewed, from its beginning on: half of its time is over then."""
        return self.lock_ms // 2

    def why_spent(self, record: Job) -> Reject | None:
        """Why a job is given up without a try: it is delivered for the last time."""
        if record.delivery_count < self.deliveries_max:
            return None
        return Reject(f"it was delivered {record.delivery_count} times, and nobody came to its end")

    def may_try_again(self, tries: int, error: BaseException) -> bool:
        """Whether a job is tried again that has failed so many times."""
        is_unreadable = isinstance(error, DeserializationError) and not error.may_pass
        return tries <= self.config.retries and not (is_unreadable or isinstance(error, Reject))

    def pause_ms(self, tries: int) -> int:
        """The pause before the next try, longer each time."""
        longest = min(self.config.backoff_ms << min(tries - 1, 30), self.config.backoff_max_ms)
        return round(longest * random.uniform(0.5, 1))

    def overdue(self) -> TimeoutError:
        """The error of a try whose time is over: there is no other one."""
        return TimeoutError(f"it took more than {self.config.timeout_ms} ms")


def named(topics: str | Iterable[str]) -> tuple[str, ...]:
    """The names of one topic, or of several."""
    return (topics,) if isinstance(topics, str) else tuple(topics)


def check_least(name: str, number: int, least: int) -> None:
    """Raise ValueError for a number that is too small."""
    if number < least:
        raise ValueError(f"{name} is {number}: the least is {least}")


def place_of(record: Job) -> str:
    """The place of a record, for a message."""
    return f"{record.topic}-{record.partition}, offset {record.offset}"
