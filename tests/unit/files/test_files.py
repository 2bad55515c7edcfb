"""`check_files` on every `Files` of ours, then what only a disk can show."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pylog.errors import DirectoryLocked, DiskFull, LogNotFound, ReadOnly, StorageError
from pylog.files import DiskFiles, Files, MemoryFiles, join, refuse_network
from tests.support.check_files import FILES_CHECKS, Check, check_files
from tests.support.crash import CrashFiles
from tests.support.faults import FaultFiles

PLACES = ["disk", "one descriptor", "memory", "crash", "faults"]


def place_of(kind: str, tmp_path: Path) -> tuple[Files, str]:
    """A `Files` and an existing, empty directory in it."""
    if kind in ("disk", "one descriptor"):
        return DiskFiles(max_open=1 if kind == "one descriptor" else 256), str(tmp_path)
    made: dict[str, Files] = {"memory": MemoryFiles(), "crash": CrashFiles(), "faults": FaultFiles(CrashFiles())}
    made[kind].make_dir("root")
    return made[kind], "root"


@pytest.mark.parametrize("check", FILES_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", PLACES)
def test_disk_and_memory_pass_the_same_checks(kind: str, check: Check, tmp_path: Path) -> None:
    check(*place_of(kind, tmp_path))


def test_check_files_finds_what_is_wrong() -> None:
    class Forgetful(MemoryFiles):
        def replace_file(self, path: str, data: bytes) -> None:
            super().replace_file(path, b"")

    def make(kind: type[MemoryFiles]) -> tuple[Files, str]:
        files = kind()
        files.make_dir("root")
        return files, "root"

    check_files(lambda: make(MemoryFiles))
    with pytest.raises(AssertionError, match="instead of"):
        check_files(lambda: make(Forgetful))


def test_join_of_paths() -> None:
    assert join("a", "b") == "a/b"
    assert join("a/", "b") == "a/b"
    assert join("", "b") == "b"


# --- the lock -------------------------------------------------------------------------------------------------------


def run(program: str, *arguments: str) -> str:
    """The output of a Python program in a child process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_another_process_is_refused(tmp_path: Path) -> None:
    lock = DiskFiles().lock(str(tmp_path / ".lock"), "pylog")
    program = """
import sys
from pylog.errors import DirectoryLocked
from pylog.files import DiskFiles
try:
    DiskFiles().lock(sys.argv[1], "")
except DirectoryLocked as error:
    print(error.pid)
"""
    assert run(program, str(tmp_path / ".lock")) == f"{os.getpid()}\n"
    lock.close()
    assert run(program, str(tmp_path / ".lock")) == ""


def test_a_lock_without_a_written_pid_is_refused_without_one(tmp_path: Path) -> None:
    lock = DiskFiles().lock(str(tmp_path / ".lock"), "pylog")
    (tmp_path / ".lock").write_bytes(b"")
    with pytest.raises(DirectoryLocked) as raised:
        DiskFiles().lock(str(tmp_path / ".lock"), "")
    assert raised.value.pid is None
    lock.close()


def test_no_other_user_can_open_the_lock(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    for mode in (None, 0o644):
        if mode is not None:
            path.chmod(mode)
        DiskFiles().lock(str(path), "pylog").close()
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_directory_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "d"
    path.mkdir(mode=0o755)
    for _ in range(2):
        DiskFiles().make_private(str(path))
        assert path.stat().st_mode & 0o777 == 0o700
    with pytest.raises(LogNotFound, match="keep other users out of"):
        DiskFiles().make_private(str(tmp_path / "missing"))
    with pytest.raises(ReadOnly):
        DiskFiles(read_only=True).make_private(str(path))


@pytest.mark.skipif(
    os.getuid() != 0 or not os.path.isdir("/dev/shm"), reason="root takes another user on, and Linux tells of locks"
)
@pytest.mark.parametrize(("mode", "is_owned"), [(0o755, True), (0o775, False)])
def test_a_user_who_can_own_no_log_in_a_directory_keeps_no_owner_out(mode: int, is_owned: bool) -> None:
    program = """
import fcntl, os, sys
directory = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(directory, fcntl.LOCK_EX)
os.setuid(65534)
print(flush=True)
input()
"""
    # In memory, where /proc/locks names the same device as stat does; the parents of tmp_path are closed, too.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.chmod(folder, mode)
        command = [sys.executable, "-c", program, folder]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdin is not None and other.stdout is not None
            other.stdout.readline()
            if is_owned:
                DiskFiles().lock(f"{folder}/.lock", "pylog").close()
            else:
                with pytest.raises(DirectoryLocked, match="another process owns"):
                    DiskFiles().lock(f"{folder}/.lock", "pylog")
            other.stdin.close()
        os.chmod(folder, 0o700)


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    program = """
import os, sys
from pylog.files import DiskFiles
lock = DiskFiles().lock(sys.argv[1], "")
ready, go = os.pipe(), os.pipe()
if os.fork() == 0:
    os.write(ready[1], b"x")
    os.read(go[0], 1)          # alive until the parent is done
    os._exit(0)
os.read(ready[0], 1)
try:
    DiskFiles().lock(sys.argv[1], "")
except Exception as error:
    print(type(error).__name__)    # the parent still holds it
lock.close()
DiskFiles().lock(sys.argv[1], "")
print("taken")
os.write(go[1], b"x")
os.wait()
"""
    assert run(program, str(tmp_path / ".lock")) == "DirectoryLocked\ntaken\n"


# --- only on a disk -------------------------------------------------------------------------------------------------


def test_open_descriptors_stay_within_the_budget(tmp_path: Path) -> None:
    files = DiskFiles(max_open=5)
    opened = [files.open(str(tmp_path / str(i)), create=True) for i in range(40)]
    for i, file in enumerate(opened):
        file.write(0, b"%d" % i)
    assert [file.read(0, 9) for file in opened] == [b"%d" % i for i in range(40)]
    assert sum(file.descriptor >= 0 for file in opened) == 5
    for file in opened:
        file.close()
    assert all(file.descriptor < 0 for file in opened)
    with pytest.raises(ValueError, match="at least 1"):
        DiskFiles(max_open=0)


def test_maps_are_in_the_budget(tmp_path: Path) -> None:
    files = DiskFiles(max_open=8)
    data = bytes(100_000)
    before = len(os.listdir("/dev/fd"))
    views = []
    for i in range(40):
        file = files.open(str(tmp_path / str(i)), create=True)
        file.write(0, data)
        views.append(file.view())
        file.read(0, 1)
        assert len(os.listdir("/dev/fd")) <= before + 8
    assert all(view == data for view in views)


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    files = DiskFiles(max_open=2)
    a, b, c = (files.open(str(tmp_path / name), create=True) for name in "abc")
    a.read(0, 1)
    b.read(0, 1)
    a.read(0, 1)
    c.read(0, 1)
    assert [file.descriptor >= 0 for file in (a, b, c)] == [True, False, True]


def test_threads_share_few_descriptors(tmp_path: Path) -> None:
    files = DiskFiles(max_open=2)
    opened = [files.open(str(tmp_path / str(i)), create=True) for i in range(6)]
    for i, file in enumerate(opened):
        file.write(0, b"%d" % i * 100)
    wrong: list[bytes] = []

    def read(start: int) -> None:
        for turn in range(300):
            i = (start + turn) % 6
            data = opened[i].read(0, 100)
            if data != b"%d" % i * 100:
                wrong.append(data)

    threads = [threading.Thread(target=read, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert all(file.pins == 0 for file in opened)


def test_files_are_renamed_while_others_are_opened(tmp_path: Path) -> None:
    files = DiskFiles(max_open=4)
    moving = files.open(str(tmp_path / "0"), create=True)
    moving.write(0, b"x")
    done = threading.Event()
    failed: list[StorageError] = []

    def open_others(name: str) -> None:
        while not done.is_set():
            others = [files.open(str(tmp_path / f"{name}{i}"), create=True) for i in range(8)]
            for file in others:
                file.close()

    def read_the_moving_one() -> None:
        while not done.is_set():
            try:
                assert moving.read(0, 1) == b"x"
            except StorageError as error:
                failed.append(error)

    threads = [threading.Thread(target=open_others, args=(name,)) for name in "ab"]
    threads.append(threading.Thread(target=read_the_moving_one))
    for thread in threads:
        thread.start()
    try:
        for i in range(400):
            files.rename(str(tmp_path / str(i)), str(tmp_path / str(i + 1)))
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert failed == []
    assert moving.path == str(tmp_path / "400")


def test_every_handle_on_a_file_goes_with_it(tmp_path: Path) -> None:
    files = DiskFiles(max_open=1)
    files.make_dir(str(tmp_path / "d"))
    first = files.open(str(tmp_path / "d" / "f"), create=True)
    first.write(0, b"x")
    second = files.open(str(tmp_path / "d" / "f"))
    files.rename(str(tmp_path / "d" / "f"), str(tmp_path / "d" / "g"))
    files.rename(str(tmp_path / "d"), str(tmp_path / "e"))
    third = files.open(str(tmp_path / "e" / "g"))
    files.rename(str(tmp_path / "e" / "g"), str(tmp_path / "h"))
    assert {file.path for file in (first, second, third)} == {str(tmp_path / "h")}
    assert [file.read(0, 1) for file in (first, second, third)] == [b"x"] * 3


def test_a_process_with_few_descriptors_gives_some_back(tmp_path: Path) -> None:
    program = """
import resource, sys
from pylog.files import DiskFiles
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
files = DiskFiles(max_open=256)
opened = [files.open(f"{sys.argv[1]}/{i}", create=True) for i in range(100)]
for i, file in enumerate(opened):
    file.write(0, b"%d" % i)
print(all(file.read(0, 9) == b"%d" % i for i, file in enumerate(opened)))
"""
    assert run(program, str(tmp_path)) == "True\n"


def test_a_write_that_does_not_fit_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    program = """
import os, resource, sys
from pylog.errors import DiskFull
from pylog.files import DiskFiles
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
files = DiskFiles()
path = sys.argv[1] + "/f"
file = files.open(path, create=True)
file.write(0, b"x" * 9_000)
for buffers in ([b"y" * 2_000], [b"y" * 600] * 3, [b"y"] * 3000):
    # The limit lies inside a buffer, between two, and behind what one call takes.
    try:
        file.write(9_000, *buffers)
    except DiskFull as error:
        print(path in str(error), "position 9000" in str(error), file.size(), os.path.getsize(path))
file.write(9_000, b"z" * 1_000)
print(file.size(), file.read(8_999, 2))
try:
    files.replace_file(sys.argv[1] + "/g", b"x" * 20_000)
except DiskFull:
    print(files.list_dir(sys.argv[1]))
"""
    assert run(program, str(tmp_path)).splitlines() == ["True True 9000 9000"] * 3 + ["10000 b'xz'", "['f']"]


def test_an_interrupted_write_is_taken_back(tmp_path: Path) -> None:
    program = """
import os, sys
from pylog.files import DiskFiles, disk
path = sys.argv[1] + "/f"
file = DiskFiles().open(path, create=True)
file.write(0, b"abc")
real = os.pwrite
def short_then_interrupted(descriptor, buffer, position):
    os.pwritev = interrupted
    return real(descriptor, buffer[:2], position)
def interrupted(descriptor, buffers, position):
    raise KeyboardInterrupt
os.pwrite = short_then_interrupted
try:
    file.write_on(3, (b"defgh",))
except KeyboardInterrupt:
    print(file.size(), os.path.getsize(path))
os.pwrite = real
file.write(3, b"x")
print(file.read(0, 9))
"""
    assert run(program, str(tmp_path)).splitlines() == ["3 3", "b'abcx'"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_full_file_system_raises_disk_full(tmp_path: Path) -> None:
    file = DiskFiles().open(str(tmp_path / "f"), create=True)
    full = os.open("/dev/full", os.O_RDWR)
    os.dup2(full, file.descriptor)
    os.close(full)
    with pytest.raises(DiskFull, match="No space left"):
        file.write(0, b"x")


def fifo(path: Path) -> None:
    os.mkfifo(path)


def listening(path: Path) -> None:
    # A path of a socket is short.
    with socket.socket(socket.AF_UNIX) as made, contextlib.chdir(path.parent):
        made.bind(path.name)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize(("make", "words"), [
    (fifo, "is a FIFO, and a file should be there: move it away"),
    (listening, "is a socket, a FIFO or a device, and a file should be there: move it away"),
    (endless, "is a character device, and a file should be there: move it away|lock .*Remove the symbolic link"),
    (Path.mkdir, "There is a directory where a file should be: move it away"),
    (loop, "Remove the symbolic link"),
])  # fmt: skip
def test_a_thing_that_is_no_file_is_refused_without_waiting(
    tmp_path: Path, make: Callable[[Path], None], words: str
) -> None:
    make(tmp_path / "f")
    path = str(tmp_path / "f")
    writing, reading = DiskFiles(), DiskFiles(read_only=True)
    for call in (
        lambda: reading.open(path), lambda: writing.open(path), lambda: writing.open(path, create=True),
        lambda: reading.read_file(path), lambda: writing.lock(path, "pylog"),
    ):  # fmt: skip
        with pytest.raises(StorageError, match=words):
            call()


def test_a_fifo_is_replaced_and_one_as_the_temporary_file_is_refused(tmp_path: Path) -> None:
    files, path = DiskFiles(), tmp_path / "f"
    fifo(path)
    files.replace_file(str(path), b"new")
    assert path.read_bytes() == b"new"
    fifo(tmp_path / "f.tmp")
    with pytest.raises(StorageError, match="should be there"):
        files.replace_file(str(path), b"newer")
    assert path.read_bytes() == b"new"


def test_a_sparse_giant_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.touch()
    os.truncate(path, 6 << 30)
    with pytest.raises(StorageError, match="has 6442450944 bytes, and such a file has 16777216 at most"):
        DiskFiles().read_file(str(path))


@pytest.mark.parametrize("make", [fifo, endless])
def test_a_thing_that_is_neither_file_nor_directory_has_no_stat(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "f")
    with pytest.raises(StorageError, match="and a file should be there: move it away"):
        DiskFiles().stat(str(tmp_path / "f"))


def test_is_in_place_raises_where_the_system_cannot_say(tmp_path: Path) -> None:
    files = DiskFiles()
    file, lock = files.open(str(tmp_path / "f"), create=True), files.lock(str(tmp_path / ".lock"), "pylog")
    for held, path in ((file, tmp_path / "f"), (lock, tmp_path / ".lock")):
        assert held.is_in_place()
        path.unlink()
        assert not held.is_in_place()
        loop(path)
        with pytest.raises(StorageError, match="Remove the symbolic link"):
            held.is_in_place()
        path.unlink()
        held.close()


def test_a_link_to_a_file_is_followed(tmp_path: Path) -> None:
    files = DiskFiles()
    (tmp_path / "elsewhere").write_bytes(b"content")
    (tmp_path / "f").symlink_to(tmp_path / "elsewhere")
    assert files.read_file(str(tmp_path / "f")) == files.open(str(tmp_path / "f")).read(0, 10) == b"content"


def test_a_lock_is_not_taken_by_a_link_to_another_file(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"content")
    (tmp_path / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="Remove the symbolic link"):
        DiskFiles().lock(str(tmp_path / ".lock"), "pylog")
    assert (tmp_path / "elsewhere").read_bytes() == b"content"


def test_a_failed_sync_is_never_tried_again(tmp_path: Path) -> None:
    file = DiskFiles().open(str(tmp_path / "f"), create=True)
    file.write(0, b"x")
    # A pipe in place of the file: fdatasync of it fails with EINVAL, as a device's would with EIO.
    ends = os.pipe()
    good = os.dup(file.descriptor)
    os.dup2(ends[0], file.descriptor)
    with pytest.raises(StorageError, match="cannot sync"):
        file.sync()
    os.dup2(good, file.descriptor)
    for again in (file.sync, lambda: file.write(1, b"y")):
        with pytest.raises(StorageError, match="an earlier sync failed"):
            again()
    assert file.read(0, 1) == b"x"
    for descriptor in (*ends, good):
        os.close(descriptor)


def test_a_reader_sees_growth_and_changes_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    owner = DiskFiles().open(path, create=True)
    owner.write(0, b"abc")
    files = DiskFiles(read_only=True)
    reader = files.open(path)
    assert reader.read_only
    assert reader.size() == 3
    owner.write(3, b"def")
    assert reader.size() == 6
    assert reader.read(0, 10) == b"abcdef"
    assert reader.view() == b"abcdef"
    owner.truncate(2)
    assert reader.size() == 2
    for change in (
        lambda: reader.write(2, b"x"), lambda: reader.truncate(0), reader.sync,
        lambda: files.open(str(tmp_path / "new"), create=True), lambda: files.make_dir(str(tmp_path / "d")),
        lambda: files.replace_file(path, b""), lambda: files.rename(path, path + "2"), lambda: files.remove(path),
        lambda: files.remove_dir(str(tmp_path)), lambda: files.lock(str(tmp_path / ".lock"), ""),
        lambda: files.sync_dir(str(tmp_path)),
    ):  # fmt: skip
        with pytest.raises(ReadOnly, match="opened for reading"):
            change()
    files.make_dir(str(tmp_path))
    assert files.list_dir(str(tmp_path)) == ["f"]


def test_a_directory_without_permission_is_read_only() -> None:
    # Not tmp_path: its parents are closed to the user that a root's child process becomes.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "f").write_bytes(b"x")
        os.chmod(folder + "/f", 0o444)
        os.chmod(folder, 0o555)
        program = """
import os, sys
from pylog.errors import ReadOnly
from pylog.files import DiskFiles
if os.getuid() == 0:
    os.setuid(65534)
files = DiskFiles()
for call in (
    lambda path: files.make_dir(path + "/d"), lambda path: files.open(path + "/new", create=True),
    lambda path: files.replace_file(path + "/f", b""), lambda path: files.lock(path + "/.lock", ""),
    lambda path: files.open(path + "/f"),
):
    try:
        call(sys.argv[1])
    except ReadOnly as error:
        print(sys.argv[1] in str(error), "permissions" in str(error))
"""
        assert run(program, folder) == "True True\n" * 5
        os.chmod(folder, 0o755)


def test_a_process_with_few_descriptors_keeps_some_for_others(tmp_path: Path) -> None:
    program = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from pylog.files import DiskFiles
files = DiskFiles(max_open=1000)
opened = [files.open(f"{sys.argv[1]}/{i}", create=True) for i in range(200)]
for i, file in enumerate(opened):
    file.write(0, b"%d" % i)
others = [open("/dev/null") for _ in range(20)]
print([file.read(0, 9) for file in opened] == [b"%d" % i for i in range(200)], len(files.list_dir(sys.argv[1])))
"""
    assert run(program, str(tmp_path)) == "True 200\n"


def test_every_call_finds_a_descriptor_when_the_process_has_none_left(tmp_path: Path) -> None:
    program = """
import os, sys
from pylog.files import DiskFiles
root = sys.argv[1]
files = DiskFiles(max_open=60)
files.replace_file(root + "/old", b"content")
files.make_dir(root + "/gone/inside")
big = files.open(root + "/big", create=True)
big.write(0, bytes(100_000))
def fill(opened):
    # All descriptors that are left, after some of ours are open.
    for i in range(20):
        opened.append(files.open(f"{root}/{i}", create=True))
        opened[-1].write(0, b"x")
    others = []
    try:
        while True:
            others.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        return others
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
for call in (
    lambda: files.replace_file(root + "/new", b"1"), lambda: files.sync_dir(root),
    lambda: files.read_file(root + "/old"),
    lambda: len(files.list_dir(root)) > 20, lambda: files.make_dir(root + "/made"), lambda: len(big.view()),
    lambda: files.open(root + "/another", create=True).size(), lambda: files.remove_dir(root + "/gone"),
):
    held = fill([])
    print(call())
    for descriptor in held:
        os.close(descriptor)
"""
    wanted = [None, None, b"content", True, None, 100_000, 0, None]
    assert run(program, str(tmp_path)).splitlines() == list(map(str, wanted))


# --- space that is reserved -----------------------------------------------------------------------------------------


def test_reserved_space_is_on_the_disk_and_goes_with_the_handle(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    file = DiskFiles().open(path, create=True)
    file.write(0, b"abc")
    file.allocate(1 << 20)
    assert (file.size(), os.path.getsize(path)) == (3, 1 << 20)
    assert os.stat(path).st_blocks * 512 >= 1 << 20
    reader = DiskFiles(read_only=True).open(path)
    assert reader.size() == 1 << 20
    assert reader.read(0, 6) == b"abc\0\0\0"
    file.sync()
    file.close()
    assert os.path.getsize(path) == 3


def test_a_view_ends_where_the_file_does(tmp_path: Path) -> None:
    file = DiskFiles().open(str(tmp_path / "f"), create=True)
    file.write(0, b"x" * 100_000)
    file.allocate(1 << 20)
    view = file.view()
    file.trim()
    assert view == b"x" * 100_000


def test_a_full_disk_shows_when_space_is_reserved_and_changes_nothing(tmp_path: Path) -> None:
    program = """
import os, resource, sys
from pylog.errors import DiskFull
from pylog.files import DiskFiles
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
path = sys.argv[1] + "/f"
file = DiskFiles().open(path, create=True)
file.write(0, b"x" * 100)
try:
    file.allocate(20_000)
except DiskFull as error:
    print(path in str(error), file.size(), os.path.getsize(path))
file.allocate(9_000)
try:
    file.write(100, b"y" * 20_000)
except DiskFull:
    print(file.size(), os.path.getsize(path))
file.write(100, b"z")
print(file.size(), file.read(99, 5))
"""
    assert run(program, str(tmp_path)).splitlines() == ["True 100 100", "100 100", "101 b'xz'"]


def test_a_file_that_was_removed_can_be_closed_with_a_reserve(tmp_path: Path) -> None:
    files = DiskFiles(max_open=1)
    file = files.open(str(tmp_path / "f"), create=True)
    file.allocate(10_000)
    files.open(str(tmp_path / "other"), create=True)
    files.remove(str(tmp_path / "f"))
    file.close()
    assert files.list_dir(str(tmp_path)) == ["other"]


# --- where a log may lie --------------------------------------------------------------------------------------------

MOUNTS = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
35 27 0:30 / /mnt rw shared:7 master:2 - xfs /dev/vdb rw
36 35 0:31 / /mnt/with\\040blank rw - nfs4 server:/export rw
37 35 0:32 / /mnt/share rw - cifs //server/share rw
38 35 0:33 / /mnt/sshfs rw - fuse.sshfs host: rw
39 35 0:34 / /mnt/usb rw - fuseblk /dev/sdb1 rw
40 35 0:35 / /mnt/covered rw - nfs server:/a rw
41 40 0:36 / /mnt/covered rw - tmpfs tmpfs rw
a line that makes no sense
"""


@pytest.mark.parametrize(
    "path", ["/data/log", "/mnt", "/mnt/log", "/mnt/shared/log", "/mnt/usb/log", "/mnt/covered/log", "/"]
)
def test_local_file_systems_are_allowed(path: str) -> None:
    """A refusal is an error: that there is none is what is asserted, here and where the kernel says nothing."""
    refuse_network(path, MOUNTS)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/mnt/with blank/log", "nfs4"),
        ("/mnt/share", "cifs"),
        ("/mnt/share/a/b", "cifs"),
        ("/mnt/sshfs/x", "fuse.sshfs"),
    ],
)
def test_network_file_systems_are_refused(path: str, kind: str) -> None:
    with pytest.raises(StorageError, match=rf"type {kind}: it is not local.*allow\.network\.file\.systems") as raised:
        refuse_network(path, MOUNTS)
    assert path in str(raised.value)


def test_where_the_kernel_does_not_say_everything_is_allowed(tmp_path: Path) -> None:
    refuse_network("/anywhere", "")
    refuse_network(str(tmp_path))


def test_a_lock_that_is_closed_takes_no_text(tmp_path: Path) -> None:
    lock = DiskFiles().lock(str(tmp_path / ".lock"), "pylog")
    lock.close()
    with pytest.raises(StorageError, match="cannot write into the lock"):
        lock.write("more")


def test_a_lock_that_is_refused_leaves_no_descriptor_open(tmp_path: Path) -> None:
    files, path = DiskFiles(), str(tmp_path / ".lock")

    def refused() -> None:
        with pytest.raises(DirectoryLocked):
            files.lock(path, "")

    lock = files.lock(path, "")
    refused()
    descriptor = os.open(path, os.O_RDONLY)
    os.close(descriptor)
    for _ in range(10):
        refused()
    again = os.open(path, os.O_RDONLY)
    os.close(again)
    lock.close()
    assert again == descriptor
