"""Faults that are planted on purpose, each of which the enumeration has to find: else it proves nothing.

A mutant is a `CrashFiles` that leaves something out, or a replacement of one method, for as long as it is tried.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pylog.commitlog.durability import Durability
from pylog.commitlog.recovery import Recovery
from pylog.commitlog.roller import Roller
from pylog.logdirs.log_directory import CLEAN_SHUTDOWN, LogDirectory
from pylog.logdirs.metadata_log import MetadataLog
from pylog.storage import log_file
from pylog.storage.checkpoints import Checkpoints
from pylog.storage.published import PublishedEntry
from tests.support.crash import CrashFile, CrashFiles

from .engine import Workload
from .partitions import Run
from .workloads import WORKLOADS


@dataclass(frozen=True, slots=True)
class Mutant:
    """What is planted, and the workload that has to notice."""

    name: str
    workload: str
    planted: tuple[tuple[object, str, Callable[..., Any]], ...] = ()
    files: type[CrashFiles] = CrashFiles
    masked: str = ""
    """Why nothing can notice it."""

    @contextmanager
    def plant(self) -> Iterator[Workload]:
        """The workload with the fault in it."""
        workload = WORKLOADS[self.workload]
        before = [(place, name, getattr(place, name)) for place, name, _ in self.planted]
        for place, name, replacement in self.planted:
            setattr(place, name, replacement)
        try:
            yield Workload(self.name, lambda _: workload.run(self.files()))
        finally:
            for place, name, original in before:
                setattr(place, name, original)


_walk, _sync, _acknowledge, _rolled = log_file.walk, Durability.sync, Run.acknowledge, Roller.roll_at
_let_go = MetadataLog._let_go


def _no_crc(data: bytes, *, check_crc: bool) -> object:
    return _walk(data, check_crc=False)


def _promise_first(run: Run) -> None:
    run.files.note(("kept", len(run.versions) - 1))
    _acknowledge(run)


def _checkpoint_first(durability: Durability, upto: int | None = None) -> int:
    durability._state.durable_offset = durability._state.next_offset
    durability.publish_durably()
    return _sync(durability)


def _roll_unsynced(roller: Roller, base_offset: int, now_ms: int) -> object:
    pending = roller._local.pending
    pending.sync = lambda files: None  # type: ignore[method-assign]
    try:
        return _rolled(roller, base_offset, now_ms)
    finally:
        del pending.sync


def _let_go_of_all(metadata_log: MetadataLog, now_ms: int) -> None:
    metadata_log._snapshots.append(metadata_log._snapshots[-1])
    _let_go(metadata_log, now_ms)
    metadata_log._snapshots.pop()


class _NoSync(CrashFiles):
    """A sync that returns at once."""

    def open(self, path: str, *, create: bool = False, kept: bool = False) -> "CrashFile":
        file = super().open(path, create=create, kept=kept)
        file.sync = lambda: None  # type: ignore[method-assign]
        return file  # type: ignore[return-value]


class _UnsyncedSnapshot(CrashFiles):
    """A snapshot of the metadata log gets its name before its bytes are on the disk."""

    def open(self, path: str, *, create: bool = False, kept: bool = False) -> "CrashFile":
        file = super().open(path, create=create, kept=kept)
        if path.endswith(".part"):
            file.sync = lambda: None  # type: ignore[method-assign]
        return file  # type: ignore[return-value]


class _NoDirectorySync(CrashFiles):
    """New names are never made durable."""

    def sync_dir(self, path: str) -> None:
        if not path.endswith("t-0"):
            super().sync_dir(path)


class _RenameFirst(CrashFiles):
    """A checkpoint is renamed before its bytes are on the disk."""

    def replace_file(self, path: str, data: bytes) -> None:
        file = self.open(path + ".tmp", create=True)
        file.truncate(0)
        file.write(0, data)
        self.rename(path + ".tmp", path)
        self.sync_dir(path.rpartition("/")[0] or ".")


class _InPlace(CrashFiles):
    """A checkpoint is written where it lies."""

    def replace_file(self, path: str, data: bytes) -> None:
        file = self.open(path, create=True)
        file.truncate(0)
        file.write(0, data)
        file.sync()
        self.sync_dir(path.rpartition("/")[0] or ".")


class _UnsyncedReplacement(CrashFiles):
    """The directory is not synced after a checkpoint was renamed."""

    def replace_file(self, path: str, data: bytes) -> None:
        file = self.open(path + ".tmp", create=True)
        file.truncate(0)
        file.write(0, data)
        file.sync()
        self.rename(path + ".tmp", path)


class _LateMarker(CrashFiles):
    """The marker of a clean stop stays until somebody has written."""

    def remove(self, path: str) -> None:
        if not path.endswith(CLEAN_SHUTDOWN):
            super().remove(path)


MUTANTS = (
    Mutant("no CRC is checked", "append_sync", ((log_file, "walk", _no_crc),)),
    Mutant("acknowledged before the sync", "append_sync", ((Run, "acknowledge", _promise_first),)),
    Mutant("nothing is ever synced", "append_sync", files=_NoSync),
    Mutant("published before it is durable", "append_group_commit", ((Durability, "sync", _checkpoint_first),)),
    Mutant("no directory sync after a new segment", "roll_by_size", files=_NoDirectorySync),
    Mutant("a segment is sealed without a sync", "roll_without_sync", ((Roller, "roll_at", _roll_unsynced),)),
    Mutant("a checkpoint is renamed before its bytes are synced", "epoch_checkpoint", files=_RenameFirst),
    Mutant("a checkpoint is written in place", "epoch_checkpoint", files=_InPlace),
    Mutant(
        "the clean-shutdown marker is not removed in time", "clean_restart", files=_LateMarker,
        masked="what goes on behind the offset at which a log was closed is recovered, whatever the marker says",
    ),
    Mutant("a torn tail is not cut", "append_sync", ((Recovery, "_cut", lambda *_: None),)),
    Mutant(
        "what was deleted is published and not synced", "delete_records",
        ((LogDirectory, "keep_starts", lambda *_: None),),
    ),
    Mutant(
        "a start that the log is cut below stays remembered", "truncate_below_what_was_deleted",
        ((Checkpoints, "lower", lambda *_: None),),
    ),
    Mutant("what is taken away is not announced durably", "truncate", ((PublishedEntry, "sync", lambda _: None),)),
    Mutant(
        "the metadata log is let go up to a snapshot that was not synced", "metadata_snapshots",
        ((MetadataLog, "_let_go", _let_go_of_all),), files=_UnsyncedSnapshot,
    ),
    Mutant("replaced segments are renamed without syncs between", "compaction", files=_NoDirectorySync),
    Mutant(
        "the directory is not synced after a checkpoint", "epoch_checkpoint", files=_UnsyncedReplacement,
        masked="an epoch that the checkpoint lacks is found in the batches, and the directory is synced with them",
    ),
)  # fmt: skip
