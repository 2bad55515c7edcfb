"""What every `Files` has to do: one list of checks, run on `DiskFiles`, `MemoryFiles`, `CrashFiles` and on yours.

    @pytest.mark.parametrize("check", FILES_CHECKS, ids=lambda check: check.__name__)
    def test_my_files(check, tmp_path):
        check(MyFiles(), str(tmp_path))

Each check is given a `Files` and an existing, empty directory in it, and raises AssertionError with what was wrong.
"""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from pylog.errors import Closed, DirectoryLocked, LogNotFound, PylogError, StorageError
from pylog.files import Files, FileStat, join

Check = Callable[[Files, str], None]

_FILE_IN_THE_WAY = "file where a directory should be"
_DIRECTORY_IN_THE_WAY = "directory where a file should be"


def check_files(make: Callable[[], tuple[Files, str]]) -> None:
    """Run every check, each on what `make` gives: a `Files` and an empty directory in it. Raises AssertionError."""
    for check in FILES_CHECKS:
        check(*make())


def _same(found: object, wanted: object) -> None:
    if found != wanted:
        raise AssertionError(f"{found!r} instead of {wanted!r}")


def _refuses(kind: type[Exception], words: str, *calls: Callable[[], object]) -> None:
    """Each of the calls raises an error of `kind` that has `words` in its message."""
    for call in calls:
        try:
            given = call()
        except (PylogError, ValueError) as error:
            if not isinstance(error, kind) or words not in str(error):
                raise AssertionError(f"{error!r} instead of a {kind.__name__} with {words!r}") from error
        else:
            raise AssertionError(f"{given!r} instead of a {kind.__name__} with {words!r}")


# --- files ------------------------------------------------------------------------------------------------------------


def what_is_written_is_read(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    _same(file.size(), 0)
    file.write(0, b"head", bytearray(b"-"), memoryview(b"tail"))
    _same(file.size(), 9)
    _same(file.read(0, 100), b"head-tail")
    _same(file.read(5, 2), b"ta")
    _same(file.read(9, 5), b"")
    _same(file.read(1000, 5), b"")
    _same(type(file.read(0, 1)), bytes)
    file.sync()
    file.close()
    again = files.open(join(root, "f"))
    _same((again.size(), again.path, again.read_only), (9, join(root, "f"), False))


def writes_go_inside_and_across_the_end(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    file.write(0, b"0123456789")
    file.write(2, b"ab")
    _same(file.size(), 10)
    file.write(8, b"xyz")
    _same(file.read(0, 20), b"01ab4567xyz")
    file.write(11)
    _same(file.size(), 11)


def more_buffers_than_one_call_takes(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    buffers = [bytes([i % 251]) * 3 for i in range(3000)]
    file.write(0, *buffers)
    _same(file.read(0, 10_000), b"".join(buffers))


def holes_are_refused(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    file.write(0, b"abc")
    for position in (4, -1):
        _refuses(ValueError, "it has 3 bytes", partial(file.write, position, b"x"), partial(file.truncate, position))
    _refuses(StorageError, "position -1", lambda: file.read(-1, 2))
    _same(file.read(0, 10), b"abc")


def truncating_cuts(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    file.write(0, b"0123456789")
    file.truncate(4)
    _same((file.size(), file.read(0, 10)), (4, b"0123"))
    file.write(4, b"x")
    _same(file.read(0, 10), b"0123x")
    file.truncate(0)
    _same(file.size(), 0)


def an_equal_truncate_touches_nothing(files: Files, root: str) -> None:
    path = join(root, "f")
    file = files.open(path, create=True)
    file.write(0, b"abc")
    files.set_modified(path, 7)
    file.truncate(3)
    file.trim()
    file.close()
    _same(files.stat(path), FileStat(3, 7, is_dir=False))


def the_time_of_a_file_can_be_set(files: Files, root: str) -> None:
    path = join(root, "f")
    files.replace_file(path, b"abc")
    files.set_modified(path, 1_700_000_000_123)
    _same(files.stat(path), FileStat(3, 1_700_000_000_123, is_dir=False))
    _refuses(LogNotFound, "missing", lambda: files.set_modified(join(root, "missing"), 1))


def a_directory_has_the_time_at_which_a_name_changed(files: Files, root: str) -> None:
    def keeps_the_time(change: Callable[[], object]) -> bool:
        files.set_modified(root, 1_700_000_000_123_456_789)
        change()
        stat = files.stat(root)
        return stat is not None and stat.mtime_ns == 1_700_000_000_123_456_789

    path = join(root, "f")
    file = files.open(path, create=True)
    _same(keeps_the_time(lambda: file.write(0, b"abc")), True)
    _same(keeps_the_time(lambda: files.open(path).close()), True)
    for change in (
        lambda: files.rename(path, join(root, "g")),
        lambda: files.open(path, create=True).close(),
        lambda: files.replace_file(path, b"x"),
        lambda: files.remove(path),
        lambda: files.make_dir(join(root, "d")),
        lambda: files.rename(join(root, "d"), join(root, "e")),
        lambda: files.remove_dir(join(root, "e")),
    ):
        _same(keeps_the_time(change), False)


def what_is_reserved_is_not_there_to_read(files: Files, root: str) -> None:
    path = join(root, "f")
    file = files.open(path, create=True)
    file.write(0, b"abc")
    file.allocate(10_000)
    _same((file.size(), file.read(0, 10), bytes(file.view())), (3, b"abc", b"abc"))
    file.allocate(2)
    file.write(3, b"def")
    file.sync()
    _same((file.size(), file.read(0, 10)), (6, b"abcdef"))
    _refuses(ValueError, "it has 6 bytes", lambda: file.write(7, b"x"))
    file.trim()
    _same(_size(files, path), 6)
    file.allocate(10_000)
    file.close()
    _same(_size(files, path), 6)


def what_is_cut_off_comes_back_as_nothing(files: Files, root: str) -> None:
    path = join(root, "f")
    file = files.open(path, create=True)
    file.allocate(10_000)
    file.write(0, b"0123456789")
    file.truncate(4)
    _same(_size(files, path), 4)
    file.allocate(20_000)
    file.write(4, b"x" * 9_000)
    file.trim()
    _same((file.size(), _size(files, path)), (9_004, 9_004))


def _size(files: Files, path: str) -> int:
    stat = files.stat(path)
    return -1 if stat is None else stat.size


def a_view_outlives_the_handle(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    _same(bytes(file.view()), b"")
    file.write(0, b"sealed")
    view = file.view()
    file.close()
    _same((bytes(view), view.readonly), (b"sealed", True))


def a_view_does_not_keep_a_file_from_growing(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    for start in (b"abc", b"d" * 100_000):
        end = file.size()
        file.write(end, start)
        view = file.view()
        file.write(file.size(), b"more" * 10_000)
        _same(view[end:] == start, True)


def a_closed_file_refuses(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    file.write(0, b"x")
    file.close()
    file.close()
    _refuses(
        Closed, "is closed", lambda: file.read(0, 1), lambda: file.write(1, b"y"), lambda: file.truncate(0), file.view,
        lambda: file.allocate(100), file.sync,
    )  # fmt: skip


def what_is_not_a_file_cannot_be_opened(files: Files, root: str) -> None:
    _refuses(LogNotFound, "missing", lambda: files.open(join(root, "missing")))
    _refuses(LogNotFound, "nowhere/f", lambda: files.open(join(root, "nowhere/f"), create=True))
    files.make_dir(join(root, "d"))
    directory = join(root, "d")
    _refuses(
        StorageError, _DIRECTORY_IN_THE_WAY, lambda: files.open(directory), lambda: files.open(directory, create=True)
    )
    files.open(join(root, "f"), create=True).close()
    _refuses(StorageError, _FILE_IN_THE_WAY, lambda: files.open(join(root, "f/g"), create=True))
    _same(files.stat(join(root, "f/g")), None)


def creating_keeps_what_is_there(files: Files, root: str) -> None:
    files.replace_file(join(root, "f"), b"content")
    _same(files.open(join(root, "f"), create=True).read(0, 100), b"content")


def handles_follow_a_rename(files: Files, root: str) -> None:
    files.make_dir(join(root, "t-0"))
    file = files.open(join(root, "t-0/a.log"), create=True)
    file.write(0, b"abc")
    files.rename(join(root, "t-0/a.log"), join(root, "t-0/b.log"))
    files.rename(join(root, "t-0"), join(root, "t-0.deleted"))
    files.open(join(root, "other"), create=True).write(0, b"pushes the descriptor out")
    _same(file.path, join(root, "t-0.deleted/b.log"))
    _same(file.read(0, 3), b"abc")
    file.write(3, b"d")
    _same(files.read_file(join(root, "t-0.deleted/b.log")), b"abcd")
    _same(files.stat(join(root, "t-0")), None)


def renaming_replaces_a_file(files: Files, root: str) -> None:
    files.replace_file(join(root, "a"), b"new")
    files.replace_file(join(root, "b"), b"old")
    files.rename(join(root, "a"), join(root, "b"))
    _same(files.list_dir(root), ["b"])
    _same(files.read_file(join(root, "b")), b"new")
    _refuses(LogNotFound, "a", lambda: files.rename(join(root, "a"), join(root, "c")))
    _refuses(LogNotFound, "b", lambda: files.rename(join(root, "b"), join(root, "nowhere/b")))


def a_directory_is_renamed_over_nothing(files: Files, root: str) -> None:
    files.make_dir(join(root, "a"))
    files.make_dir(join(root, "b/c"))
    files.replace_file(join(root, "f"), b"")
    for target in ("b", "f"):
        _refuses(StorageError, "cannot rename", partial(files.rename, join(root, "a"), join(root, target)))
    _same(files.list_dir(root), ["a", "b", "f"])


# --- sockets ----------------------------------------------------------------------------------------------------------


@contextmanager
def _sockets(timeout: float | None = 10) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two that are connected; 0 for sockets that do not wait."""
    near, far = socket.socketpair()
    with near, far:
        near.settimeout(timeout)
        far.settimeout(timeout)
        yield near, far


def what_is_sent_arrives(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    file.write(0, b"0123456789")
    with _sockets() as (near, far):
        sent = [
            file.send(near.fileno(), position, size)
            for position, size in ((0, 10), (3, 4), (8, 5), (10, 5), (90, 5), (2, 0))
        ]
        _same(sent, [10, 4, 2, 0, 0, 0])
        _same(far.recv(100), b"0123456789345689")


def what_is_reserved_is_not_sent(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    file.write(0, b"abc")
    file.allocate(10_000)
    with _sockets() as (near, far):
        _same([file.send(near.fileno(), 0, 10), file.send(near.fileno(), 3, 10)], [3, 0])
        _same(far.recv(100), b"abc")


def a_socket_takes_what_it_can(files: Files, root: str) -> None:
    data = os.urandom(1 << 20)
    file = files.open(join(root, "f"), create=True)
    file.write(0, data)
    arrived, position, refused = bytearray(), 0, 0
    with _sockets(0) as (near, far):
        while position < len(data):
            try:
                position += file.send(near.fileno(), position, len(data) - position)
            except BlockingIOError:
                refused += 1
                arrived += far.recv(1 << 20)
        near.shutdown(socket.SHUT_WR)
        while more := far.recv(1 << 20):
            arrived += more
    _same(refused > 0, True)
    _same(arrived == data, True)


def nobody_at_the_socket_is_the_senders_affair(files: Files, root: str) -> None:
    file = files.open(join(root, "f"), create=True)
    file.write(0, b"abc")
    with _sockets() as (near, far):
        far.close()
        try:
            file.send(near.fileno(), 0, 3)
        except ConnectionError:
            return
    raise AssertionError("bytes were sent to nobody")


def a_pinned_file_outlives_its_handle_and_its_name(files: Files, root: str) -> None:
    path = join(root, "f")
    file = files.open(path, create=True)
    file.write(0, b"abc")
    file.pin()
    file.pin()
    file.close()
    files.remove(path)
    files.open(join(root, "other"), create=True).write(0, b"pushes the descriptor out")
    file.unpin()
    with _sockets() as (near, far):
        _same((file.read(1, 5), file.send(near.fileno(), 0, 3), far.recv(10)), (b"bc", 3, b"abc"))
        _refuses(Closed, "is closed", lambda: file.write(3, b"d"), lambda: file.truncate(0), file.sync)
        file.unpin()
        _refuses(Closed, "is closed", lambda: file.read(0, 1), lambda: file.send(near.fileno(), 0, 3), file.pin)


# --- directories ------------------------------------------------------------------------------------------------------


def directories_are_made_with_their_parents(files: Files, root: str) -> None:
    files.make_dir(join(root, "a/b/c"))
    files.make_dir(join(root, "a/b/c"))
    found = files.stat(join(root, "a/b"))
    _same(found is not None and found.is_dir, True)
    _same(files.list_dir(join(root, "a")), ["b"])
    files.sync_dir(join(root, "a"))


def no_directory_is_made_over_a_file(files: Files, root: str) -> None:
    files.replace_file(join(root, "f"), b"")
    for name in ("f", "f/g"):
        _refuses(StorageError, _FILE_IN_THE_WAY, partial(files.make_dir, join(root, name)))


def lists_are_sorted_and_typed(files: Files, root: str) -> None:
    for name in ("b", "a", "c"):
        files.replace_file(join(root, name), b"")
    _same(files.list_dir(root), ["a", "b", "c"])
    _refuses(LogNotFound, "missing", lambda: files.list_dir(join(root, "missing")))
    _refuses(StorageError, _FILE_IN_THE_WAY, lambda: files.list_dir(join(root, "a")))
    _refuses(LogNotFound, "missing", lambda: files.sync_dir(join(root, "missing")))


def stat_says_what_is_there(files: Files, root: str) -> None:
    _same(files.stat(join(root, "f")), None)
    files.replace_file(join(root, "f"), b"12345")
    found = files.stat(join(root, "f"))
    _same(found is not None and (found.size, found.is_dir), (5, False))
    _same(found is not None and found.mtime_ms > 1_600_000_000_000, True)


def replacing_leaves_one_file(files: Files, root: str) -> None:
    path = join(root, "checkpoint")
    files.replace_file(path, b"one")
    files.replace_file(path, b"two")
    _same(files.read_file(path), b"two")
    _same(files.list_dir(root), ["checkpoint"])
    _refuses(LogNotFound, "nowhere", lambda: files.replace_file(join(root, "nowhere/x"), b""))
    files.make_dir(join(root, "d"))
    _refuses(StorageError, _DIRECTORY_IN_THE_WAY, lambda: files.replace_file(join(root, "d"), b""))
    _same(files.list_dir(root), ["checkpoint", "d"])


def reading_and_removing_are_typed(files: Files, root: str) -> None:
    gone = join(root, "gone")
    _refuses(
        LogNotFound, "gone", lambda: files.read_file(gone), lambda: files.remove(gone), lambda: files.remove_dir(gone)
    )
    _refuses(StorageError, _DIRECTORY_IN_THE_WAY, lambda: files.read_file(root))


def removing_takes_what_is_named(files: Files, root: str) -> None:
    files.make_dir(join(root, "a/b"))
    files.replace_file(join(root, "a/b/f"), b"x")
    files.replace_file(join(root, "ab"), b"x")
    files.remove(join(root, "ab"))
    files.remove_dir(join(root, "a"))
    _same(files.list_dir(root), [])


# --- the lock ---------------------------------------------------------------------------------------------------------


def the_lock_is_exclusive_and_names_its_owner(files: Files, root: str) -> None:
    path = join(root, ".lock")
    lock = files.lock(path, "pylog")
    _same(files.read_file(path), f"{os.getpid()}\npylog\n".encode())
    try:
        files.lock(path, "another")
    except DirectoryLocked as error:
        _same(error.pid, os.getpid())
        _same(str(os.getpid()) in str(error), True)
    else:
        raise AssertionError("two locks on one file")
    lock.close()
    lock.close()
    _same(files.stat(path) is not None, True)
    again = files.lock(path, "again")
    _same(files.read_file(path).endswith(b"\nagain\n"), True)
    again.close()


def a_lock_needs_its_directory(files: Files, root: str) -> None:
    _refuses(LogNotFound, "nowhere", lambda: files.lock(join(root, "nowhere/.lock"), ""))


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
    what_is_sent_arrives,
    what_is_reserved_is_not_sent,
    a_socket_takes_what_it_can,
    nobody_at_the_socket_is_the_senders_affair,
    a_pinned_file_outlives_its_handle_and_its_name,
    directories_are_made_with_their_parents,
    no_directory_is_made_over_a_file,
    lists_are_sorted_and_typed,
    stat_says_what_is_there,
    replacing_leaves_one_file,
    reading_and_removing_are_typed,
    removing_takes_what_is_named,
    the_lock_is_exclusive_and_names_its_owner,
    a_lock_needs_its_directory,
)
