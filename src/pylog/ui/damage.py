"""The page of damage and recovery: what is known to be damaged, how the log was left, and a check of every byte."""

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from pylog.errors import PylogError
from pylog.files import Files, join
from pylog.inspect import Checked, Problem, Totals, log_bytes, verify
from pylog.logdirs.log_directory import CLEAN_SHUTDOWN
from pylog.record import TopicPartition
from pylog.storage.checkpoint import read_damages, read_offsets
from pylog.storage.checkpoints import RECOVERY_POINTS
from pylog.storage.partition_dirs import folder_name, partition_folders
from pylog.ui.pages import Pages, form, page, seen
from pylog.ui.source import Source

__all__ = ["check", "damage", "lost_ranges"]

BUSY = "A check runs already: wait for its end."


@dataclass(frozen=True, slots=True)
class DirectoryLine:
    """A log directory, and how it was left."""

    path: str
    is_closed_clean: bool
    recovery_points: dict[TopicPartition, int]
    problem: str


@dataclass(frozen=True, slots=True)
class LostRange:
    """Bytes that cannot be read any more, as a recovery has written down: offsets [offset, next_offset)."""

    key: TopicPartition
    base_offset: int
    position: int
    size: int
    offset: int
    next_offset: int


def damage(request: Request) -> Response:
    """The known damage, without reading any record."""
    source = seen(request)
    files = source.local_files()
    directories = [_directory(files, path) for path in source.paths]
    lost = lost_ranges(source)
    topics = source.log.topics(internal=True)
    return page(request, "damage.html", directories=directories, lost=lost, topics=topics)


def lost_ranges(source: Source) -> list[LostRange]:
    """The known damage of a log whose files are here."""
    files = source.files
    return [] if files is None else [one for path in source.paths for one in _lost(files, path)]


def _directory(files: Files, path: str) -> DirectoryLine:
    points, problem = {}, ""
    try:
        if files.stat(join(path, RECOVERY_POINTS)) is not None:
            points = read_offsets(files, join(path, RECOVERY_POINTS))
    except PylogError as error:
        problem = str(error)
    return DirectoryLine(path, files.stat(join(path, CLEAN_SHUTDOWN)) is not None, points, problem)


def _lost(files: Files, path: str) -> Iterator[LostRange]:
    for key in sorted(partition_folders(files, path)):
        try:
            damages = read_damages(files, join(path, folder_name(*key)))
        except PylogError:
            # The check of every byte names it.
            continue
        for base, parts in damages.items():
            for position, end, offset, following in parts:
                yield LostRange(key, base, position, end - position, offset, following)


class Check:
    """A check of every byte, for a page that is sent as it goes on. One at a time."""

    def __init__(self, files: Files, paths: tuple[str, ...], topic: str | None, running: Lock) -> None:
        self.size = log_bytes(files, *paths, topic=topic)
        self.totals: Totals | None = None
        self.failure = ""
        self._files = files
        self._paths = paths
        self._topic = topic
        self._running = running

    def events(self) -> Iterator[Problem | Checked]:
        """The problems and the progress; `totals` and `failure` are known behind the last one.

        A visitor who has gone ends the check at the next event.
        """
        if not self._running.acquire(blocking=False):
            self.failure = BUSY
            return
        try:
            for event in verify(self._files, *self._paths, topic=self._topic):
                if isinstance(event, Totals):
                    self.totals = event
                else:
                    yield event
        except PylogError as error:
            self.failure = str(error)
        finally:
            self._running.release()


def check(request: Request) -> Response:
    """Read every byte, of all or of a topic, and send each problem as it is found."""
    source, topic, state = seen(request), form(request).get("topic", "") or None, request.app.state
    if state.checking.locked():
        raise HTTPException(503, BUSY)
    found = Check(source.local_files(), source.paths, topic, state.checking)
    pages: Pages = state.pages
    # Its parts are made in threads of the pool, one after the other.
    return StreamingResponse(pages.parts("check.html", request.scope, check=found, topic=topic), media_type="text/html")
