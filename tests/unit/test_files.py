"""One suite for every `Files`, then what only a disk can show."""

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from pylog.errors import Closed, DirectoryLocked, DiskFull, LogNotFound, ReadOnly, StorageError
from pylog.files import DiskFiles, Files, FileStat, MemoryFiles, join


@pytest.fixture(params=["disk", "one descriptor", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    """A `Files` and an existing, empty directory in it."""
    if request.param == "memory":
        files: Files = MemoryFiles()
        files.make_dir("root")
        return files, "root"
    return DiskFiles(max_open=1 if request.param == "one descriptor" else 256), str(tmp_path)


Place = tuple[Files, str]


def test_join() -> None:
    assert join("a", "b") == "a/b"
    assert join("a/", "b") == "a/b"
    assert join("", "b") == "b"


# --- files ----------------------------------------------------------------------------------------------------------


def test_what_is_written_is_read(place: Place) -> None:
    files, root = place
    file = files.open(join(root, "f"), create=True)
    assert file.size() == 0
    file.write(0, b"head", bytearray(b"-"), memoryview(b"tail"))
    assert file.size() == 9
    assert file.read(0, 100) == b"head-tail"
    assert file.read(5, 2) == b"ta"
    assert file.read(9, 5) == b""
    assert file.read(1000, 5) == b""
    assert type(file.read(0, 1)) is bytes
    file.sync()
    file.close()
    again = files.open(join(root, "f"))
    assert again.size() == 9
    assert again.path == join(root, "f")
    assert not again.read_only


def test_overwriting_inside_and_across_the_end(place: Place) -> None:
    files, root = place
    file = files.open(join(root, "f"), create=True)
    file.write(0, b"0123456789")
    file.write(2, b"ab")
    assert file.size() == 10
    file.write(8, b"xyz")
    assert file.read(0, 20) == b"01ab4567xyz"
    file.write(11)
    assert file.size() == 11


def test_more_buffers_than_one_call_takes(place: Place) -> None:
    files, root = place
    file = files.open(join(root, "f"), create=True)
    file.write(0, *[bytes([i % 251]) * 3 for i in range(3000)])
    assert file.read(0, 10_000) == b"".join(bytes([i % 251]) * 3 for i in range(3000))


def test_holes_are_refused(place: Place) -> None:
    files, root = place
    file = files.open(join(root, "f"), create=True)
    file.write(0, b"abc")
    for position in (4, -1):
        with pytest.raises(ValueError, match="it has 3 bytes"):
            file.write(position, b"x")
        with pytest.raises(ValueError, match="it has 3 bytes"):
            file.truncate(position)
    with pytest.raises(StorageError, match="position -1"):
        file.read(-1, 2)
    assert file.read(0, 10) == b"abc"


def test_truncate(place: Place) -> None:
    files, root = place
    file = files.open(join(root, "f"), create=True)
    file.write(0, b"0123456789")
    file.truncate(4)
    assert (file.size(), file.read(0, 10)) == (4, b"0123")
    file.write(4, b"x")
    assert file.read(0, 10) == b"0123x"
    file.truncate(0)
    assert file.size() == 0


def test_an_equal_truncate_touches_nothing(tmp_path: Path) -> None:
    files = DiskFiles()
    file = files.open(str(tmp_path / "f"), create=True)
    file.write(0, b"abc")
    os.utime(tmp_path / "f", ns=(5_000_000, 7_000_000))
    file.truncate(3)
    assert files.stat(str(tmp_path / "f")) == FileStat(3, 7, is_dir=False)


def test_view_outlives_the_handle(place: Place) -> None:
    files, root = place
    file = files.open(join(root, "f"), create=True)
    assert file.view() == b""
    file.write(0, b"sealed")
    view = file.view()
    file.close()
    assert view == b"sealed"
    assert view.readonly
    with pytest.raises(TypeError):
        view[0] = 1


def test_a_view_does_not_keep_a_file_from_growing(place: Place) -> None:
    files, root = place
    file = files.open(join(root, "f"), create=True)
    file.write(0, b"abc")
    view = file.view()
    file.write(3, b"def" * 10_000)
    assert view == b"abc"


def test_a_closed_file_refuses(place: Place) -> None:
    files, root = place
    file = files.open(join(root, "f"), create=True)
    file.write(0, b"x")
    file.close()
    file.close()
    for use in (lambda: file.read(0, 1), lambda: file.write(1, b"y"), lambda: file.truncate(0), file.view):
        with pytest.raises(Closed, match="is closed"):
            use()
    with pytest.raises(Closed):
        file.sync()


def test_opening_what_is_not_a_file(place: Place) -> None:
    files, root = place
    with pytest.raises(LogNotFound, match="missing"):
        files.open(join(root, "missing"))
    with pytest.raises(LogNotFound, match=r"nowhere/f"):
        files.open(join(root, "nowhere/f"), create=True)
    files.make_dir(join(root, "d"))
    for create in (False, True):
        with pytest.raises(StorageError, match="directory where a file should be"):
            files.open(join(root, "d"), create=create)
    files.open(join(root, "f"), create=True).close()
    with pytest.raises(StorageError, match="file where a directory should be"):
        files.open(join(root, "f/g"), create=True)
    assert files.stat(join(root, "f/g")) is None


def test_create_keeps_what_is_there(place: Place) -> None:
    files, root = place
    files.replace_file(join(root, "f"), b"content")
    assert files.open(join(root, "f"), create=True).read(0, 100) == b"content"


def test_handles_follow_a_rename(place: Place) -> None:
    files, root = place
    files.make_dir(join(root, "t-0"))
    file = files.open(join(root, "t-0/a.log"), create=True)
    file.write(0, b"abc")
    files.rename(join(root, "t-0/a.log"), join(root, "t-0/b.log"))
    files.rename(join(root, "t-0"), join(root, "t-0.deleted"))
    files.open(join(root, "other"), create=True).write(0, b"pushes the descriptor out")
    assert file.path == join(root, "t-0.deleted/b.log")
    assert file.read(0, 3) == b"abc"
    file.write(3, b"d")
    assert files.read_file(join(root, "t-0.deleted/b.log")) == b"abcd"
    assert files.stat(join(root, "t-0")) is None


def test_rename_replaces_a_file(place: Place) -> None:
    files, root = place
    files.replace_file(join(root, "a"), b"new")
    files.replace_file(join(root, "b"), b"old")
    files.rename(join(root, "a"), join(root, "b"))
    assert files.list_dir(root) == ["b"]
    assert files.read_file(join(root, "b")) == b"new"
    with pytest.raises(LogNotFound, match="a"):
        files.rename(join(root, "a"), join(root, "c"))
    with pytest.raises(LogNotFound):
        files.rename(join(root, "b"), join(root, "nowhere/b"))


def test_rename_of_a_directory_over_something(place: Place) -> None:
    files, root = place
    files.make_dir(join(root, "a"))
    files.make_dir(join(root, "b/c"))
    with pytest.raises(StorageError):
        files.rename(join(root, "a"), join(root, "b"))
    files.replace_file(join(root, "f"), b"")
    with pytest.raises(StorageError):
        files.rename(join(root, "a"), join(root, "f"))
    assert files.list_dir(root) == ["a", "b", "f"]


# --- directories ----------------------------------------------------------------------------------------------------


def test_make_dir_makes_parents_and_is_repeatable(place: Place) -> None:
    files, root = place
    files.make_dir(join(root, "a/b/c"))
    files.make_dir(join(root, "a/b/c"))
    found = files.stat(join(root, "a/b"))
    assert found is not None
    assert found.is_dir
    assert files.list_dir(join(root, "a")) == ["b"]
    files.sync_dir(join(root, "a"))


def test_make_dir_over_a_file(place: Place) -> None:
    files, root = place
    files.replace_file(join(root, "f"), b"")
    for name in ("f", "f/g"):
        with pytest.raises(StorageError, match="file where a directory should be") as raised:
            files.make_dir(join(root, name))
        assert join(root, name) in str(raised.value)


def test_list_dir_is_sorted_and_typed(place: Place) -> None:
    files, root = place
    for name in ("b", "a", "c"):
        files.replace_file(join(root, name), b"")
    assert files.list_dir(root) == ["a", "b", "c"]
    with pytest.raises(LogNotFound, match="missing"):
        files.list_dir(join(root, "missing"))
    with pytest.raises(StorageError, match="file where a directory should be"):
        files.list_dir(join(root, "a"))
    with pytest.raises(LogNotFound):
        files.sync_dir(join(root, "missing"))


def test_stat(place: Place) -> None:
    files, root = place
    assert files.stat(join(root, "f")) is None
    files.replace_file(join(root, "f"), b"12345")
    found = files.stat(join(root, "f"))
    assert found is not None
    assert (found.size, found.is_dir) == (5, False)
    assert found.mtime_ms > 1_600_000_000_000


def test_replace_file_leaves_one_file(place: Place) -> None:
    files, root = place
    path = join(root, "checkpoint")
    files.replace_file(path, b"one")
    files.replace_file(path, b"two")
    assert files.read_file(path) == b"two"
    assert files.list_dir(root) == ["checkpoint"]
    with pytest.raises(LogNotFound, match="nowhere"):
        files.replace_file(join(root, "nowhere/x"), b"")
    files.make_dir(join(root, "d"))
    with pytest.raises(StorageError, match="directory where a file should be"):
        files.replace_file(join(root, "d"), b"")
    assert files.list_dir(root) == ["checkpoint", "d"]


def test_read_file_and_remove_are_typed(place: Place) -> None:
    files, root = place
    with pytest.raises(LogNotFound, match="gone"):
        files.read_file(join(root, "gone"))
    with pytest.raises(StorageError, match="directory where a file should be"):
        files.read_file(root)
    with pytest.raises(LogNotFound, match="gone"):
        files.remove(join(root, "gone"))
    with pytest.raises(LogNotFound, match="gone"):
        files.remove_dir(join(root, "gone"))


def test_remove(place: Place) -> None:
    files, root = place
    files.make_dir(join(root, "a/b"))
    files.replace_file(join(root, "a/b/f"), b"x")
    files.replace_file(join(root, "ab"), b"x")
    files.remove(join(root, "ab"))
    files.remove_dir(join(root, "a"))
    assert files.list_dir(root) == []


# --- the lock -------------------------------------------------------------------------------------------------------


def test_the_lock_is_exclusive_and_names_its_owner(place: Place) -> None:
    files, root = place
    path = join(root, ".lock")
    lock = files.lock(path, "pylog")
    assert files.read_file(path) == f"{os.getpid()}\npylog\n".encode()
    with pytest.raises(DirectoryLocked) as raised:
        files.lock(path, "another")
    assert raised.value.pid == os.getpid()
    assert str(os.getpid()) in str(raised.value)
    lock.close()
    lock.close()
    assert files.stat(path) is not None
    again = files.lock(path, "again")
    assert files.read_file(path).endswith(b"\nagain\n")
    again.close()


def test_a_lock_needs_its_directory(place: Place) -> None:
    files, root = place
    with pytest.raises(LogNotFound, match="nowhere"):
        files.lock(join(root, "nowhere/.lock"), "")


def run(program: str, *arguments: str) -> str:
    """The output of a Python program in a child process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=environment, capture_output=True, text=True, timeout=60
    )
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


def test_a_lock_whose_owner_has_not_written_its_pid(tmp_path: Path) -> None:
    lock = DiskFiles().lock(str(tmp_path / ".lock"), "pylog")
    (tmp_path / ".lock").write_bytes(b"")
    with pytest.raises(DirectoryLocked) as raised:
        DiskFiles().lock(str(tmp_path / ".lock"), "")
    assert raised.value.pid is None
    lock.close()


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


def test_the_descriptor_budget(tmp_path: Path) -> None:
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
real = os.pwritev
def short_then_interrupted(descriptor, buffers, position):
    os.pwritev = interrupted
    return real(descriptor, [buffers[0][:2]], position)
def interrupted(descriptor, buffers, position):
    raise KeyboardInterrupt
os.pwritev = short_then_interrupted
try:
    file.write(3, b"defgh")
except KeyboardInterrupt:
    print(file.size(), os.path.getsize(path))
os.pwritev = real
file.write(3, b"x")
print(file.read(0, 9))
"""
    assert run(program, str(tmp_path)).splitlines() == ["3 3", "b'abcx'"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_no_space_left() -> None:
    with pytest.raises(DiskFull, match="No space left"):
        DiskFiles().open("/dev/full").write(0, b"x")


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


def test_a_directory_without_permission() -> None:
    # Not tmp_path: its parents are closed to the user that a root's child process becomes.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        Path(folder, "f").write_bytes(b"x")
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
