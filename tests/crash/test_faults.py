"""Every call that storage makes to its files fails, once or for ever, with every errno: what becomes of the log.

Whatever fails, an append either is acknowledged, and then it is there after the log was opened again; or it raises a
typed error. Nothing else ever appears in the log, and once the disk works again, a new open can append. A full disk
ends by itself: no new open is needed when there is room again.

Here the first call from each line of the storage half fails, in one of the ways; `make faults` goes through every
call, in each way.
"""

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from pylog.errors import PylogError
from pylog.files import Files, MemoryFiles
from tests.support.faults import FaultFiles

from .engine import CLOCK
from .partitions import NEW, Run, Version, judge, recover
from .workloads import WORKLOADS

EVERY = os.environ.get("PYLOG_FAULTS") == "every"
# Those that are left out begin with what an earlier crash has left, or are many partitions.
OTHER = ("recovery", "index_rebuild", "repair", "topic_", "leader_", "metadata_")
NAMES = [name for name in WORKLOADS if not name.startswith(OTHER)]
SAMPLE = ["append_sync", "roll_by_size", "truncate_segments", "compaction", "transactions_abort", "clean_restart"]
WAYS = {
    "EIO": (errno.EIO, True, False),
    "EIO for ever": (errno.EIO, False, False),
    "EIO in the middle": (errno.EIO, True, True),
    "ENOSPC": (errno.ENOSPC, True, False),
    "ENOSPC for ever": (errno.ENOSPC, False, False),
    "EDQUOT for ever": (errno.EDQUOT, False, False),
    "EMFILE": (errno.EMFILE, True, False),
    "EMFILE for ever": (errno.EMFILE, False, False),
    "EINTR": (errno.EINTR, True, False),
}
"""The error, whether it comes once, and whether a write that fails keeps half of its bytes."""


class NotingFiles(FaultFiles):
    """Faulty files that know what has been promised, as `CrashFiles` do."""

    def __init__(self, inner: Files, fail_at: int | None = None, **how: object) -> None:
        super().__init__(inner, fail_at, **how)  # type: ignore[arg-type]
        self.notes: list[tuple[str, object]] = []

    def note(self, what: tuple[str, object]) -> None:
        self.notes.append(what)

    @property
    def run(self) -> Run | None:
        """The workload, if it came so far as to have a log."""
        found = dict(self.notes).get("run")
        assert found is None or isinstance(found, Run)
        return found


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What fails is logged, and here everything does."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def attempt(name: str, fail_at: int | None, **how: object) -> NotingFiles:
    """A workload up to its first error, which has to be a typed one."""
    files = NotingFiles(MemoryFiles(CLOCK), fail_at, **how)
    with suppress(PylogError):
        WORKLOADS[name].run(files)  # type: ignore[arg-type]
    return files


def calls_to_fail(name: str, error: int) -> list[int]:
    """The first call from each place, or all of them."""
    sites = attempt(name, None, error=error).sites
    return [at for at, site in enumerate(sites, 1) if EVERY or sites.index(site) == at - 1]


def appends_again(files: NotingFiles) -> None:
    """With room again, the next append works, as if nothing had happened."""
    run = files.run
    if run is not None and run.is_open and not run.partition.failed:
        run.place.append(b"there is room again", max(run.epoch, run.partition.epochs.latest))
        rows = tuple(run.place.rows())
        assert rows[-1][3] == b"there is room again"
        # What a deletion that failed has given up may still be there.
        below = tuple(row for row in run.version.records if row[0] < rows[0][0])
        run.versions.append(Version(run.partition.start_offset, below + rows, run.partition.next_offset))
        files.note(("try", len(run.versions) - 1))
        files.note(("done", len(run.versions) - 1))


def cases() -> Iterator[object]:
    """Every workload with every way to fail."""
    for name in NAMES if EVERY else SAMPLE:
        for number, way in enumerate(WAYS):
            yield pytest.param(name, number, *WAYS[way], id=f"{name}-{way}")


@pytest.mark.parametrize(("name", "number", "error", "once", "short"), list(cases()))
def test_a_call_that_fails_loses_nothing(name: str, number: int, error: int, once: bool, short: bool) -> None:
    calls = calls_to_fail(name, error)
    # The ways share the places between them.
    for at in calls if EVERY else calls[number :: len(WAYS)]:
        fail(name, at, error, once, short)


def fail(name: str, at: int, error: int, once: bool, short: bool) -> None:
    """Let one call of a workload fail, and look at what becomes of it."""
    files = attempt(name, at, error=error, once=once, short=short)
    assert files.failed, f"call {at} did not fail"
    run = files.run
    if run is not None and not once and error == errno.EIO:
        with suppress(PylogError):
            run.partition.close()
    files.heal()
    if error in (errno.ENOSPC, errno.EDQUOT):
        appends_again(files)
    config = run.config if run is not None else attempt(name, None).run.config  # type: ignore[union-attr]
    assert isinstance(files.inner, MemoryFiles)
    found = recover(MemoryFiles(CLOCK, files.inner.tree()), config)
    notes = tuple(note for note in files.notes if note[0] != "run")
    wrong = found.fault or judge(found, run.versions if run is not None else [NEW], notes, power=False)
    assert not wrong, f"{name}, call {at} ({files.failed[0]}), {errno.errorcode[error]}: {wrong}"


def test_one_road_leads_from_a_log_to_the_disk() -> None:
    """But for what is published, which all partitions of a directory share."""
    sites = {site for name in SAMPLE for site in attempt(name, None).sites if site.endswith(" sync")}
    assert {site.partition(":")[0] for site in sites} == {"pylog.storage.pending_syncs", "pylog.storage.published"}


def test_a_disk_that_is_full_at_any_call_of_a_roll_leaves_no_half_segment() -> None:
    for at in range(1, len(attempt("append_sync", None, error=errno.ENOSPC).sites) + 1):
        fail("append_sync", at, errno.ENOSPC, once=True, short=False)


def test_every_line_that_calls_the_disk_is_made_to_fail() -> None:
    """What the sample leaves out is named by no workload of it: here all workloads count."""
    seen: set[str] = set()
    failed: set[str] = set()
    for name in NAMES if EVERY else SAMPLE:
        seen |= set(attempt(name, None).sites)
        for at in calls_to_fail(name, errno.EIO):
            failed |= set(attempt(name, at, error=errno.EIO).failed)
    assert failed >= seen
