import subprocess
import sys
from pathlib import Path

import pytest

BEFORE = """
import os, sys, time
import pylog
from pylog import Record
from pylog.errors import Closed

def forked(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            os._exit(1)
        sys.stdout.flush()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

def refused(call):
    try:
        call()
    except Closed as error:
        assert "before the process forked" in str(error), error
    else:
        raise AssertionError("it was not refused")

path = sys.argv[1]
"""

CHILD_OF_AN_OWNER = """
with pylog.open(path, flush="none") as log:
    part = log.create_topic("t")[0]
    producer, consumer, writer = log.producer(), log.consumer("t"), log.producer(transactional_id="x")
    transaction = writer.transaction()
    transaction.__enter__()
    producer.send("t", b"parent").result()
    def work():
        refused(lambda: producer.send("t", b"x"))
        refused(lambda: consumer.poll(10))
        refused(lambda: writer.send("t", b"x"))
        refused(lambda: part.append([Record(b"x")]))
        assert log.mode == "attach" and log.topics() == ["t"]
        assert log.topic("t")[0].append([Record(b"child")]).base_offset == 1
        with log.producer() as mine:
            mine.send("t", b"child again").result()
        log.close()
    forked(work)
    assert log.mode == "own"
    producer.send("t", b"parent again").result()
    writer.send("t", b"inside").result()
    transaction.__exit__(None, None, None)
    values = [record.value for record in log.topic("t")[0].records()]
    assert values == [b"parent", b"child", b"child again", b"parent again", b"inside"], values
    for one in (producer, consumer, writer):
        one.close()
"""

CHILD_OF_AN_ATTACHED_PROCESS = """
with pylog.open(path) as owner, pylog.open(path) as log:
    owner.create_topic("t")
    producer = log.producer()
    producer.send("t", b"parent").result()
    def work():
        refused(lambda: producer.send("t", b"x"))
        assert log.mode == "attach"
        with log.producer() as mine:
            mine.send("t", b"child").result()
    forked(work)
    producer.send("t", b"parent again").result()
    assert [r.value for r in owner.topic("t")[0].records()] == [b"parent", b"child", b"parent again"]
    producer.close()
"""

CHILD_THAT_TAKES_OVER = """
log = pylog.open(path)
log.create_topic("t")
ready, go = os.pipe()
if os.fork():
    # The owner ends as a killed one does, when its child is attached.
    os.read(ready, 1)
    os._exit(0)
assert log.topics() == ["t"] and log.mode == "attach"
os.write(go, b"x")
with log, log.producer() as producer:
    while log.mode == "attach":
        producer.send("t", b"child").result()
    log.topic("t")[0].append([Record(b"as the owner")])
    print(log.mode, flush=True)
"""

CHILD_OF_AN_OWNER_THAT_LOADS_A_SERVER = """
import importlib.abc, socket, threading
begun = threading.Event()

class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, where, target=None):
        if name == "pylog.server.loop" and os.getpid() == parent:
            begun.set()
            time.sleep(0.3)

parent = os.getpid()
sys.meta_path.insert(0, Slow())
with pylog.open(path) as log:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path + "/.socket")
        assert begun.wait(240)
        def work():
            import pylog.server.loop
            pylog.server.loop.Loop
        forked(work)
"""

CHILD_THAT_A_SIGNAL_STRIKES_AS_IT_WAITS = """
import signal
from pylog.errors import DirectoryLocked
with pylog.open(path, wait=0.5) as log:
    log.broker.announce("another program")
    def work():
        struck = []
        def use(number, frame):
            try:
                log.topics()
            except DirectoryLocked:
                struck.append(number)
        signal.signal(signal.SIGALRM, use)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            log.topics()
        except DirectoryLocked:
            pass
        assert struck == [signal.SIGALRM]
    forked(work)
"""

CHILD_THAT_OUTLIVES_AN_OWNER_THAT_IS_SLOW = """
import signal, socket, threading
begun, accept, close = threading.Event(), socket.socket.accept, socket.socket.close

def slowly():
    if threading.current_thread().name == "pylog-server":
        begun.set()
        time.sleep(0.3)

def slow_accept(self):
    found = accept(self)
    slowly()
    return found

def slow_close(self):
    if not self._closed:
        slowly()
    close(self)

setattr(socket.socket, sys.argv[2], {"accept": slow_accept, "close": slow_close}[sys.argv[2]])
with pylog.open(path) as log, socket.socket(socket.AF_UNIX) as client:
    client.settimeout(240)
    client.connect(path + "/.socket")
    closing = threading.Thread(target=log.close)
    if sys.argv[2] == "close":
        with pylog.open(path, mode="attach") as attached:
            attached.topics()
        begun.wait(240)
        begun.clear()
        closing.start()
    assert begun.wait(240)
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        log.close()
        assert client.recv(1) == b"", "the owner looks alive by its child"
        pylog.open(path, mode="own").close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
"""

MEMORY_AND_READERS = """
memory = pylog.open(":memory:")
pylog.open(path).close()
with pylog.open(path, mode="read") as reader:
    def work():
        refused(memory.topics)
        assert reader.topics() == [] and reader.mode == "read"
    forked(work)
memory.close()
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-W", "ignore:.*fork:DeprecationWarning", "-c", BEFORE + program]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.parametrize(
    "program",
    [
        CHILD_OF_AN_OWNER, CHILD_OF_AN_ATTACHED_PROCESS, CHILD_THAT_TAKES_OVER, CHILD_OF_AN_OWNER_THAT_LOADS_A_SERVER,
        CHILD_THAT_A_SIGNAL_STRIKES_AS_IT_WAITS, MEMORY_AND_READERS,
    ],
)  # fmt: skip
def test_a_forked_child_has_a_log_of_its_own(tmp_path: Path, program: str) -> None:
    done = run(program, str(tmp_path))
    assert done.stdout == ("own\n" if program is CHILD_THAT_TAKES_OVER else ""), done.stderr


@pytest.mark.parametrize("step", ["accept", "close"])
def test_an_owner_ends_although_a_child_of_its_lives(tmp_path: Path, step: str) -> None:
    """A child that is forked in the middle of such a step must not keep what the step is about."""
    run(CHILD_THAT_OUTLIVES_AN_OWNER_THAT_IS_SLOW, str(tmp_path), step)
