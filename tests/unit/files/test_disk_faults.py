"""`DiskFiles` when the system refuses: every error is typed, and nothing is left half done.

A file whose descriptor was made to name a pipe fails as a broken device does; a lowered limit of the process makes a
disk full, or takes its last descriptor.
"""

import errno
import gc
import os
import resource
import select
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from pylog.errors import Closed, DirectoryLocked, DiskFull, LogNotFound, ReadOnly, StorageError
from pylog.files import DiskFiles, MemoryFiles, Waker, refuse_network
from pylog.files.disk_file import DiskFile
from pylog.files.lock import close_inherited
from pylog.files.protocol import unsynced_error


@contextmanager
def limited(kind: int, soft: int) -> Iterator[None]:
    """A lower limit of this process for a moment."""
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


@pytest.fixture(autouse=True)
def no_garbage_is_collected() -> Iterator[None]:
    """What earlier tests have dropped must not give descriptors back in the middle of this one."""
    gc.disable()
    yield
    gc.enable()


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """The process can open nothing before it closes something."""
    lowest = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest)
    with limited(resource.RLIMIT_NOFILE, lowest):
        yield


@contextmanager
def broken(file: DiskFile) -> Iterator[None]:
    """The file's descriptor names a pipe: it cannot be read or written at a position, cut, mapped or synced."""
    ends = os.pipe()
    good = os.dup(file.descriptor)
    os.dup2(ends[0], file.descriptor)
    try:
        yield
    finally:
        os.dup2(good, file.descriptor)
        for descriptor in (good, *ends):
            os.close(descriptor)


def made(path: Path, content: bytes) -> DiskFile:
    file = DiskFiles().open(str(path), create=True)
    assert isinstance(file, DiskFile)
    file.write(0, content)
    return file


# --- one file -------------------------------------------------------------------------------------------------------


def test_a_cut_that_fails_leaves_the_length(tmp_path: Path) -> None:
    file = made(tmp_path / "f", b"0123456789")
    with broken(file), pytest.raises(StorageError, match=r"cannot cut at position 4 .*/f: Invalid argument"):
        file.truncate(4)
    assert (file.size(), file.read(0, 20)) == (10, b"0123456789")
    file.truncate(4)
    assert file.read(0, 20) == b"0123"


def test_a_write_that_cannot_be_undone_ends_the_writing(tmp_path: Path) -> None:
    file = made(tmp_path / "f", b"0123")
    with broken(file), pytest.raises(StorageError, match=r"could not be undone .*behind position 4 are in doubt"):
        file.write(4, b"45")
    for call in (lambda: file.write(4, b"45"), file.sync, lambda: file.truncate(0), lambda: file.allocate(100)):
        with pytest.raises(StorageError, match="could not be undone"):
            call()
    assert file.read(0, 20) == b"0123"
    file.close()
    assert (tmp_path / "f").read_bytes() == b"0123"


def test_reading_from_a_broken_device_is_typed(tmp_path: Path) -> None:
    file = made(tmp_path / "f", b"x" * 100_000)
    with broken(file):
        with pytest.raises(StorageError, match=r"cannot read 5 bytes at position 7 of .*/f"):
            file.read(7, 5)
        with pytest.raises(StorageError, match=r"cannot map .*/f"):
            file.view()
    assert file.pins == 0
    assert file.view() == b"x" * 100_000


def test_sending_tells_the_troubles_of_the_file_from_those_of_the_socket(tmp_path: Path) -> None:
    file = made(tmp_path / "f", b"abc")
    near, far = socket.socketpair()
    with near, far:
        with broken(file), pytest.raises(StorageError, match=r"cannot read 2 bytes at position 1 of .*/f"):
            file.send(near.fileno(), 1, 2)
        assert file.send(near.fileno(), 1, 2) == 2
        gone = near.fileno()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.send(gone, 1, 2)
    assert file.pins == 0


def test_a_size_that_cannot_be_read_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    file = DiskFiles(read_only=True).open(str(tmp_path / "f"))
    assert isinstance(file, DiskFile)
    good = os.dup(file.descriptor)
    os.close(file.descriptor)
    try:
        with pytest.raises(StorageError, match=r"cannot stat .*/f: Bad file descriptor"):
            file.size()
    finally:
        os.dup2(good, file.descriptor)
        os.close(good)
    assert file.size() == 3


def test_a_full_disk_refuses_to_reserve_and_takes_what_fits(tmp_path: Path) -> None:
    file = made(tmp_path / "f", b"x" * 100)
    with limited(resource.RLIMIT_FSIZE, 10_000):
        with pytest.raises(DiskFull, match=r"cannot reserve 20000 bytes for .*/f"):
            file.allocate(20_000)
        assert (file.size(), os.path.getsize(file.path)) == (100, 100)
        file.allocate(10_000)
    assert (file.size(), os.path.getsize(file.path)) == (100, 10_000)


def test_a_reserve_that_the_system_lacks_changes_nothing(tmp_path: Path) -> None:
    file = made(tmp_path / "f", b"")
    nowhere = os.open("/dev/null", os.O_RDWR)
    os.dup2(nowhere, file.descriptor)
    os.close(nowhere)
    file.allocate(10_000)
    file.write(0, b"x")
    assert file.size() == 1


def test_a_full_disk_between_the_calls_of_one_write_takes_it_back(tmp_path: Path) -> None:
    file = made(tmp_path / "f", b"x" * 100)
    # What one call takes (1024 buffers) fits, of the next one half a buffer more.
    with (
        limited(resource.RLIMIT_FSIZE, 100 + 2 * 1024 + 5),
        pytest.raises(DiskFull, match="6000 bytes at position 100"),
    ):
        file.write(100, *[b"yy"] * 3000)
    assert (file.size(), os.path.getsize(file.path)) == (100, 100)
    file.write(100, *[b"yy"] * 3000)
    assert file.read(0, 10_000) == b"x" * 100 + b"y" * 6000


class Overstated(bytearray):
    """A buffer that has less in it than it says: the device seems to take none of the rest."""

    def __len__(self) -> int:
        return 5


def test_a_write_that_gets_nowhere_counts_as_a_full_disk(tmp_path: Path) -> None:
    file = made(tmp_path / "f", b"abc")
    with pytest.raises(DiskFull, match="cannot write 5 bytes at position 3"):
        file.write(3, b"", Overstated())
    assert (file.size(), file.read(0, 10)) == (3, b"abc")


class Interrupted(bytearray):
    """A buffer at which the second look, after the first system call, is interrupted."""

    looked = 0

    def __len__(self) -> int:
        self.looked += 1
        if self.looked > 1:
            raise KeyboardInterrupt
        return super().__len__()


def test_a_write_interrupted_between_two_system_calls_is_taken_back(tmp_path: Path) -> None:
    file = made(tmp_path / "f", b"abc")
    with pytest.raises(KeyboardInterrupt):
        file.write(3, *[b"y"] * 1024, Interrupted(b"rest"))
    assert (file.size(), os.path.getsize(file.path)) == (3, 3)
    file.write(3, b"d")
    assert file.read(0, 10) == b"abcd"


def test_a_write_interrupted_after_a_short_one_is_taken_back(tmp_path: Path) -> None:
    file = made(tmp_path / "f", b"abc")

    def interrupt(frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and frame.f_code.co_name == "write_on":
            raise KeyboardInterrupt

    with limited(resource.RLIMIT_FSIZE, 5), pytest.raises(KeyboardInterrupt):
        sys.setprofile(interrupt)
        try:
            file.write(3, b"defgh")
        finally:
            sys.setprofile(None)
    assert (file.size(), os.path.getsize(file.path), file.pins) == (3, 3, 0)
    file.write(3, b"x")
    assert file.read(0, 9) == b"abcx"


def test_a_partial_write_is_taken_back(tmp_path: Path) -> None:
    file = made(tmp_path / "f", b"abc")
    os.pwrite(file.descriptor, b"half", 3)
    file.take_back(7)
    assert (file.size(), os.path.getsize(file.path)) == (3, 3)
    file.close()
    file.take_back(7)
    assert file.descriptor == -1


@pytest.mark.parametrize("buffers", [1, 2])
def test_a_file_closed_during_a_write_keeps_its_descriptor_until_the_end_of_it(tmp_path: Path, buffers: int) -> None:
    file, half = made(tmp_path / "f", b"abc"), b"d" * (1 << 25)
    with ThreadPoolExecutor() as pool:
        writing = pool.submit(file.write, 3, *[half] * buffers)
        while not file.pins:
            pass
        file.close()
        writing.result()
    assert (file.descriptor, file.pins) == (-1, 0)
    assert os.path.getsize(file.path) == 3 + buffers * len(half)
    with pytest.raises(Closed):
        file.write(6, b"g")


# --- names and directories ------------------------------------------------------------------------------------------


def test_a_directory_that_comes_into_being_meanwhile_is_fine(tmp_path: Path) -> None:
    # Its last part is there as soon as the one before it was made, as when another process makes it.
    DiskFiles().make_dir(f"{tmp_path}/new/.")
    assert DiskFiles().list_dir(str(tmp_path)) == ["new"]


def test_paths_that_no_system_takes_are_typed_errors(tmp_path: Path) -> None:
    files, long, loop = DiskFiles(), str(tmp_path / ("x" * 300)), str(tmp_path / "loop")
    os.symlink(loop, loop)
    for path, advice in ((long, "Choose another path"), (loop, "Remove the symbolic link")):
        for call in (files.stat, files.open, files.read_file):
            with pytest.raises(StorageError, match=advice):
                call(path)


def test_a_full_process_gives_up_one_of_our_descriptors(tmp_path: Path) -> None:
    files = DiskFiles()
    first, second = (files.open(str(tmp_path / name), create=True) for name in "ab")
    assert isinstance(first, DiskFile) and isinstance(second, DiskFile)
    with no_descriptor_left():
        assert files.list_dir(str(tmp_path)) == ["a", "b"]
        assert (first.descriptor, second.descriptor >= 0) == (-1, True)
    first.write(0, b"opened again")
    assert files.read_file(first.path) == b"opened again"


def test_a_file_is_opened_with_the_descriptor_of_another(tmp_path: Path) -> None:
    files = DiskFiles()
    first, second = (files.open(str(tmp_path / name), create=True) for name in "ab")
    assert isinstance(first, DiskFile)
    with no_descriptor_left():
        third = files.open(str(tmp_path / "c"), create=True)
    third.write(0, b"c")
    assert first.descriptor == -1
    assert (first.read(0, 9), second.read(0, 9), third.read(0, 9)) == (b"", b"", b"c")


def test_without_any_descriptor_the_limit_is_named(tmp_path: Path) -> None:
    files = DiskFiles()
    with no_descriptor_left():
        for call in (files.open, files.list_dir):
            with pytest.raises(StorageError, match=r"Raise `ulimit -n`, or lower max_open_files"):
                call(str(tmp_path))


def test_where_the_mounts_cannot_be_read_everything_is_allowed(tmp_path: Path) -> None:
    """A refusal is an error, and so is a file of mounts that cannot be opened: there is neither."""
    with no_descriptor_left():
        refuse_network(str(tmp_path))


def test_a_lock_that_cannot_be_written_is_typed_and_not_kept(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    path = str(tmp_path / ".lock")
    with limited(resource.RLIMIT_FSIZE, 0), pytest.raises(StorageError, match=f"cannot lock {path}: File too large"):
        DiskFiles().lock(path, "pylog")
    assert len(os.listdir("/dev/fd")) == before


def test_a_budget_is_at_most_half_of_what_the_process_may_open(tmp_path: Path) -> None:
    with limited(resource.RLIMIT_NOFILE, 64):
        files = DiskFiles(max_open=10_000)
    opened = [files.open(str(tmp_path / str(number)), create=True) for number in range(50)]
    assert sum(isinstance(file, DiskFile) and file.descriptor >= 0 for file in opened) == 32


def test_a_reader_makes_no_directory(tmp_path: Path) -> None:
    with pytest.raises(ReadOnly, match="opened for reading"):
        DiskFiles(read_only=True).make_dir(str(tmp_path / "new"))
    DiskFiles(read_only=True).make_dir(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_a_forked_child_has_no_locks(tmp_path: Path) -> None:
    """What runs in every child, called here where it can be measured; test_files.py has a real fork."""
    path = str(tmp_path / ".lock")
    lock = DiskFiles().lock(path, "pylog")
    with pytest.raises(DirectoryLocked):
        DiskFiles().lock(path, "pylog")
    close_inherited()
    DiskFiles().lock(path, "pylog").close()
    lock.close()


def test_a_file_being_written_keeps_its_descriptor(tmp_path: Path) -> None:
    files = DiskFiles(max_open=2)
    paths = [str(tmp_path / name) for name in "abcd"]
    made = [files.open(path, create=True) for path in paths]
    assert all(isinstance(file, DiskFile) for file in made)
    first, second = made[2:]
    assert isinstance(first, DiskFile)
    assert isinstance(second, DiskFile)
    first.pinned(1)
    made[0].read(0, 1)
    assert first.descriptor >= 0
    assert second.descriptor < 0
    first.pinned(-1)
    # It is passed over once for having written, and goes the next time.
    first.write(0, b"x")
    made[1].read(0, 1)
    assert first.descriptor >= 0
    made[0].read(0, 1)
    made[3].read(0, 1)
    assert first.descriptor < 0
    first.write(1, b"y")
    assert first.opened() == first.descriptor
    assert first.read(0, 9) == b"xy"


def test_when_all_are_in_use_more_are_open_than_there_should_be(tmp_path: Path) -> None:
    files = DiskFiles(max_open=1)
    first = made_by(files, tmp_path / "a")
    first.pinned(1)
    second = made_by(files, tmp_path / "b")
    assert first.descriptor >= 0
    assert second.descriptor >= 0
    first.pinned(-1)
    third = made_by(files, tmp_path / "c")
    assert (first.descriptor, second.descriptor) == (-1, -1)
    assert third.descriptor >= 0


def test_a_file_closed_during_a_read_keeps_its_descriptor_until_the_end_of_it(tmp_path: Path) -> None:
    file = made(tmp_path / "f", b"abc")
    file.pin()
    file.close()
    assert file.descriptor >= 0
    file.unpin()
    assert file.descriptor < 0


def test_a_write_into_reserved_space_leaves_the_rest_of_it(tmp_path: Path) -> None:
    file = made(tmp_path / "f", b"abc")
    file.allocate(100)
    file.write(3, b"def")
    assert (file.size(), os.path.getsize(file.path)) == (6, 100)


def made_by(files: DiskFiles, path: Path) -> DiskFile:
    file = files.open(str(path), create=True)
    assert isinstance(file, DiskFile)
    return file


def test_a_file_that_cannot_be_opened_for_a_write_is_not_cut(tmp_path: Path) -> None:
    other = DiskFiles(max_open=1)
    gone = other.open(str(tmp_path / "g"), create=True)
    gone.write(0, b"abc")
    other.open(str(tmp_path / "h"), create=True)
    other.remove(gone.path)
    with pytest.raises(LogNotFound):
        gone.write(3, b"d")
    assert gone.size() == 3


def test_a_file_that_cannot_be_opened_for_a_read_is_not_in_use(tmp_path: Path) -> None:
    files = DiskFiles(max_open=1)
    file = made_by(files, tmp_path / "f")
    made_by(files, tmp_path / "other")
    assert file.descriptor < 0
    (tmp_path / "f").unlink()
    with pytest.raises(LogNotFound, match="f"):
        file.read(0, 1)
    assert file.pins == 0
    file.close()
    with pytest.raises(Closed, match="f is closed"):
        file.read(0, 1)
    assert (file.pins, file.descriptor) == (0, -1)


def test_a_waker_is_readable_from_one_wake_to_the_next_take() -> None:
    waker = Waker()
    woken = select.poll()
    woken.register(waker, select.POLLIN)
    waker.take()
    assert woken.poll(0) == []
    for _ in range(1 << 17):  # more than fits into the pipe
        waker.wake()
    assert woken.poll(0) != []
    while woken.poll(0):
        waker.take()
    waker.wake()
    assert woken.poll(0) != []
    waker.close()
    waker.close()
    waker.wake()
    with no_descriptor_left(), pytest.raises(StorageError, match="ulimit -n"):
        Waker()


def test_a_watch_tells_of_writes_in_its_directory(tmp_path: Path) -> None:
    files = DiskFiles()
    file = made(tmp_path / "f", b"abc")
    watch = files.watch(str(tmp_path))
    assert watch is not None
    watch.take()
    told = select.poll()
    told.register(watch, select.POLLIN)
    assert told.poll(0) == []
    file.write(3, b"d")
    assert told.poll(0) != []
    watch.take()
    assert told.poll(0) == []
    watch.close()
    assert files.watch(str(tmp_path / "nothing")) is None
    with no_descriptor_left():
        assert files.watch(str(tmp_path)) is None
    assert MemoryFiles().watch(".") is None


def test_no_watch_is_made_where_ctypes_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of its library takes a descriptor, and a consumer's poll raised ImportError."""
    monkeypatch.setitem(sys.modules, "ctypes", None)
    assert DiskFiles().watch(str(tmp_path)) is None


def test_a_sync_that_finds_no_room_does_not_say_that_nothing_was_written() -> None:
    full, gone = (unsynced_error(OSError(number, os.strerror(number)), "d") for number in (errno.ENOSPC, errno.ENOENT))
    assert type(full) is StorageError and "No space left" in str(full)
    assert isinstance(gone, LogNotFound)
