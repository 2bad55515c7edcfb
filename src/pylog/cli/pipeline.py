"""`pylog pipeline`: jobs over topics on Spark.

    list    the jobs
    run     one of them, on the Spark of this machine or of another master

A job's options are the parameters of its function, by the table of `pylog.spark.pipelines`. Spark is loaded when a job
runs, and not for help or completion.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from pylog.cli import commands
from pylog.cli import completion as complete
from pylog.cli.arguments import count
from pylog.cli.output import Column, print_line, print_table, say, tell
from pylog.cli.params import Option, config_pair, json_option, option
from pylog.cli.place import LogPlace, split_paths
from pylog.runtime.json_lines import json_line
from pylog.runtime.words import count_text, plural, size_text

if TYPE_CHECKING:
    from pylog.spark.pipelines.table import Job, Parameter

__all__ = ["command"]

MASTER = "local[*]"
_NOUNS = {"records": "record", "files": "file", "commits": "commit", "batches": "batch", "rows": "row"}
_TRACEBACK = "Traceback (most recent call last):"

command = commands.CommandGroup(
    "pipeline",
    short_help="jobs over topics, on Spark",
    help="Jobs over topics on Spark: archive, restore, mirror, aggregate... They need the extra spark, and Java 17.",
    examples=("pylog pipeline list", "pylog pipeline run archive --topic clicks --to lake/clicks"),
)


@command.verb("list", short_help="the jobs", examples=("pylog pipeline list --json",))
@json_option
def list_jobs(place: LogPlace, as_json: bool) -> int:
    """The jobs that there are. `pylog pipeline run NAME --help` says what one takes."""
    if as_json:
        for job in _jobs().values():
            names = [parameter.name for parameter in job.parameters]
            print_line(json_line({"job": job.name, "what": job.words, "parameters": names}))
    else:
        print_table((Column("job"), Column("what it does")), [(job.name, job.words) for job in _jobs().values()])
    return 0


@cache
def _jobs() -> "dict[str, Job]":
    from pylog.spark.pipelines.table import JOBS

    return {job.name: job for job in JOBS}


class _Run(commands.CommandGroup):
    """The jobs as commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_jobs())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        job = _jobs().get(cmd_name)
        return None if job is None else _command(job)


command.add_command(_Run("run", short_help="run a job", help="Run a job to the end of what its topics have now."))


@cache
def _command(job: "Job") -> commands.Command:
    def run(place: LogPlace, master: str, conf: tuple[tuple[str, str], ...], as_json: bool, **given: object) -> int:
        return _run(job, place, master, dict(conf), as_json, given)

    run.__doc__ = f"{job.words[0].upper()}{job.words[1:]}."
    decorated: Callable[..., int] = run
    for add in (
        json_option,
        option("--conf", type=config_pair, metavar="NAME=VALUE", multiple=True, help="a setting of Spark"),
        option("--master", default=MASTER, metavar="URL", help=f"where Spark runs (default: {MASTER})"),
    ):
        decorated = add(decorated)
    made = commands.command(job.name, short_help=job.words, examples=(job.example,))(decorated)
    made.params[:0] = [one for parameter in job.parameters for one in _options(parameter)]
    return made


def _options(parameter: "Parameter") -> list[click.Parameter]:
    from pylog.spark.pipelines.table import ParameterKind

    name = f"--{parameter.option or parameter.name.replace('_', '-')}"
    if parameter.kind is ParameterKind.LOG:
        return [
            Option(
                [name], metavar="PATH", type=click.Path(),
                help=f"{parameter.words}: its directory; all of several with commas",
            ),
            Option(["--to-bootstrap"], metavar="HOST:PORT", help=f"{parameter.words}: a server that runs"),
        ]  # fmt: skip
    if parameter.kind is ParameterKind.FLAG:
        return [Option([name, parameter.name], is_flag=True, flag_value=False, default=True, help=parameter.words)]
    settings: dict[str, Any] = {}
    if parameter.kind is ParameterKind.PAIRS:
        settings = {"multiple": True, "type": config_pair}
    elif parameter.kind is ParameterKind.COUNT:
        settings = {"type": count}
    if parameter.name == "topic":
        settings["shell_complete"] = complete.topics
    return [
        Option(
            [name, parameter.name], metavar=parameter.metavar, help=parameter.words, required=parameter.is_required,
            **settings,
        )
    ]  # fmt: skip


def _run(
    job: "Job", place: LogPlace, master: str, conf: Mapping[str, str], as_json: bool, given: Mapping[str, object]
) -> int:
    log = _log(place)
    words = _parameters(job, given)
    function = job.function
    from pyspark.errors import PySparkException

    from pylog.spark.pipelines.session import session

    try:
        with session(master, conf) as spark:
            done = asdict(function(spark, log, **words))
    except PySparkException as error:
        say(_reason(str(error)))
        return 1
    tell(as_json, {"job": job.name, **done}, f"{job.name}: {', '.join(_fact(*fact) for fact in done.items())}")
    return 0


def _log(place: LogPlace) -> list[str] | dict[str, str]:
    """The log as the jobs take it."""
    if place.servers is None:
        return place.paths
    config = {f"kafka.{name}": text for name, text in place.connection_configs().items()}
    return {"kafka.bootstrap.servers": place.servers, **config}


def _parameters(job: "Job", given: Mapping[str, Any]) -> dict[str, object]:
    """The parameters that were given. Raises UsageError."""
    from pylog.spark.pipelines.table import ParameterKind

    found: dict[str, object] = {}
    for parameter in job.parameters:
        value = given.get(parameter.name)
        if parameter.kind is ParameterKind.LOG:
            servers = given.get("to_bootstrap")
            if value is not None and servers is not None:
                raise click.UsageError("give --to-log, for a directory, or --to-bootstrap, for a server, not both")
            if parameter.is_required and value is None and servers is None:
                raise click.UsageError("one of --to-log, --to-bootstrap is required")
            if servers is not None:
                value = {"kafka.bootstrap.servers": servers}
            elif value is not None:
                value = split_paths(value)
        elif parameter.kind is ParameterKind.PAIRS:
            value = dict(value or ()) or None
        if value is not None:
            found[parameter.name] = value
    return found


def _fact(name: str, number: int) -> str:
    if name == "size":
        return size_text(number)
    return plural(number, _NOUNS[name]) if name in _NOUNS else f"{count_text(number)} {name}"


def _reason(text: str) -> str:
    """The reason of a failure, without the stacks of Python and Java."""
    _, found, trace = text.rpartition(_TRACEBACK)
    lines = (trace if found else text).splitlines()
    return next((line for line in lines if line.strip() and not line.startswith(" ")), text)
