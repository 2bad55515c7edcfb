from collections.abc import Callable
from pathlib import Path

import pytest

import pylog
from pylog.attach.places import find_owner, listening
from pylog.errors import StorageError
from pylog.files import DiskFiles
from pylog.files.protocol import SMALL_BYTES_MAX
from pylog.logdirs.log_directory import LOCK, SOCKET
from support.other_process import other_process


class InterruptedFiles(DiskFiles):
    """Files where something else happens after the first one was read."""

    def __init__(self, then: Callable[[], object]) -> None:
        super().__init__(read_only=True)
        self._then: Callable[[], object] | None = then

    def read_file(self, path: str, bytes_max: int = SMALL_BYTES_MAX) -> bytes:
        content = super().read_file(path, bytes_max)
        then, self._then = self._then, None
        if then is not None:
            then()
        return content


def test_an_owner_is_not_taken_for_the_one_whose_notice_was_read_before_it_came(tmp_path: Path) -> None:
    with other_process(tmp_path, flush="sync") as owner:
        files = InterruptedFiles(lambda: owner.does('log.close(); log = pylog.open(log.path, flush="none")'))

        assert find_owner(files, str(tmp_path)) is None
        found = find_owner(files, str(tmp_path))
        assert found is not None
        with found[1]:
            assert found[0].flush == "none"


def test_a_notice_that_cannot_be_read_again_is_an_error_and_keeps_no_connection(tmp_path: Path) -> None:
    def spoil() -> None:
        (tmp_path / LOCK).unlink()
        (tmp_path / LOCK).mkdir()

    with other_process(tmp_path), pytest.raises(StorageError):
        find_owner(InterruptedFiles(spoil), str(tmp_path))


def test_where_the_directory_has_no_room_for_a_socket_it_lies_elsewhere(tmp_path: Path) -> None:
    (tmp_path / SOCKET).mkdir()
    bound, place = listening(str(tmp_path))
    try:
        assert Path(place).is_socket() and Path(place).parent != tmp_path
    finally:
        bound.socket.close()
        bound.release()


def test_network_file_systems_are_not_looked_for_where_they_are_allowed(tmp_path: Path) -> None:
    with pylog.open(tmp_path / "log", config={"allow.network.file.systems": True}) as log:
        assert log.mode == "own"
