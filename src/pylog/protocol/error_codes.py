"""The errors of pylog as the fields `errorCode` and `errorMessage` of a response tell them, and back.

Kafka has a code for most. The errors of pylog's own, which have none, are told under the nearest code, with a text that
begins with the name of their class: a client of pylog's gets the same class again.
"""

from pylog.errors import (
    BatchRefused,
    CorruptBatch,
    CorruptRecord,
    DirectoryReplaced,
    DiskFull,
    DurabilityUnknown,
    KafkaStorage,
    LogNotFound,
    PartitionFailed,
    PartitionFull,
    PolicyViolation,
    ProtocolError,
    PylogError,
    ReadOnly,
    StorageError,
    UnknownServer,
    UnsupportedFormat,
    UnsupportedForMessageFormat,
    for_code,
)

__all__ = ["brief", "error_code", "error_message", "of_code", "untold"]

TEXT_MAX = 1000
"""How many characters of a text are told."""

_STORAGE_CODES: tuple[tuple[type[PylogError], type[ProtocolError]], ...] = (
    (CorruptBatch, CorruptRecord),
    (UnsupportedFormat, UnsupportedForMessageFormat),
    (ReadOnly, PolicyViolation),
    (StorageError, KafkaStorage),
)
"""The errors of files and the errors that a client gets for them, the narrowest first."""


_NAMED = (DiskFull, DurabilityUnknown, PartitionFailed, DirectoryReplaced, LogNotFound, ReadOnly, PartitionFull)
_BY_NAME: dict[str, type[PylogError]] = {kind.__name__: kind for kind in _NAMED}
"""The errors of pylog's own that Kafka has no code for: the text begins with the name of the class."""


def error_code(error: PylogError | None) -> int:
    """Kafka's code of an error; 0 for none."""
    if error is None:
        return 0
    if isinstance(error, ProtocolError):
        return error.code if not isinstance(error, BatchRefused) or error.code != -1 else CorruptRecord.code
    return next((told.code for kind, told in _STORAGE_CODES if isinstance(error, kind)), UnknownServer.code)


def error_message(error: PylogError | None) -> str | None:
    """The text beside the code; None without an error. One of pylog's own begins with the name of its class."""
    if error is None:
        return None
    name = type(error).__name__
    return brief(f"{name}: {error}" if name in _BY_NAME else str(error))


def brief(text: str, most: int = TEXT_MAX) -> str:
    """A text as an answer tells it: it may repeat a name of 32 KiB, and has to fit into a string."""
    return text if len(text) <= most else f"{text[:most]}..."


def _own_error(code: int, text: str | None) -> PylogError | None:
    """The error of pylog's own that an `error_message` beside a code tells; None where it tells none."""
    name, _, reason = (text or "").partition(": ")
    kind = _BY_NAME.get(name)
    error = None if kind is None else kind(reason)
    return error if error_code(error) == code else None


def untold(name: str, partition: int | None = None) -> UnknownServer:
    """The error of a part that a response lacks: a partition of topic `name`, or the thing that `name` describes."""
    return UnknownServer(
        f"the node has answered without a word of {name if partition is None else f'{name}-{partition}'}"
    )


def of_code(code: int, text: str | None = None) -> PylogError | None:
    """The error of a code in a response; None for 0. A node of pylog's tells its own errors by name. A code that no
    class has is UnknownServer, and names it.
    """
    if code == 0:
        return None
    own = _own_error(code, text)
    if own is not None:
        return own
    kind = for_code(code)
    if kind is UnknownServer and code != UnknownServer.code:
        return UnknownServer(f"the node answers with error code {code}, which is not known: {text or 'without a text'}")
    return kind(text or f"the node answers {kind.kafka_name}: {kind.__doc__}")
