"""The state of a schedule: a machine that takes its entries in the order of their offsets, and tells what is due.

    read(entry)     take in a record of the topic
    due(now)        the jobs that a transaction is to move, and the entries that it is to add
    due_ms()        the time of the next one

It moves nothing itself. A scheduler that has committed moves reads their entries at once, and later once more from the
topic, which changes nothing.
"""

from dataclasses import dataclass, field, replace
from itertools import islice

from sortedcontainers import SortedDict

from pylog.schedule.cron import next_ms
from pylog.schedule.entries import MOMENT_MAX, Cancelled, Ended, Entry, ScheduledJob, Taken

KEPT_MS = 60_000
"""How long it is remembered that an id was taken: what was sent meanwhile may be read later."""


@dataclass(slots=True)
class Moves:
    """One transaction: jobs that go to their topics, and entries that go to the schedule."""

    jobs: list[ScheduledJob] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)


class Timetable:
    """The entries of a schedule that are in force. For one thread."""

    def __init__(self) -> None:
        self._jobs: dict[str, ScheduledJob] = {}
        """The job that waits, of each id."""
        self._ids: dict[bytes, str] = {}
        """The id of each entry that is in force."""
        self._cancelled: dict[str, Cancelled] = {}
        self._taken: dict[str, Taken] = {}
        self._over: dict[bytes, None] = {}
        """Entries that are to be ended: a cancellation stands behind all that it ended."""
        self._times: SortedDict[tuple[int, int, bytes], None] = SortedDict()
        self._time_of: dict[bytes, tuple[int, int, bytes]] = {}

    def jobs(self) -> list[ScheduledJob]:
        """The jobs that wait, in the order of their times."""
        return sorted(self._jobs.values(), key=lambda job: (job.at_ms, job.order))

    def due_ms(self) -> int | None:
        """The time of the next moves; None: when an entry comes."""
        if self._over:
            return 0
        return self._times.peekitem(0)[0][0] if self._times else None

    # --- entries -----------------------------------------------------------------------------------------

    def read(self, entry: Entry) -> None:
        """Take an entry in."""
        match entry:
            case ScheduledJob():
                self._waits(entry)
            case Cancelled():
                self._cancels(entry)
            case Taken():
                self._takes(entry)
            case _:
                self._ends(entry.entry)

    def _waits(self, job: ScheduledJob) -> None:
        self._ids[job.entry] = job.job_id
        standing = self._jobs.get(job.job_id)
        cancelled, taken = self._cancelled.get(job.job_id), self._taken.get(job.job_id)
        if (
            (cancelled is not None and job.order < cancelled.order)
            or (taken is not None and job.sent_ms < taken.until_ms)
            or (standing is not None and job.order < standing.order)
        ):
            self._is_over(job.entry)
            return
        if standing is not None and standing.entry == job.entry and job.at_ms < standing.at_ms:
            # It was moved meanwhile, and waits for its next time.
            return
        if standing is not None and standing.entry != job.entry:
            if standing.cron is not None and (standing.cron, standing.timezone) == (job.cron, job.timezone):
                # A program that says again at each start what it repeats misses no time that it slept through.
                job = replace(job, at_ms=min(job.at_ms, standing.at_ms))
            self._is_over(standing.entry)
        self._jobs[job.job_id] = job
        self._set_time(job.entry, job.at_ms, job.order)

    def _cancels(self, entry: Cancelled) -> None:
        self._ids[entry.entry] = entry.job_id
        job = self._jobs.get(entry.job_id)
        if job is not None and job.order < entry.order:
            self._is_over(job.entry)
        earlier = self._cancelled.get(entry.job_id)
        if earlier is None or earlier.order < entry.order:
            self._cancelled[entry.job_id] = entry
        self._over[entry.entry] = None

    def _takes(self, entry: Taken) -> None:
        self._ids[entry.entry] = entry.job_id
        self._taken[entry.job_id] = entry
        self._set_time(entry.entry, entry.until_ms + KEPT_MS, 0)
        job = self._jobs.get(entry.job_id)
        if job is not None and job.sent_ms < entry.until_ms:
            self._is_over(job.entry)

    def _ends(self, key: bytes) -> None:
        self._over.pop(key, None)
        self._set_time(key, None, 0)
        job_id = self._ids.pop(key, None)
        if job_id is None:
            return
        for found in (self._jobs, self._cancelled, self._taken):
            standing = found.get(job_id)
            if standing is not None and standing.entry == key:
                del found[job_id]

    def _is_over(self, key: bytes) -> None:
        job = self._jobs.get(self._ids[key])
        if job is not None and job.entry == key:
            del self._jobs[job.job_id]
        self._set_time(key, None, 0)
        self._over[key] = None

    def _set_time(self, key: bytes, at_ms: int | None, order: int) -> None:
        before = self._time_of.pop(key, None)
        if before is not None:
            del self._times[before]
        if at_ms is not None:
            self._time_of[key] = time = (at_ms, order, key)
            self._times[time] = None

    # --- what is due -------------------------------------------------------------------------------------------------

    def due(self, now_ms: int, most: int) -> Moves:
        """The moves that are due, of at most so many entries: the earliest jobs first."""
        found = Moves(entries=[Ended(key) for key in islice(self._over, most)])
        for at_ms, _, key in islice(self._times, most - len(found.entries)):
            if at_ms > now_ms:
                break
            job = self._jobs.get(self._ids[key])
            if job is None or job.entry != key:
                found.entries.append(Ended(key))
            else:
                found.jobs.append(job)
                found.entries.extend(_after(job, now_ms))
        return found

    def postpone(self, job: ScheduledJob, to_ms: int) -> None:
        """Leave a job that cannot be moved, so that others can. No record says it."""
        standing = self._jobs.get(job.job_id)
        if standing is not None and standing.entry == job.entry:
            self._set_time(job.entry, to_ms, job.order)

    def clock_stepped(self, ms: int) -> None:
        """The clock has jumped by so much: delays go on as long as they would have."""
        for job_id, job in self._jobs.items():
            if job.is_delay:
                self._jobs[job_id] = moved = replace(job, at_ms=max(0, job.at_ms + ms))
                self._set_time(job.entry, moved.at_ms, job.order)


def _after(job: ScheduledJob, now_ms: int) -> list[Entry]:
    """The entries that follow a job which is moved: its next time, or its end, and that its id is taken."""
    if job.cron is not None:
        return [replace(job, at_ms=next_ms(job.cron, job.timezone, max(now_ms, job.at_ms)))]
    if job.unique_for_ms is None:
        return [Ended(job.entry)]
    return [Ended(job.entry), Taken(job.job_id, min(now_ms + job.unique_for_ms, MOMENT_MAX))]
