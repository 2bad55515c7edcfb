"""`import pylog`: which names it has, and what it loads only when that is first used."""

import subprocess
import sys

import pytest

import pylog
from pylog import kernel

LATER = """
import sys, pylog
PARTS = {"crc32c", "cramjam", "lz4", "zstandard", "ctypes", "pylog.coordinator.group", "pylog.kernel.pure",
    "pylog.coordinator.transaction", "pylog.broker.read_only_broker", *pylog.ON_FIRST_USE.values()}
def loaded():
    return sorted(PARTS & set(sys.modules))
print(loaded())
with pylog.open(":memory:") as log:
    log.create_topic("t")
    with log.producer() as producer:
        producer.send("t", b"value").result()
    with log.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer:
        assert consumer.poll(timeout_ms=60_000)
    print("pylog.coordinator.group" in loaded(), "pylog.client.consumer.consumer" in loaded())
"""

CLIENT = """
import sys, pylog
pylog.connect
rooms = {name.split(".")[1] for name in sys.modules if name.startswith("pylog.")}
print(sorted(rooms & {"broker", "coordinator", "files", "storage", "commitlog", "partition", "log", "server"}))
"""


def test_every_public_name_is_found_and_listed_by_dir() -> None:
    for name in pylog.__all__:
        assert getattr(pylog, name) is not None and name in dir(pylog)
    assert set(pylog.ON_FIRST_USE) <= set(pylog.__all__)
    assert pylog.Consumer.__module__ == pylog.ON_FIRST_USE["Consumer"]


def test_dir_shows_the_public_names_alone() -> None:
    assert dir(pylog) == sorted(pylog.__all__)


def test_an_import_loads_three_modules_of_pylog() -> None:
    code = "import sys, pylog; print(sorted(name for name in sys.modules if name.partition('.')[0] == 'pylog'))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "['pylog', 'pylog.errors', 'pylog.version']\n"


def test_a_name_that_pylog_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'pylog' has no attribute 'Konsumer'"):
        pylog.Konsumer  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.skipif(kernel.NAME != "compiled", reason="the pure kernel needs crc32c and itself")
def test_an_import_loads_no_consumer_codec_or_coordinator_and_an_open_does() -> None:
    run = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["[]", "True True"]


def test_a_client_of_a_cluster_loads_nothing_of_storage() -> None:
    run = subprocess.run([sys.executable, "-c", CLIENT], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
