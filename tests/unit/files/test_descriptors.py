"""What keeps a descriptor open: the number of a file that is in use is never given to another one."""

import gc
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

import pytest

import pylog
from pylog.errors import StorageError
from pylog.files import DiskFiles
from pylog.files.disk_file import DiskFile
from pylog.runtime.forking import undivided
from pylog.storage.published import Published
from support.canaries import CONTENT, Canaries, touched

LARGE = 1 << 26


def opened(files: DiskFiles, path: Path, **how: bool) -> DiskFile:
    file = files.open(str(path), create=True, **how)
    assert isinstance(file, DiskFile)
    return file


class Held:
    """A call in a thread of its own, which stops where it is about to make a call of the system, until `go`."""

    def __init__(self, call: Callable[[], object], names: tuple[str, ...]) -> None:
        self._call, self._names = call, names
        self._reached, self._on = threading.Event(), threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._future = self._pool.submit(self._run)
        assert self._reached.wait(240)

    def _run(self) -> object:
        sys.setprofile(self._look)
        try:
            return self._call()
        finally:
            sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, argument: object) -> None:
        name = {"c_call": getattr(argument, "__name__", ""), "call": frame.f_code.co_name}.get(event)
        if name in self._names:
            sys.setprofile(None)
            self._reached.set()
            assert self._on.wait(240)

    def go(self) -> object:
        self._on.set()
        with self._pool:
            return self._future.result()


def evict(files: DiskFiles, folder: Path) -> None:
    """Let other files want the few descriptors there are, twice as many: what was used just now is spared once."""
    for other in [opened(files, folder / f"other-{number}") for number in range(4)]:
        other.close()


CALLS: dict[str, tuple[Callable[[DiskFile], object], tuple[str, ...]]] = {
    "write": (lambda file: file.write(4, b"aa", b"aa"), ("pwritev",)),
    "read": (lambda file: file.read_on(0, 4), ("pread",)),
    "sync": (lambda file: file.sync_on(), ("fdatasync", "fcntl")),
    "map": (lambda file: file.view(), ("spared",)),
    "cut": (lambda file: file.truncate(100_000), ("ftruncate",)),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("other", ["write", "long write", "read", "sync"])
def test_a_use_that_ends_leaves_the_descriptor_to_the_others(tmp_path: Path, name: str, other: str) -> None:
    files = DiskFiles(max_open=2)
    call, system_calls = CALLS[name]
    with Canaries(tmp_path / "canaries") as canaries:
        file = opened(files, tmp_path / "f")
        file.write(0, b"0123" * 50_000)
        number = file.descriptor
        held = Held(lambda: call(file), system_calls)
        if other == "write":
            file.write(0, b"bbbb")
        elif other == "long write":
            file.write(0, b"bb", b"bb")
        elif other == "read":
            assert file.read(0, 4) == b"0123"
        else:
            file.sync()
        evict(files, tmp_path)
        assert file.descriptor == number
        held.go()
        evict(files, tmp_path)
        assert (file.descriptor, file.pins) == (-1, 0)
        file.close()
    assert canaries.taken > 0
    assert touched(tmp_path / "canaries") == []
    written = (tmp_path / "f").read_bytes()
    assert written[:4] == (b"bbbb" if "write" in other else b"0123")
    assert written[4:8] == (b"aaaa" if name == "write" else b"0123")


def test_a_write_of_the_kernel_that_ends_leaves_the_descriptor_to_a_longer_one(tmp_path: Path) -> None:
    files, large = DiskFiles(max_open=1), b"a" * LARGE
    with Canaries(tmp_path / "canaries"), ThreadPoolExecutor(1) as pool:
        file = opened(files, tmp_path / "f")
        file.write(0, b"0123")
        for _ in range(100):
            writing = pool.submit(file.write, 4, large)
            while not file.pins and not writing.done():
                pass
            file.write(0, b"bbbb")
            evict(files, tmp_path)
            was_writing = not writing.done()
            writing.result()
            if was_writing:
                break
        else:
            pytest.fail("a write of 64 MiB was never under way")
        file.close()
    assert touched(tmp_path / "canaries") == []
    assert (tmp_path / "f").read_bytes() == b"bbbb" + large


def test_a_write_within_a_file_that_fails_cuts_nothing(tmp_path: Path) -> None:
    """Another thread may make the file longer meanwhile."""
    file = opened(DiskFiles(), tmp_path / "f")
    file.write(0, b"0123")
    with (tmp_path / "f").open("ab") as longer:
        longer.write(b"another thread's")
    file.take_back(4)
    assert (tmp_path / "f").read_bytes() == b"0123another thread's"
    file.take_back(5)
    assert (tmp_path / "f").read_bytes() == b"0123"
    file.close()


def test_what_many_threads_write_is_counted_whole(tmp_path: Path) -> None:
    file, before = opened(DiskFiles(), tmp_path / "f"), sys.getswitchinterval()
    file.write(0, b"0" * 64)
    writes, each = file.writes, 300

    def write(thread: int) -> None:
        for number in range(each):
            file.write(8 * thread, b"%08d" % number)
            file.write(8 * thread, b"%04d" % number, b"%04d" % thread)

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(write, range(8)))
    finally:
        sys.setswitchinterval(before)
    assert (file.writes - writes, file.pins, file.size()) == (8 * each * 2, 0, 64)
    file.close()


def test_a_kept_file_is_not_among_those_that_may_be_closed(tmp_path: Path) -> None:
    files = DiskFiles(max_open=1)
    kept = opened(files, tmp_path / "kept", kept=True)
    number = kept.descriptor
    other = opened(files, tmp_path / "f")
    assert other.descriptor >= 0
    evict(files, tmp_path)
    assert (kept.descriptor, other.descriptor) == (number, -1)
    kept.close()
    assert kept.descriptor == -1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_a_log_keeps_what_it_always_needs(tmp_path: Path) -> None:
    with pylog.open(tmp_path / "log", flush="none", config={"max.open.files": 1}) as log:
        log.create_topic("t", 5)
        published = log.broker.partition("t", 0).state.entry.file  # type: ignore[union-attr]
        number = published.descriptor
        for partition in log.topic("t"):
            partition.append([pylog.Record(b"v")])
            assert published.descriptor == number


def test_a_published_file_that_is_refused_is_closed(tmp_path: Path) -> None:
    (tmp_path / "published").write_bytes(b"x" * 256)
    before = len(os.listdir("/dev/fd"))
    files = DiskFiles()
    with pytest.raises(StorageError, match="is not a file of published offsets"):
        Published(files, str(tmp_path / "published"), writable=True)
    assert len(os.listdir("/dev/fd")) == before


def test_files_that_were_dropped_without_a_close_have_no_descriptors(tmp_path: Path) -> None:
    gc.collect()
    before = len(os.listdir("/dev/fd"))
    files = DiskFiles()
    held = [opened(files, tmp_path / "f"), opened(files, tmp_path / "kept", kept=True)]
    assert len(os.listdir("/dev/fd")) == before + 2
    del files, held
    gc.collect()
    assert len(os.listdir("/dev/fd")) == before


# --- the canaries ---------------------------------------------------------------------------------------------------


def test_a_canary_tells_what_has_reached_it(tmp_path: Path) -> None:
    with Canaries(tmp_path, held=1) as canaries:
        file = opened(DiskFiles(), tmp_path / "f")
        number = file.descriptor
        file.close()
        assert os.pread(number, 8, 0) == CONTENT[:8]
        assert touched(tmp_path) == []
        os.pwrite(number, b"lost", 10)
        assert touched(tmp_path)[0].endswith(f"at 10 {(b'lost' + CONTENT[14:130])!r}")
        os.pwrite(number, CONTENT[10:14], 10)
        os.ftruncate(number, len(CONTENT) + 7)
        assert f"{len(CONTENT) + 7} bytes of {len(CONTENT)}" in touched(tmp_path)[0]
    assert canaries.taken == 1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_a_canary_tells_of_a_number_that_is_closed_twice(tmp_path: Path) -> None:
    files = DiskFiles()
    with Canaries(tmp_path):
        file = opened(files, tmp_path / "f")
        number = file.descriptor
        file.close()
        file.descriptor = number
        with pytest.raises(OSError, match="Bad file descriptor"):
            files._descriptors.release(file)
        file.descriptor = -1
    assert f"release closes {number} once more" in touched(tmp_path)[0]


def test_a_text_never_goes_where_the_number_of_a_lock_has_gone(tmp_path: Path) -> None:
    with Canaries(tmp_path / "canaries"):
        lock = DiskFiles().lock(str(tmp_path / ".lock"), "before")
        held = Held(lambda: lock.write("after"), ("pwrite",))
        assert not undivided.acquire(blocking=False), "a close may come in between"
        held.go()
        lock.close()
        with pytest.raises(StorageError, match="Bad file descriptor"):
            lock.write("too late")
    assert touched(tmp_path / "canaries") == []
    assert (tmp_path / ".lock").read_text().endswith("after\n")
