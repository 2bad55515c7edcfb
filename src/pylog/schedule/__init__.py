"""The schedule: jobs that wait for their time, in a topic of their own, and the thread that moves them when it comes.

    send, repeat, cancel ──> topic "schedule" ──> the jobs' own topics
          Schedule (schedule)      │   Scheduler (scheduler): each move is a transaction
                                   └─> Timetable (timetable): what waits, and what is due; reads and decides alone

    entries     the records of the topic, as bytes and as values
    cron        the times of a cron line

All is told by the topic, which is compacted: who comes next reads it, and goes on.
"""

from pylog.schedule.entries import ScheduledJob
from pylog.schedule.schedule import Schedule
from pylog.schedule.scheduler import Scheduler

__all__ = ["Schedule", "ScheduledJob", "Scheduler"]
