"""Workers: threads that do the records of topics as jobs, as members of a share group.

    Workers (workers)        the public face: begins the threads, counts, stops
    WorkingMember (member)   a share consumer, and the thread that works for it: tries, pauses, renewals, time limits
    JobRules (rules)         what is decided about jobs, for these threads and for the tasks of `pylog.aio.Workers`
    DeadLetter (dead_letter) the record for a job that is given up
    Jobs (jobs)              functions whose calls are records

All else is Kafka's: a record is locked for one member, is delivered again where that is killed, and is accepted or
rejected at last (`client/share_consumer`).
"""

from pylog.workers.jobs import JobFunction, Jobs, LaterCall
from pylog.workers.rules import Reject
from pylog.workers.workers import Workers

__all__ = ["JobFunction", "Jobs", "LaterCall", "Reject", "Workers"]
