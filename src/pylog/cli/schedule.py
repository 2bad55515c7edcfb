"""`pylog schedule list | send | cancel | run`: jobs that are to come later, and the scheduler that moves them.

`list` only looks, and works beside an owner. `run` moves what is due until Ctrl-C.
"""

from contextlib import ExitStack, suppress

import click

from pylog.cli import completion as complete
from pylog.cli.arguments import UNITS_MS, Moment, bytes_of, headers, moment
from pylog.cli.commands import CommandGroup
from pylog.cli.opening import changing, looking
from pylog.cli.output import Column, print_line, print_table, say, tell
from pylog.cli.params import argument, at_most_one, json_option, option
from pylog.cli.place import LogPlace
from pylog.errors import UnknownTopicOrPartition
from pylog.runtime.clock import SystemClock
from pylog.runtime.json_lines import json_line, text_or_base64
from pylog.runtime.words import plural, time_text
from pylog.schedule import Schedule, ScheduledJob, Scheduler
from pylog.schedule.schedule import NAME, jobs_waiting

__all__ = ["command"]

command = CommandGroup("schedule", short_help="jobs that are to come later", help="The jobs that wait in a log.")
schedule_option = option(
    "--schedule", "name", metavar="TOPIC", default=NAME, show_default=True, shell_complete=complete.topics,
    help="the topic in which jobs wait",
)  # fmt: skip


def _span(text: str) -> int:
    """`90s` or `2h` in milliseconds."""
    digits = text.rstrip("".join(UNITS_MS))
    unit = text[len(digits) :]
    if not digits.isascii() or not digits.isdigit() or unit not in UNITS_MS:
        raise click.BadParameter(f"{text!r} is not a span of time, as 90s, 10m or 2h")
    return int(digits) * UNITS_MS[unit]


@command.verb(
    "list",
    short_help="the jobs that wait, and when they are due",
    examples=("pylog schedule list", "pylog schedule list --json | jq .id"),
)
@schedule_option
@json_option
def list_jobs(place: LogPlace, name: str, as_json: bool) -> int:
    """The jobs that wait, the earliest first: when each is due, its topic, its id and its cron line."""
    found: list[ScheduledJob] = []
    with looking(place) as log, suppress(UnknownTopicOrPartition):
        found = jobs_waiting(log, name)
    if as_json:
        for job in found:
            print_line(json_line(_as_json(job)))
    elif found:
        columns = (Column("due"), Column("topic"), Column("id"), Column("cron"), Column("bytes", True))
        print_table(columns, [
            (time_text(job.at_ms), job.topic, job.job_id, job.cron or "-", str(len(job.value or b""))) for job in found
        ])  # fmt: skip
    else:
        say("no job waits")
    return 0


def _as_json(job: ScheduledJob) -> dict[str, object]:
    return {
        "id": job.job_id, "due_ms": job.at_ms, "topic": job.topic, "cron": job.cron,
        "timezone": job.timezone if job.cron is not None else None, "key": text_or_base64(job.key),
        "value": text_or_base64(job.value),
    }  # fmt: skip


@command.verb(
    "send",
    short_help="send a job that is to come later, or again and again",
    examples=(
        "pylog schedule send jobs 'remind ada' --delay 10m",
        "pylog schedule send jobs greet --at 2027-01-01T00:00 --id 'new year'",
        "pylog schedule send jobs report --cron '0 3 * * *' --timezone Europe/Berlin --id nightly",
    ),
)
@argument("topic", "TOPIC", "where the job goes", shell_complete=complete.topics)
@argument("value", "VALUE", "the job", type=bytes_of)
@option("--delay", "delay_ms", type=_span, metavar="SPAN", help="after so long: 90s, 10m, 2h, 3d")
@option("--at", type=moment, metavar="TIME", help="at a time: ISO 8601, UTC where it names no zone")
@option("--cron", metavar="LINE", help="at the times of a cron line; needs --id")
@option("--timezone", metavar="NAME", default="UTC", show_default=True, help="the timezone of --cron")
@option("--id", "job_id", metavar="ID", help="its name: a later job with the same takes its place")
@option("--key", type=bytes_of, metavar="KEY", help="the key of its record")
@option("--headers", "pairs", type=headers, metavar="NAME=VALUE,...", default="", help="headers of its record")
@schedule_option
@json_option
def send(
    place: LogPlace, topic: str, value: bytes, delay_ms: int | None, at: Moment | None, cron: str | None, timezone: str,
    job_id: str | None, key: bytes | None, pairs: tuple[tuple[str, bytes], ...], name: str, as_json: bool,
) -> int:  # fmt: skip
    """Send a job that comes to TOPIC when it is due. `pylog schedule run`, or a scheduler in a program, moves it."""
    at_most_one({"--delay": delay_ms, "--at": at, "--cron": cron}, is_needed=True)
    if cron is not None and job_id is None:
        raise click.UsageError("--cron needs --id, by which the job is cancelled or given other times")
    if at is not None and at.ms is None:
        raise click.UsageError("--at is a time to come: for a span of time give --delay")
    with changing(place) as log, Schedule(log, name) as schedule:
        if cron is not None and job_id is not None:
            schedule.repeat(topic, value, key, cron=cron, timezone=timezone, job_id=job_id, headers=pairs)
        else:
            at_ms = None if at is None else at.at(SystemClock())
            job_id = schedule.send(topic, value, key, delay_ms=delay_ms, at=at_ms, job_id=job_id, headers=pairs)
    tell(as_json, {"id": job_id, "topic": topic}, f"job {job_id} waits")
    return 0


@command.verb(
    "cancel", short_help="let jobs not come", examples=("pylog schedule cancel nightly",)
)  # fmt: skip
@argument("ids", "ID...", "the ids of jobs that wait", nargs=-1, required=True)
@schedule_option
@json_option
def cancel(place: LogPlace, ids: tuple[str, ...], name: str, as_json: bool) -> int:
    """Let jobs that wait not come, and end their repetitions. Exit code 1 where no job waits with such an id."""
    with changing(place) as log, Schedule(log, name) as schedule:
        waiting = {job.job_id for job in schedule.waiting()}
        for job_id in ids:
            if job_id in waiting:
                schedule.cancel(job_id)
                tell(as_json, {"id": job_id, "cancelled": True}, f"cancelled job {job_id}")
            else:
                say(f"no job waits with the id {job_id}: see `pylog schedule list`")
    return int(not waiting.issuperset(ids))


@command.verb(
    "run", short_help="move the jobs that are due, until Ctrl-C", examples=("pylog schedule run",)
)  # fmt: skip
@schedule_option
def run(place: LogPlace, name: str) -> int:
    """Move each job to its topic when it is due, until Ctrl-C or SIGTERM. Several may run: one moves, and another takes
    over where that one is gone.
    """
    with ExitStack() as open_ones:
        log = open_ones.enter_context(changing(place))
        scheduler = open_ones.enter_context(Scheduler(log, name))
        say(f"moving the jobs of {name} when they are due; Ctrl-C ends it")
        scheduler.run()
        scheduler.close()
        say(f"stopped: {plural(scheduler.moved, 'job')} moved")
    return 0
