"""What the tests of this folder share."""

from collections.abc import Iterator
from multiprocessing import forkserver, process, resource_tracker

import pytest


@pytest.fixture(scope="module")
def fork_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The processes and the folder of multiprocessing end with the file of tests, and not with the process."""
    config = process.current_process()._config  # type: ignore[attr-defined]
    config["tempdir"] = str(tmp_path_factory.mktemp("fork"))
    resource_tracker.ensure_running()
    forkserver.ensure_running()
    yield
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]
    del config["tempdir"]
