"""The background work of a node: retention, compaction, checkpoints, and what has to be removed later.

    task         every                                          what
    places       second, while anything is appended             whether the log lies where it was opened
    checkpoint   log.flush.offset.checkpoint.interval.ms        how far partitions are durable
    retention    log.retention.check.interval.ms                segments that nobody has to keep
    producers    producer.id.expiration.check.interval.ms       producers that are gone
    ids          transaction.remove.expired.transaction...      transactional ids that are not used any more
    offsets      offsets.retention.check.interval.ms            committed offsets of groups that are gone
    purge        when due                                       files whose file.delete.delay.ms has passed
    clean        log.cleaner.backoff.ms, or at once again       the dirtiest compacted log, in a thread of its own
    scrub        scrub.interval.ms, segment by segment          every sealed byte is read, in a thread of its own

Nothing runs, and no thread is there, before the first append, or the first deletion of records. All of it can be asked
for as well: `retain`, `clean`. Retention, ids and offsets go by when they were done last, in whatever open that was
(`sweeps`): what is overdue is done at once, partition by partition. A close does some of what is left of that, and all
that comes with appends: retention of the opened partitions, and compaction where it is little work (`finish`).
What is damaged is given up only when that is asked for: `find_damage`, `repair`.
(Kafka: LogManager, LogCleaner.)
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import cast

from pylog.broker.alarm import Alarm
from pylog.broker.log_cleaner import Cleaned, Cleaner, Progress, Throttle, dirt
from pylog.broker.place_watch import LOOK_EVERY_MS, PlaceWatch
from pylog.broker.replica_manager import ReplicaManager
from pylog.broker.scrubber import Scrubber
from pylog.broker.sweeps import Sweep, Sweeps
from pylog.config.options import LONG_MAX
from pylog.errors import Closed, ConcurrentUse, DiskFull, LogNotFound, PylogError, UnknownTopicOrPartition
from pylog.files import join
from pylog.logdirs.damage import Findings, find_damage
from pylog.logdirs.log_directory import CleaningFacts, LogDirectory
from pylog.logdirs.repair import copies_folder, repair
from pylog.metrics.histogram import Times
from pylog.partition import Partition
from pylog.protocol.messages import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from pylog.record import TopicPartition
from pylog.runtime.clock import Clock, stopwatch_ns
from pylog.runtime.signals import WHOLE, WholeLock, pause
from pylog.runtime.worker import Worker
from pylog.storage.partition_dirs import folder_name

logger = logging.getLogger("pylog.broker")

SHOW_EVERY_MS = 1000
PLACES = "places"
RETENTION, IDS, OFFSETS = "retention", "transactional ids", "offsets"
CLOSE_MS = 100
"""After how long a close begins with no other partition: a sweep that is due goes on at the next one that is."""
CLEANED_AT_CLOSE = 16 << 20
"""How many bytes a close reads to compact, at most."""


@dataclass(frozen=True, slots=True)
class CleaningState:
    """The state of cleaning one partition."""

    progress: Progress | None = None
    """How far the one that runs has come; None when none does."""
    last: Cleaned | None = None
    """The result of the last one; None where none is known."""
    finished_ms: int | None = None
    """When that was."""
    error: str | None = None
    """Why the partition is not cleaned any more, until the log is opened again."""
    idle_reason: str | None = None
    """Why the last `clean` had nothing to do."""

    def shown(self) -> CleaningFacts:
        """The state for people."""
        return cast(CleaningFacts, asdict(self))

    @classmethod
    def of(cls, shown: CleaningFacts) -> "CleaningState":
        """The last result in what `write_cleanings` has shown; none where another version has written it."""
        try:
            return cls(last=Cleaned(**(shown["last"] or {})), finished_ms=shown["finished_ms"])
        except (KeyError, TypeError):
            return cls()


class Housekeeping:
    """The background work of one node. Thread-safe.

    It arms `alarm` when it needs to hear of the next append. `expire` lets the coordinators of an internal topic forget
    what has expired: see `CoordinatorRouter.expire`.
    """

    def __init__(
        self, node: ReplicaManager, clock: Clock, alarm: Alarm,
        expire: Callable[[str, TopicPartition | None], Iterator[TopicPartition]],
    ) -> None:  # fmt: skip
        self.node = node
        self.cleanings: dict[TopicPartition, CleaningState] = {}
        self._config = config = node.configs.given
        self._clock = clock
        self._alarm = alarm
        self._places = PlaceWatch(node)
        ids_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
        sweeps = {
            RETENTION: Sweep(config.log_retention_check_interval_ms, self._retain_after),
            IDS: Sweep(ids_ms, partial(expire, TRANSACTIONS_TOPIC)),
            OFFSETS: Sweep(config.offsets_retention_check_interval_ms, partial(expire, GROUPS_TOPIC)),
        }
        self._sweeps = Sweeps(node.directories.first, clock, sweeps)
        self._due: dict[str, int] = {}
        self._tasks: dict[str, tuple[int, Callable[[], object]]] = {
            PLACES: (LOOK_EVERY_MS, self._look_at_places),
            "checkpoint": (config.log_flush_offset_checkpoint_interval_ms, node.checkpoint),
            "producers": (config.producer_id_expiration_check_interval_ms, self._expire_producers),
        }
        self._intervals_ms = {name: one.interval_ms for name, one in sweeps.items()} | {
            name: interval_ms for name, (interval_ms, _) in self._tasks.items()
        }
        self._stopped = threading.Event()
        self._cleaning = WholeLock()
        self._cleans_in: int | None = None
        """The thread that cleans, or repairs: what a signal's handler calls there must not wait for it."""
        self._clean_due: int | None = None
        self._unshown: set[TopicPartition] = set()
        self._shown_ms = 0
        self.clean_times = Times()
        self.last_cleaned: Cleaned | None = None
        self.last_clean_seconds = 0.0
        self.scrubber = Scrubber(node, config, clock)
        self._worker = Worker("pylog-housekeeping", clock, self._next, self._work)
        self._cleaner = Worker("pylog-cleaner", clock, lambda: self._clean_due, self._clean_once)

    def note_append(self, partition: Partition) -> None:
        """Something was appended: there will be work. Where no thread can be had for it, the next append tries."""
        if PLACES not in self._due:
            with WHOLE:
                if self._due:
                    # The last look is long ago.
                    self._due[PLACES] = self._clock.tick_ms()
                else:
                    self._begin()
                self._have_thread()
        if self._clean_due is None and self._config.log_cleaner_enable and is_compacted(partition):
            with WHOLE:
                self._clean_due = self._clock.tick_ms() + self.node.configs.current.log_cleaner_backoff_ms
                if not self._cleaner.wake():
                    self._clean_due = None

    def note_deleted(self) -> None:
        """Records were deleted: there will be segments to drop."""
        if not self._due:
            with WHOLE:
                self._begin()
                self._have_thread()

    def _begin(self) -> None:
        now = self._clock.tick_ms()
        waits_ms = self._intervals_ms | self._sweeps.waits_ms()
        self._due = {name: now + wait_ms for name, wait_ms in waits_ms.items()}
        self.scrubber.start()

    def _have_thread(self) -> None:
        if not self._worker.wake():
            self._due = {}
            self._alarm.is_armed = True

    def forget(self, keys: Iterable[TopicPartition]) -> None:
        """These partitions are gone; what comes later under their names begins again."""
        for key in keys:
            self.cleanings.pop(key, None)

    def _next(self) -> int | None:
        times = list(self._due.values())
        purge = self.node.topics.purge_due_ms
        if purge is not None:
            times.append(self._clock.tick_ms() + max(0, purge - self._clock.wall_ms()))
        return min(times, default=None)

    def _work(self) -> None:
        self._do_due(lambda: not self._stopped.is_set())

    def _do_due(self, goes_on: Callable[[], bool]) -> None:
        """Do what is due; sweeps end midway where `goes_on` says so, and are due still."""
        now, has_swept = self._clock.tick_ms(), False
        for name, due in list(self._due.items()):
            if due > now:
                continue
            self._due[name] = now + self._intervals_ms[name]
            if name in self._sweeps:
                has_swept = True
                self._try(name, partial(self._sweep, name, due, goes_on))
            else:
                self._try(name, self._tasks[name][1])
        if has_swept:
            self._sweeps.keep()
        self._try("purge", lambda: self.node.topics.purge(self._clock.wall_ms()))

    def _sweep(self, name: str, due: int, goes_on: Callable[[], bool]) -> None:
        if not self._sweeps.run(name, goes_on):
            self._due[name] = due

    @staticmethod
    def _try(name: str, task: Callable[[], object]) -> bool:
        """Background work has no caller to tell: what fails is logged, and what must not go on has latched itself.

        The thread goes on after any error: without it the disk would fill up. (KafkaScheduler) Gives whether the task
        has returned.
        """
        try:
            task()
        except PylogError as error:
            logger.error("%s failed: %s", name, error)
        except Exception:
            logger.exception("%s failed as it never should, and is tried again later", name)
        else:
            return True
        return False

    def finish(self) -> None:
        """Before a close: do what is due, and what no later open may live long enough for. The threads end.

        A close of a node that has changed nothing does nothing here. One that is not due drops the segments of opened
        partitions that retention lets go, and compacts them where that reads `CLEANED_AT_CLOSE` bytes at most: cleaning
        cannot be left midway. Sweeps that are due take `CLOSE_MS`, and what the partition takes that they are at then.
        """
        self._stopped.set()
        self._worker.close()
        self._cleaner.close()
        # Before all else, so that nothing is renamed in a directory that lies in the place of the opened one.
        if not self._due or not self._try(PLACES, self._places.look):
            return
        opened = self.node.topics.partitions
        until = self._clock.tick_ms() + CLOSE_MS
        # The thread may not have come to it.
        self._do_due(lambda: self._clock.tick_ms() < until)
        self._try(RETENTION, lambda: self._retain(opened))
        if self._config.log_cleaner_enable and self._cleans_in != threading.get_ident():
            self._try("cleaning", lambda: self._clean_little(opened))
        self._try("purge", lambda: self.node.topics.purge(self._clock.wall_ms()))

    def _each(self, what: str, partitions: Iterable[Partition], act: Callable[[Partition], object]) -> None:
        """Do it with every partition, whatever becomes of the others; the first error is raised in the end."""
        failure: Exception | None = None
        for partition in partitions:
            try:
                act(partition)
            except Exception as error:  # noqa: BLE001
                if self._is_held(partition):
                    key = TopicPartition(partition.topic, partition.number)
                    logger.error("%s of %s-%d failed: %r", what, *key, error, extra=key._asdict())
                    failure = failure or error
        if failure is not None:
            raise failure

    def _look_at_places(self) -> None:
        # No more, unless something has grown, until the next append is noted.
        self._due.pop(PLACES, None)
        self._alarm.is_armed, is_due = True, True
        try:
            is_due = self._places.look()
        finally:
            if is_due:
                self._due.setdefault(PLACES, self._clock.tick_ms() + LOOK_EVERY_MS)

    def wake(self) -> None:
        """There may be files to remove earlier than was known."""
        self._worker.wake()

    def reconfigure(self) -> None:
        """Go by the configs of now: the cleaner may have to look earlier than was known."""
        due = self._clock.tick_ms() + self.node.configs.current.log_cleaner_backoff_ms
        if self._clean_due is not None and due < self._clean_due:
            self._clean_due = due
            self._cleaner.wake()

    # --- retention -------------------------------------------------------------------------------------------------

    def retain(self) -> dict[TopicPartition, int]:
        """Apply the retention of every topic now; gives how many segments went, where any did.

        Raises what it raises for a partition, when it has been applied to the others.
        """
        dropped = self._retain(self.node.kept())
        self.wake()
        return dropped

    def _retain_after(self, after: TopicPartition | None) -> Iterator[TopicPartition]:
        for partition in self.node.kept(after):
            self._try(RETENTION, partial(self._retain, [partition]))
            yield TopicPartition(partition.topic, partition.number)

    def _retain(self, partitions: Iterable[Partition]) -> dict[TopicPartition, int]:
        dropped: dict[TopicPartition, int] = {}

        def retain(partition: Partition) -> None:
            count = partition.apply_retention(self._clock.wall_ms()) if not partition.failed else 0
            if count:
                dropped[TopicPartition(partition.topic, partition.number)] = count

        self._each(RETENTION, partitions, retain)
        return dropped

    def _expire_producers(self) -> None:
        now_ms = self._clock.wall_ms()
        self._each(
            "expiry of producers", self.node.topics.partitions, lambda partition: partition.expire_producers(now_ms)
        )

    # --- compaction ------------------------------------------------------------------------------------------------

    def clean(self, keys: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, Cleaned]:
        """Clean these partitions now, or all compacted ones, whatever their dirty ratio; gives what was done.

        The active segment is rolled first, so that its records are cleaned, too; the thread leaves it alone, as Kafka's
        cleaner does. Raises what rolling and cleaning raise.
        """
        self._refuse_inside("clean")
        wanted = None if keys is None else set(keys)
        done: dict[TopicPartition, Cleaned] = {}
        shown = [home.cleanings() for home in self.node.directories]
        try:
            for partition in self.node.kept():
                key = TopicPartition(partition.topic, partition.number)
                if is_compacted(partition) and (wanted is None or key in wanted):
                    partition.roll(self._clock.wall_ms())
                    cleaned = self._clean(partition, self._stopped, _last_shown(key, shown))
                    if cleaned is not None:
                        done[key] = cleaned
        finally:
            # Once: all that is shown is in one file, and every partition is asked what waits to be removed.
            with self._cleaning:
                self._show()
            self.wake()
        return done

    def _clean_once(self) -> None:
        """Clean the dirtiest log that is worth it, and look again at once; rest when no log is."""
        self._clean_due = self._clock.tick_ms() + self.node.configs.current.log_cleaner_backoff_ms
        self._try("cleaning", self._clean_dirtiest)

    def _clean_dirtiest(self) -> None:
        partition = self._dirtiest(self.node.kept())
        if partition is None:
            with self._cleaning:
                self._show()
            return
        self._clean(partition, self._stopped)
        self._clean_due = self._clock.tick_ms()
        self.wake()

    def _clean_little(self, partitions: Iterable[Partition]) -> None:
        # No more than a second's worth.
        left = int(min(CLEANED_AT_CLOSE, self.node.configs.current.log_cleaner_io_max_bytes_per_second))
        while (partition := self._dirtiest(partitions, left)) is not None:
            cleaned = self._clean(partition, None)
            if cleaned is None or cleaned.bytes_read == 0:
                return
            left -= cleaned.bytes_read

    def _dirtiest(self, partitions: Iterable[Partition], bytes_max: int = LONG_MAX) -> Partition | None:
        """The dirtiest of these logs that is worth it, and has no more than so many bytes to read."""
        best: Partition | None = None
        ratio = -1.0
        for partition in partitions:
            key = TopicPartition(partition.topic, partition.number)
            if not is_compacted(partition) or partition.failed or self.cleanings.get(key, CleaningState()).error:
                continue
            try:
                checkpoint = self.node.topics.home(key).cleaner_offset(key)
                plan, overdue_ms = dirt(partition, checkpoint=checkpoint, now_ms=self._clock.wall_ms())
            except Exception as error:  # noqa: BLE001
                if self._is_held(partition):
                    self._note(key, self._given_up(key, CleaningState(), error))
                continue
            minimum = partition.config.min_cleanable_dirty_ratio
            is_due = plan.is_due(min_dirty_ratio=minimum, overdue_ms=overdue_ms)
            if is_due and plan.dirty_ratio > ratio and plan.clean_bytes + 2 * plan.cleanable_bytes <= bytes_max:
                best, ratio = partition, plan.dirty_ratio
        return best

    def _refuse_inside(self, what: str) -> None:
        """Raise ConcurrentUse in a signal's handler that struck in what replaces files."""
        if self._cleans_in == threading.get_ident():
            raise ConcurrentUse(f"a signal's handler must not {what} in the middle of a clean(): let that end first")

    @contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        """Around what replaces files, one at a time. Raises as `_refuse_inside`."""
        self._refuse_inside(what)
        with self._cleaning:
            self._cleans_in = threading.get_ident()
            try:
                yield
            finally:
                self._cleans_in = None

    def _clean(
        self, partition: Partition, stopped: threading.Event | None, shown: CleaningState | None = None
    ) -> Cleaned | None:  # fmt: skip
        """Clean a partition now. Without `stopped` it runs through, and waits for nothing. `shown`: its state, where
        this node has none yet.
        """
        key = TopicPartition(partition.topic, partition.number)
        throttle = Throttle(self.node.configs.current.log_cleaner_io_max_bytes_per_second)
        with self._alone("clean"):
            began = stopwatch_ns()
            # Only now: another cleaning may have ended meanwhile.
            known = self.cleanings.get(key) or shown or CleaningState()
            try:
                cleaning = Cleaner(
                    partition, checkpoint=self.node.topics.home(key).cleaner_offset(key), now_ms=self._clock.wall_ms(),
                    buffer_bytes=self.node.configs.current.log_cleaner_dedupe_buffer_size,
                )  # fmt: skip
                known = replace(known, idle_reason=cleaning.idle_reason)
                with closing(cleaning.steps()) as steps:
                    for size in steps:
                        self._note(key, replace(known, progress=cleaning.progress))
                        wait_ms = throttle.wait_ms(size, self._clock.tick_ms())
                        if stopped is not None and pause(stopped, max(wait_ms, 0) / 1000):
                            return None
            except Exception as error:
                if not self._is_held(partition):
                    # Deleted, or moved, in the meantime: its files are gone from where they were.
                    return None
                if not isinstance(error, DiskFull):  # that may have room again the next time
                    known = self._given_up(key, known, error)
                raise
            finally:
                if self._is_held(partition):
                    self._note(key, known)
                else:
                    self.cleanings.pop(key, None)
            if cleaning.cleaned is not None and self._is_held(partition):
                # Of a topic that was deleted, and made again, it would be told of the new one.
                self.node.topics.home(key).write_cleaner_offset(key, cleaning.cleaned.end_offset)
                self._note(key, CleaningState(last=cleaning.cleaned, finished_ms=self._clock.wall_ms()))
                took = stopwatch_ns() - began
                self.clean_times.add(took)
                self.last_cleaned, self.last_clean_seconds = cleaning.cleaned, took / 1e9
            return cleaning.cleaned

    @staticmethod
    def _given_up(key: TopicPartition, state: CleaningState, error: Exception) -> CleaningState:
        """The state after a failed cleaning: this partition is not cleaned any more, the others are. (LogCleaner)"""
        expected = isinstance(error, PylogError)
        logger.error("%s-%d is not cleaned any more: %s", *key, error, exc_info=not expected, extra=key._asdict())
        return replace(state, error=str(error) if expected else repr(error))

    def _is_held(self, partition: Partition) -> bool:
        role = self.node.roles.held(partition.topic, partition.number)
        return role is not None and role.partition is partition

    def _note(self, key: TopicPartition, state: CleaningState) -> None:
        """Remember what cleaning has come to, and show it to other processes, at most every second."""
        if state == self.cleanings.get(key, CleaningState()):
            return
        self.cleanings[key] = state
        self._unshown.add(key)
        if self._clock.tick_ms() >= self._shown_ms + SHOW_EVERY_MS:
            self._show()

    def _show(self) -> None:
        """Let other processes see what has changed since the last time."""
        self._shown_ms = self._clock.tick_ms()
        unshown, self._unshown = self._unshown, set()
        homes: dict[LogDirectory, dict[TopicPartition, CleaningFacts]] = {}
        for key in sorted(unshown & self.cleanings.keys()):
            with suppress(PylogError):
                homes.setdefault(self.node.topics.home(key), {})[key] = self.cleanings[key].shown()
        for home, states in homes.items():
            try:
                home.write_cleanings(states)
            except PylogError as error:
                logger.debug("what cleaning has come to cannot be shown: %s", error)

    # --- damage ----------------------------------------------------------------------------------------------------

    def find_damage(self, keys: Iterable[TopicPartition] | None = None) -> Findings:
        """Read every byte of these partitions, or of all; gives what is wrong with them. Nothing is changed.

        Raises what opening a partition raises: none is left out silently.
        """
        topics = self.node.image.topics
        wanted = keys if keys is not None else [
            TopicPartition(name, number) for name in sorted(topics) for number in sorted(topics[name].partitions)
        ]  # fmt: skip
        found = Findings()
        for key in wanted:
            try:
                if self.node.directories.holders(key):
                    found += find_damage(self.node.roles.partition(*key))
            except (Closed, LogNotFound, UnknownTopicOrPartition):
                known = self.node.image.topics.get(key.topic)
                if keys is not None or (known is not None and known.id == topics[key.topic].id):
                    raise
                # The topic was deleted meanwhile.
        return found

    def repair(self, findings: Findings, keep_in: str | None = None) -> dict[TopicPartition, str]:
        """Drop what was found, and nothing else; gives the folder in which the files of each partition are kept.

        Raises what `repair.repair` raises; partitions before the one that does are done with then.
        """
        kept: dict[TopicPartition, str] = {}
        files, now_ms = self.node.directories.files, self._clock.wall_ms()
        with self._alone("repair"):
            folders = {
                key: join(copies_folder(files, self.node.topics.home(key).path, now_ms, keep_in), folder_name(*key))
                for key in findings.keys
            }
            for key, folder in folders.items():
                repair(self.node.roles.partition(*key), findings, folder, now_ms)
                if files.stat(folder) is not None:
                    kept[key] = folder
                state = self.cleanings.get(key)
                if state is not None and state.error is not None:
                    self._note(key, replace(state, error=None))
        self.wake()
        return kept

    def close(self) -> None:
        """Stop, a cleaning in the middle of it too."""
        self._stopped.set()
        self._worker.close()
        self._cleaner.close()
        self.scrubber.close()
        self._show()


def is_compacted(partition: Partition) -> bool:
    """Whether the topic of a partition is compacted."""
    return "compact" in partition.config.cleanup_policy


def _last_shown(key: TopicPartition, shown: Iterable[Mapping[str, CleaningFacts]]) -> CleaningState | None:
    """The state of a partition in what was shown, by directory and folder; None where it is in none of them."""
    folder = folder_name(*key)
    return next((CleaningState.of(states[folder]) for states in shown if folder in states), None)
