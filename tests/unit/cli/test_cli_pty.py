"""The command as a process on a real terminal: bars and colours there, plain lines in pipes, and clean ends."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

import pylog
from support.patience import HANG_SECONDS

SOURCE = Path(pylog.__file__).parents[1]
COMMAND = [sys.executable, "-m", "pylog"]


def environment(data: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    return {**kept, "PYTHONPATH": str(SOURCE), "PYLOG_LOG": str(data), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log with the topic `lines` and 20,000 records of 50 bytes in it."""
    path = tmp_path / "data"
    with pylog.open(str(path), mode="own", flush="none") as log, log.producer() as producer:
        log.create_topic("lines")
        for number in range(20_000):
            producer.send("lines", b"%050d" % number)
    return path


class Terminal:
    """A process whose streams are a pseudo-terminal, except for those that are given."""

    def __init__(
        self, data: Path, *args: str, stdin: int | None = None, stdout: int | None = None, columns: int = 120
    ) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 40, columns, 0, 0))
        self.process = subprocess.Popen(
            [*COMMAND, *args],
            stdin=slave if stdin is None else stdin,
            stdout=slave if stdout is None else stdout,
            stderr=slave,
            env=environment(data),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(2, termios.TIOCSCTTY, 0),  # noqa: PLW1509 (no threads here)
        )
        os.close(slave)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def read_until(self, pattern: str) -> str:
        """What the terminal has shown, once `pattern` is in it."""
        while re.search(pattern, self.seen) is None:
            assert self._read(), f"ended without {pattern!r}: {self.seen!r}"
        return self.seen

    def end(self) -> int:
        """The exit code; everything that was shown is in `seen`."""
        while self._read():
            pass
        return self.process.wait(HANG_SECONDS)

    def _read(self) -> bool:
        ready, _, _ = select.select([self.master], [], [], HANG_SECONDS)
        assert ready, f"nothing more in {HANG_SECONDS} s: {self.seen!r}"
        try:
            data = os.read(self.master, 65536)
        except OSError:
            # Linux's word for "the last process has left the terminal".
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)

    def close(self) -> None:
        os.close(self.master)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def piped(data: Path, *args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *args], input=stdin, capture_output=True, env=environment(data), timeout=HANG_SECONDS
    )


def plain(text: str) -> str:
    """Without escape sequences, and with the lines that a terminal shows."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_produce_shows_a_bar_on_a_terminal(data: Path, tmp_path: Path, terminals: list[Terminal]) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"a line of input\n" * 30_000)
    terminal = Terminal(data, "produce", "lines", str(source), "--flush", "none")
    terminals.append(terminal)
    assert terminal.end() == 0
    assert "\x1b[" in terminal.seen and "%" in terminal.seen and "━" in terminal.seen
    assert "records/s" in terminal.seen
    assert "appended 30,000 records (439 KiB) to lines in" in plain(terminal.seen)


def test_produce_is_plain_in_a_pipe(data: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"a line of input\n" * 1000)
    done = piped(data, "produce", "lines", str(source))
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"\x1b" not in done.stderr and b"\r" not in done.stderr
    assert done.stderr.startswith(b"pylog: appended 1,000 records") and done.stderr.count(b"\n") == 1


def test_verify_and_describe_on_a_terminal(data: Path, terminals: list[Terminal]) -> None:
    for args, words in ((("verify",), "no problems"), (("topic", "describe"), "high watermark")):
        terminal = Terminal(data, *args)
        terminals.append(terminal)
        assert terminal.end() == 0
        assert words in plain(terminal.seen)
        assert "\x1b[" in terminal.seen


def test_ctrl_c_ends_a_consumer(data: Path, terminals: list[Terminal]) -> None:
    terminal = Terminal(data, "consume", "lines", "--offset", "-1", "--follow")
    terminals.append(terminal)
    terminal.read_until("0019999")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "Traceback" not in terminal.seen and "Error" not in terminal.seen


def test_ctrl_c_ends_a_producer_and_keeps_what_was_typed(data: Path, terminals: list[Terminal]) -> None:
    terminal = Terminal(data, "produce", "lines")
    terminals.append(terminal)
    terminal.read_until("Ctrl-D ends")
    terminal.type("one\ntwo\n")
    assert piped(data, "consume", "lines", "--offset", "20000", "--follow", "-n", "2").stdout == b"one\ntwo\n"
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "Traceback" not in terminal.seen
    assert "\x1b" not in terminal.seen, "nothing is drawn where one types"
    assert "appended 2 records (6 B)" in plain(terminal.seen)


def test_top_redraws_until_ctrl_c_and_leaves_the_last_view(data: Path, terminals: list[Terminal]) -> None:
    # The path of the log is in the first line, too.
    terminal = Terminal(data, "top", "--interval", "0.1", columns=120 + len(str(data)))
    terminals.append(terminal)
    terminal.read_until(r"20,000 records(?s:.*)20,000 records(?s:.*)0 records/s")
    terminal.type("\x03")
    assert terminal.end() == 0
    assert "\x1b[?1049h" in terminal.seen, "a screen of its own"
    assert "1 topic, 20,000 records" in plain(terminal.seen.rpartition("\x1b[?1049l")[2])
    assert "Traceback" not in terminal.seen


@pytest.mark.parametrize("flush", ["sync", "none"])
def test_ctrl_c_in_the_middle_of_a_file(
    data: Path, tmp_path: Path, terminals: list[Terminal], flush: Literal["sync", "none"]
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"a line of input\n" * 2_000_000)
    terminal = Terminal(data, "produce", "lines", str(source), "--flush", flush)
    terminals.append(terminal)
    terminal.read_until(r"[1-9][0-9,]* records")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "Traceback" not in terminal.seen and "sent and not acknowledged" not in terminal.seen
    told = re.search(r"appended ([0-9,]+) records", plain(terminal.seen))
    assert told is not None
    appended = int(told[1].replace(",", ""))
    with pylog.open(str(data), mode="own") as log:
        assert log.recovered == ()
        assert log.topic("lines")[0].next_offset == 20_000 + appended


def test_end_of_input_ends_a_producer(data: Path, terminals: list[Terminal]) -> None:
    terminal = Terminal(data, "produce", "lines")
    terminals.append(terminal)
    terminal.type("one\n\x04")
    assert terminal.end() == 0
    assert "appended 1 record (3 B)" in plain(terminal.seen)


@pytest.mark.parametrize(
    "args",
    [
        ("consume", "lines", "--from-beginning"),
        ("consume", "lines", "--from-beginning", "--follow"),
        # Nothing is left to write that could fail.
        ("consume", "lines", "--offset", "-1", "--follow"),
        ("segment", "dump", "--records"),
    ],
)
def test_a_closed_pipe_is_a_clean_end(data: Path, args: tuple[str, ...]) -> None:
    if args[0] == "segment":
        args += (str(next(data.glob("lines-0/*.log"))),)
    reader, writer = os.pipe()
    process = subprocess.Popen([*COMMAND, *args], stdout=writer, stderr=subprocess.PIPE, env=environment(data))
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        assert stream.readline()
    _, errors = process.communicate(timeout=HANG_SECONDS)
    assert (process.returncode, errors) == (0, b"")


def test_delete_asks_on_a_terminal(data: Path, terminals: list[Terminal]) -> None:
    for answer, code, left in (("no\n", 1, b"lines\n"), ("lines\n", 0, b"")):
        terminal = Terminal(data, "topic", "delete", "lines")
        terminals.append(terminal)
        assert "20,000 records" in terminal.read_until("Type its name")
        terminal.type(answer)
        assert terminal.end() == code
        assert piped(data, "topic", "list", "-q").stdout == left


def test_output_that_cannot_be_encoded(data: Path) -> None:
    piped(data, "produce", "lines", stdin="grüß\n".encode())
    path = str(next(data.glob("lines-0/*.log")))
    env = {**environment(data), "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run([*COMMAND, "segment", "dump", "-v", path], capture_output=True, env=env, timeout=HANG_SECONDS)
    assert done.returncode == 0 and rb"gr\xfc\xdf" in done.stdout
    done = subprocess.run(
        [*COMMAND, "consume", "lines", "-o", "-1"], capture_output=True, env=env, timeout=HANG_SECONDS
    )
    assert done.stdout == "grüß\n".encode()
