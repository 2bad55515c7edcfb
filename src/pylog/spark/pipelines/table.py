"""The jobs by name, and their parameters, for the command. Pure: nothing of a job is loaded before it runs."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class ParameterKind(Enum):
    """The kind of value that the words of an option mean."""

    TEXT = "text"
    COUNT = "count"
    FLAG = "flag"
    """An option without a value; the parameter is True without it, False with it."""
    PAIRS = "pairs"
    """NAME=EXPRESSION, as often as one likes: a mapping."""
    LOG = "log"
    """Another log: a directory or servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a job's function, and how its option is called."""

    name: str
    words: str
    kind: ParameterKind = ParameterKind.TEXT
    metavar: str = "TEXT"
    is_required: bool = False
    option: str = ""
    """Where it is not the name with dashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job. Its function has the same name as its module."""

    name: str
    words: str
    parameters: tuple[Parameter, ...]
    example: str

    @property
    def function(self) -> "Callable[..., DataclassInstance]":
        """Its function: `(spark, log, **parameters)`, which gives a dataclass of counts. Raises ImportError without
        PySpark.
        """
        found: Callable[..., DataclassInstance] = getattr(
            import_module(f"pylog.spark.pipelines.{self.name}"), self.name
        )
        return found


_TOPIC: Final = Parameter(name="topic", words="the topic; several with commas", metavar="TOPIC", is_required=True)
_ONE_TOPIC: Final = Parameter(name="topic", words="the topic that is read", metavar="TOPIC", is_required=True)
_TO: Final = Parameter(name="to", words="the topic that is written to", metavar="TOPIC", is_required=True)
_CHECKPOINT: Final = Parameter(
    name="checkpoint", words="the folder that has how far the job is", metavar="FOLDER", is_required=True
)
_PARTITIONS: Final = Parameter(
    name="partitions", words="of the new topic, where it is missing (default: 1)", kind=ParameterKind.COUNT, metavar="N"
)
_SCHEMA: Final = Parameter(
    name="schema", words='JSON fields of the values, "user STRING, amount DOUBLE": value.user', metavar="FIELDS"
)
_TO_LOG: Final = Parameter(name="to_log", words="another log to write to", kind=ParameterKind.LOG)
_TO_FOLDER: Final = Parameter(
    name="to", words="the folder, or a URI (s3, gs, hdfs)", metavar="FOLDER", is_required=True
)
_LOSS: Final = Parameter(
    name="fail_on_data_loss",
    option="ignore-data-loss",
    kind=ParameterKind.FLAG,
    words="go on where records were deleted before they were read",
)
_LATE: Final = Parameter(
    name="late", words="how much older than the newest a record may be (default: 10 minutes)", metavar="TIME"
)
_BY: Final = Parameter(
    name="by", words="what groups have in common", kind=ParameterKind.PAIRS, metavar="NAME=EXPRESSION"
)
_WRITES: Final = (_PARTITIONS, _TO_LOG)

JOBS: Final[tuple[Job, ...]] = (
    Job(
        name="archive",
        words="records to Parquet files, a folder for each day; goes on where it ended",
        parameters=(
            _TOPIC,
            _TO_FOLDER,
            Parameter(name="compression", words="zstd (default), snappy, gzip, lz4 or none", metavar="CODEC"),
            _LOSS,
        ),
        example="pylog pipeline run archive --topic clicks --to lake/clicks",
    ),
    Job(
        name="restore",
        words="an archive back into a topic",
        parameters=(
            Parameter(name="archive", words="the folder of the archive", metavar="FOLDER", is_required=True),
            Parameter(name="topic", words="another name for the topic", metavar="TOPIC"),
        ),
        example="pylog pipeline run restore --archive lake/clicks --log new",
    ),
    Job(
        name="mirror",
        words="topics into another log, each record once",
        parameters=(
            _TOPIC,
            Parameter(name="to_log", words="the other log", kind=ParameterKind.LOG, is_required=True),
            _CHECKPOINT,
        ),
        example="pylog pipeline run mirror --topic clicks --to-log copy --checkpoint jobs/mirror",
    ),
    Job(
        name="rekey",
        words="a topic again with another key, or another number of partitions",
        parameters=(
            _ONE_TOPIC,
            _TO,
            _CHECKPOINT,
            Parameter(name="key", words="the new key (default: as it is)", metavar="EXPRESSION"),
            _SCHEMA,
            *_WRITES,
        ),
        example='pylog pipeline run rekey --topic clicks --to by-user --key value.user --schema "user STRING" '
        "--partitions 6 --checkpoint jobs/by-user",
    ),
    Job(
        name="deduplicate",
        words="a topic again without repeats",
        parameters=(
            _ONE_TOPIC,
            _TO,
            _CHECKPOINT,
            Parameter(name="by", words="what a repeat has in common (default: key)", metavar="EXPRESSION"),
            Parameter(name="within", words="how long it is remembered (default: 1 hour)", metavar="TIME"),
            _SCHEMA,
            *_WRITES,
        ),
        example="pylog pipeline run deduplicate --topic clicks --to unique --checkpoint jobs/unique",
    ),
    Job(
        name="aggregate",
        words="windows of event time, each written when it is over",
        parameters=(
            _ONE_TOPIC,
            _TO,
            _CHECKPOINT,
            Parameter(
                name="aggregates",
                option="aggregate",
                words="what is computed, n=count(*) say",
                kind=ParameterKind.PAIRS,
                metavar="NAME=EXPRESSION",
                is_required=True,
            ),
            _BY,
            Parameter(name="window", words="how long a window is (default: 1 hour)", metavar="TIME"),
            _LATE,
            _SCHEMA,
            *_WRITES,
        ),
        example='pylog pipeline run aggregate --topic clicks --to hourly --aggregate "n=count(*)" --by page=value.page '
        '--schema "page STRING" --checkpoint jobs/hourly',
    ),
    Job(
        name="sessionise",
        words="records of one key that follow each other closely, as one record",
        parameters=(
            _ONE_TOPIC,
            _TO,
            _CHECKPOINT,
            Parameter(name="gap", words="what ends a session (default: 30 minutes)", metavar="TIME"),
            Parameter(
                name="aggregates",
                option="aggregate",
                words="what is computed (default: count=count(*))",
                kind=ParameterKind.PAIRS,
                metavar="NAME=EXPRESSION",
            ),
            _BY,
            _LATE,
            _SCHEMA,
            *_WRITES,
        ),
        example="pylog pipeline run sessionise --topic clicks --to sessions --checkpoint jobs/sessions",
    ),
    Job(
        name="join",
        words="pairs of records of two topics, of the same key and about the same time",
        parameters=(
            Parameter(name="left", words="one topic", metavar="TOPIC", is_required=True),
            Parameter(name="right", words="the other topic", metavar="TOPIC", is_required=True),
            _TO,
            _CHECKPOINT,
            Parameter(name="on", words="what both have in common (default: key)", metavar="EXPRESSION"),
            Parameter(name="right_on", words="the same on the right, where it differs", metavar="EXPRESSION"),
            Parameter(name="within", words="how far apart they may be (default: 1 hour)", metavar="TIME"),
            _LATE,
            _SCHEMA,
            Parameter(name="right_schema", words="of the right, where it differs", metavar="FIELDS"),
            *_WRITES,
        ),
        example="pylog pipeline run join --left orders --right payments --to paid --checkpoint jobs/paid",
    ),
    Job(
        name="compact",
        words="the last record of each key, in place of what the other topic has",
        parameters=(_ONE_TOPIC, _TO, *_WRITES),
        example="pylog pipeline run compact --topic changes --to users",
    ),
    Job(
        name="cdc",
        words="changes of rows into a table of Parquet files; goes on where it ended",
        parameters=(
            _ONE_TOPIC,
            _TO_FOLDER,
            Parameter(
                name="schema", words='JSON fields of the rows, "id BIGINT, name STRING": the columns', metavar="FIELDS"
            ),
            Parameter(name="envelope", words="what is around a row: none (default) or debezium", metavar="NAME"),
            Parameter(
                name="parts", words="Parquet files of a new table (default: 16)", kind=ParameterKind.COUNT, metavar="N"
            ),
            _LOSS,
        ),
        example='pylog pipeline run cdc --topic shop.users --to lake/users --schema "id BIGINT, name STRING" '
        "--envelope debezium",
    ),
)
"""In the order in which they are listed."""
