"""The pytest plugin, in sessions of its own."""

import subprocess
import sys
from pathlib import Path

CLIENT = """
import socket
import pytest

places = []

@pytest.mark.parametrize("number", range(2))
def test_each_test_has_its_own(pylog_server, pylog_server_module, pylog_server_session, number):
    places.append([one.bootstrap_servers for one in (pylog_server, pylog_server_module, pylog_server_session)])
    host, port = pylog_server.bootstrap_servers.split(":")
    left_open = socket.create_connection((host, int(port)))
    pylog_server.log.create_topic("t")

def test_servers_of_wider_scopes_stay(pylog_server_session):
    (first, module, session), (second, *same) = places
    assert first != second
    assert same == [module, session]
    assert pylog_server_session.bootstrap_servers == session

def test_logs_are_there_without_a_server(pylog_log, pylog_log_module, pylog_log_session):
    with pylog_log.producer() as producer:
        pylog_log.create_topic("t")
        assert producer.send("t", b"a").result().offset == 0
    assert pylog_log is not pylog_log_module is not pylog_log_session
"""


def run(*words: str, at: Path) -> str:
    done = subprocess.run([sys.executable, *words], cwd=at, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_plugin_imports_nothing_of_pylog_before_a_fixture_is_used(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n\ndef test_nothing():\n    assert 'pytest_pylog' in sys.modules\n"
        "    assert not [name for name in sys.modules if name.split('.')[0] == 'pylog']\n"
    )

    assert "1 passed" in run("-m", "pytest", "-q", "-p", "no:cacheprovider", at=tmp_path)


def test_fixtures_are_there_in_every_scope_without_being_configured(tmp_path: Path) -> None:
    (tmp_path / "test_client.py").write_text(CLIENT)

    told = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore::ResourceWarning", at=tmp_path)

    assert "4 passed" in told


def test_each_worker_has_a_session_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_client.py").write_text(
        "import os, pathlib, pytest\n\n@pytest.mark.parametrize('number', range(2))\n"
        "def test_where(pylog_server_session, number):\n"
        "    place = pathlib.Path(os.environ['PYTEST_XDIST_WORKER'])\n"
        "    place.write_text(pylog_server_session.bootstrap_servers)\n"
    )

    run("-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", at=tmp_path)

    assert len({(tmp_path / worker).read_text() for worker in ("gw0", "gw1")}) == 2
