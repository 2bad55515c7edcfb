"""What every `Files` has to do: one list of checks, run on `DiskFiles`, `MemoryFiles`, `CrashFiles` and on yours.

    @pytest.mark.parametrize("check", FILES_CHECKS, ids=lambda check: check.__name__)
    def test_my_files(check, tmp_path):
        check(MyFiles(), str(tmp_path))

Each check is given a `Files` and an existing, empty directory in it, and raises AssertionError with what was wrong.
"""

import os
from collections.abc import Callable
from functools import partial

from pylog.errors import Closed, DirectoryLocked, LogNotFound, StorageError
from pylog.files import Files, FileStat, join
from tests.support.check_sending import SENDING_CHECKS
from tests.support.outcomes import refuses, same

Check = Callable[[Files, str], None]

_FILE_IN_THE_WAY = "file where a directory should be"
_DIRECTORY_IN_THE_WAY = "directory where a file should be"


def check_files(make: Callable[[], tuple[Files, str]]) -> None:
    """Run every check, each on what `make` gives: a `Files` and an empty directory in it. Raises AssertionError."""
    for check in FILES_CHECKS:
        check(*make())


# --- files ------------------------------------------------------------------------------------------------------------


def what_is_written_is_read(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    same(file.size(), 0)
    file.write(0, b"head", bytearray(b"-"), memoryview(b"tail"))
    same(file.size(), 9)
    same(file.read(0, 100), b"head-tail")
    same(file.read(5, 2), b"ta")
    same(file.read(9, 5), b"")
    same(file.read(1000, 5), b"")
    same(type(file.read(0, 1)), bytes)
    file.sync()
    file.close()
    again = files.open(join(root, "f"))
    same((again.size(), again.path, again.read_only), (9, join(root, "f"), False))


def writes_go_inside_and_across_the_end(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    file.write(0, b"0123456789")
    file.write(2, b"ab")
    same(file.size(), 10)
    file.write(8, b"xyz")
    same(file.read(0, 20), b"01ab4567xyz")
    file.write(11)
    same(file.size(), 11)


def more_buffers_than_one_call_takes(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    buffers = [bytes([i % 251]) * 3 for i in range(3000)]
    file.write(0, *buffers)
    same(file.read(0, 10_000), b"".join(buffers))


def holes_are_refused(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    file.write(0, b"abc")
    for position in (4, -1):
        refuses(ValueError, "it has 3 bytes", partial(file.write, position, b"x"), partial(file.truncate, position))
    refuses(StorageError, "position -1", lambda: file.read(-1, 2))
    same(file.read(0, 10), b"abc")


def truncating_cuts(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    file.write(0, b"0123456789")
    file.truncate(4)
    same((file.size(), file.read(0, 10)), (4, b"0123"))
    file.write(4, b"x")
    same(file.read(0, 10), b"0123x")
    file.truncate(0)
    same(file.size(), 0)


def an_equal_truncate_touches_nothing(files: Files, root: str) -> None:
    path = join(root, "f")
    file = files.open(path, create=True)
    file.write(0, b"abc")
    files.set_modified(path, 7)
    file.truncate(3)
    file.trim()
    file.close()
    same(files.stat(path), FileStat(3, 7, is_dir=False))


def the_time_of_a_file_can_be_set(files: Files, root: str) -> None:
    path = join(root, "f")
    files.replace_file(path, b"abc")
    files.set_modified(path, 1_700_000_000_123)
    same(files.stat(path), FileStat(3, 1_700_000_000_123, is_dir=False))
    refuses(LogNotFound, "missing", lambda: files.set_modified(join(root, "missing"), 1))


def a_directory_has_the_time_at_which_a_name_changed(files: Files, root: str) -> None:
    def keeps_the_time(change: Callable[[], object]) -> bool:
        files.set_modified(root, 1_700_000_000_123_456_789)
        change()
        stat = files.stat(root)
        return stat is not None and stat.mtime_ns == 1_700_000_000_123_456_789

    path = join(root, "f")
    file = files.open(path, create=True)
    same(keeps_the_time(lambda: file.write(0, b"abc")), True)
    same(keeps_the_time(lambda: files.open(path).close()), True)
    for change in (
        lambda: files.rename(path, join(root, "g")),
        lambda: files.open(path, create=True).close(),
        lambda: files.replace_file(path, b"x"),
        lambda: files.remove(path),
        lambda: files.make_dir(join(root, "d")),
        lambda: files.rename(join(root, "d"), join(root, "e")),
        lambda: files.remove_dir(join(root, "e")),
    ):
        same(keeps_the_time(change), False)


def what_is_reserved_is_not_there_to_read(files: Files, root: str) -> None:
    path = join(root, "f")
    file = files.open(path, create=True)
    file.write(0, b"abc")
    file.allocate(10_000)
    same((file.size(), file.read(0, 10), bytes(file.view())), (3, b"abc", b"abc"))
    file.allocate(2)
    file.write(3, b"def")
    file.sync()
    same((file.size(), file.read(0, 10)), (6, b"abcdef"))
    refuses(ValueError, "it has 6 bytes", lambda: file.write(7, b"x"))
    file.trim()
    same(_size(files, path), 6)
    file.allocate(10_000)
    file.close()
    same(_size(files, path), 6)


def what_is_cut_off_comes_back_as_nothing(files: Files, root: str) -> None:
    path = join(root, "f")
    file = files.open(path, create=True)
    file.allocate(10_000)
    file.write(0, b"0123456789")
    file.truncate(4)
    same(_size(files, path), 4)
    file.allocate(20_000)
    file.write(4, b"x" * 9_000)
    file.trim()
    same((file.size(), _size(files, path)), (9_004, 9_004))


def _size(files: Files, path: str) -> int:
    stat = files.stat(path)
    return -1 if stat is None else stat.size


def a_view_outlives_the_handle(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    same(bytes(file.view()), b"")
    file.write(0, b"sealed")
    view = file.view()
    file.close()
    same((bytes(view), view.readonly), (b"sealed", True))


def a_view_does_not_keep_a_file_from_growing(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    for start in (b"abc", b"d" * 100_000):
        end = file.size()
        file.write(end, start)
        view = file.view()
        file.write(file.size(), b"more" * 10_000)
        same(view[end:] == start, True)


def a_closed_file_refuses(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    file.write(0, b"x")
    file.close()
    file.close()
    refuses(
        Closed, "is closed", lambda: file.read(0, 1), lambda: file.write(1, b"y"), lambda: file.truncate(0), file.view,
        lambda: file.allocate(100), file.sync,
    )  # fmt: skip


def what_is_not_a_file_cannot_be_opened(files: Files, root: str) -> None:
    refuses(LogNotFound, "missing", lambda: files.open(join(root, "missing")))
    refuses(LogNotFound, "nowhere/f", lambda: files.open(join(root, "nowhere/f"), create=True))
    files.make_dir(join(root, "d"))
    directory = join(root, "d")
    refuses(
        StorageError, _DIRECTORY_IN_THE_WAY, lambda: files.open(directory), lambda: files.open(directory, create=True)
    )
    files.open(join(root, "f"), create=True).close()
    refuses(StorageError, _FILE_IN_THE_WAY, lambda: files.open(join(root, "f/g"), create=True))
    same(files.stat(join(root, "f/g")), None)


def creating_keeps_what_is_there(files: Files, root: str) -> None:
    files.replace_file(join(root, "f"), b"content")
    same(files.open(join(root, "f"), create=True).read(0, 100), b"content")


def handles_follow_a_rename(files: Files, root: str) -> None:
    files.make_dir(join(root, "t-0"))
    file = files.open(join(root, "t-0/a.log"), create=True)
    file.write(0, b"abc")
    files.rename(join(root, "t-0/a.log"), join(root, "t-0/b.log"))
    files.rename(join(root, "t-0"), join(root, "t-0.deleted"))
    files.open(join(root, "other"), create=True).write(0, b"pushes the descriptor out")
    same(file.path, join(root, "t-0.deleted/b.log"))
    same(file.read(0, 3), b"abc")
    file.write(3, b"d")
    same(files.read_file(join(root, "t-0.deleted/b.log")), b"abcd")
    same(files.stat(join(root, "t-0")), None)


def renaming_replaces_a_file(files: Files, root: str) -> None:
    files.replace_file(join(root, "a"), b"new")
    files.replace_file(join(root, "b"), b"old")
    files.rename(join(root, "a"), join(root, "b"))
    same(files.list_dir(root), ["b"])
    same(files.read_file(join(root, "b")), b"new")
    refuses(LogNotFound, "a", lambda: files.rename(join(root, "a"), join(root, "c")))
    refuses(LogNotFound, "b", lambda: files.rename(join(root, "b"), join(root, "nowhere/b")))


def a_directory_is_renamed_over_nothing(files: Files, root: str) -> None:
    files.make_dir(join(root, "a"))
    files.make_dir(join(root, "b/c"))
    files.replace_file(join(root, "f"), b"")
    for target in ("b", "f", "a/a"):
        refuses(StorageError, "cannot rename", partial(files.rename, join(root, "a"), join(root, target)))
    refuses(LogNotFound, "a", lambda: files.rename(join(root, "a"), join(root, "nowhere/a")))
    same(files.list_dir(root), ["a", "b", "f"])
    files.rename(join(root, "b"), join(root, "a"))
    same((files.list_dir(root), files.list_dir(join(root, "a"))), (["a", "f"], ["c"]))


# --- directories ------------------------------------------------------------------------------------------------------


def directories_are_made_with_their_parents(files: Files, root: str) -> None:
    files.make_dir(join(root, "a/b/c"))
    files.make_dir(join(root, "a/b/c"))
    found = files.stat(join(root, "a/b"))
    same(found is not None and found.is_dir, True)
    same(files.list_dir(join(root, "a")), ["b"])
    files.sync_dir(join(root, "a"))


def no_directory_is_made_over_a_file(files: Files, root: str) -> None:
    files.replace_file(join(root, "f"), b"")
    for name in ("f", "f/g"):
        refuses(StorageError, _FILE_IN_THE_WAY, partial(files.make_dir, join(root, name)))


def lists_are_sorted_and_typed(files: Files, root: str) -> None:
    for name in ("b", "a", "c"):
        files.replace_file(join(root, name), b"")
    same(files.list_dir(root), ["a", "b", "c"])
    refuses(LogNotFound, "missing", lambda: files.list_dir(join(root, "missing")))
    refuses(StorageError, _FILE_IN_THE_WAY, lambda: files.list_dir(join(root, "a")))
    refuses(LogNotFound, "missing", lambda: files.sync_dir(join(root, "missing")))


def stat_says_what_is_there(files: Files, root: str) -> None:
    same(files.stat(join(root, "f")), None)
    files.replace_file(join(root, "f"), b"12345")
    found = files.stat(join(root, "f"))
    same(found is not None and (found.size, found.is_dir), (5, False))
    same(found is not None and found.mtime_ms > 1_600_000_000_000, True)


def replacing_leaves_one_file(files: Files, root: str) -> None:
    path = join(root, "checkpoint")
    files.replace_file(path, b"one")
    files.replace_file(path, b"two")
    same(files.read_file(path), b"two")
    same(files.list_dir(root), ["checkpoint"])
    refuses(LogNotFound, "nowhere", lambda: files.replace_file(join(root, "nowhere/x"), b""))
    files.make_dir(join(root, "d"))
    refuses(StorageError, _DIRECTORY_IN_THE_WAY, lambda: files.replace_file(join(root, "d"), b""))
    same(files.list_dir(root), ["checkpoint", "d"])


def reading_and_removing_are_typed(files: Files, root: str) -> None:
    gone = join(root, "gone")
    refuses(
        LogNotFound, "gone", lambda: files.read_file(gone), lambda: files.remove(gone), lambda: files.remove_dir(gone)
    )
    refuses(StorageError, _DIRECTORY_IN_THE_WAY, lambda: files.read_file(root))


def a_file_is_read_up_to_a_limit(files: Files, root: str) -> None:
    path = join(root, "f")
    files.replace_file(path, b"five.")
    same(files.read_file(path, 5), b"five.")
    refuses(StorageError, "has 5 bytes, and such a file has 4 at most", lambda: files.read_file(path, 4))


def removing_takes_what_is_named(files: Files, root: str) -> None:
    files.make_dir(join(root, "a/b"))
    files.replace_file(join(root, "a/b/f"), b"x")
    files.replace_file(join(root, "ab"), b"x")
    files.remove(join(root, "ab"))
    files.remove_dir(join(root, "a"))
    same(files.list_dir(root), [])


# --- the lock ---------------------------------------------------------------------------------------------------------


def the_lock_is_exclusive_and_names_its_owner(files: Files, root: str) -> None:
    path = join(root, ".lock")
    lock = files.lock(path, "pylog")
    same(files.read_file(path), f"{os.getpid()}\npylog\n".encode())
    try:
        files.lock(path, "another")
    except DirectoryLocked as error:
        same(error.pid, os.getpid())
        same(str(os.getpid()) in str(error), True)
    else:
        raise AssertionError("two locks on one file")
    lock.close()
    lock.close()
    same(files.stat(path) is not None, True)
    again = files.lock(path, "again")
    same(files.read_file(path).endswith(b"\nagain\n"), True)
    for text in ("a text that is longer", "a short one", "longer once more"):
        again.write(text)
        same(files.read_file(path), f"{os.getpid()}\n{text}\n".encode())
    again.close()


def a_lock_needs_its_directory(files: Files, root: str) -> None:
    refuses(LogNotFound, "nowhere", lambda: files.lock(join(root, "nowhere/.lock"), ""))


FILES_CHECKS: tuple[Check, ...] = (
    what_is_written_is_read,
    writes_go_inside_and_across_the_end,
    more_buffers_than_one_call_takes,
    holes_are_refused,
    truncating_cuts,
    an_equal_truncate_touches_nothing,
    the_time_of_a_file_can_be_set,
    a_directory_has_the_time_at_which_a_name_changed,
    what_is_reserved_is_not_there_to_read,
    what_is_cut_off_comes_back_as_nothing,
    a_view_outlives_the_handle,
    a_view_does_not_keep_a_file_from_growing,
    a_closed_file_refuses,
    what_is_not_a_file_cannot_be_opened,
    creating_keeps_what_is_there,
    handles_follow_a_rename,
    renaming_replaces_a_file,
    a_directory_is_renamed_over_nothing,
    *SENDING_CHECKS,
    directories_are_made_with_their_parents,
    no_directory_is_made_over_a_file,
    lists_are_sorted_and_typed,
    stat_says_what_is_there,
    replacing_leaves_one_file,
    reading_and_removing_are_typed,
    a_file_is_read_up_to_a_limit,
    removing_takes_what_is_named,
    the_lock_is_exclusive_and_names_its_owner,
    a_lock_needs_its_directory,
)
