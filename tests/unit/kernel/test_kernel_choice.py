"""Which kernel runs is decided once, when pylog is imported, and it is said when it is not the fast one."""

import json
import os
import pickle
import subprocess
import sys

import pytest

from pylog import kernel
from pylog.kernel import BatchScope, Header

HIDE = """
import logging, sys
logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s", stream=sys.stdout)
sys.modules["pylog.kernel.compiled"] = None
"""
SAY = """
import pylog.kernel
from pylog.cli import main
main(["version", "--json"])
"""


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )  # fmt: skip
    return done.stdout.splitlines()


def test_the_environment_can_ask_for_the_pure_kernel():
    said = json.loads(run(SAY, PYLOG_PURE="1")[-1])
    assert (said["kernel"], said["why_pure"]) == ("pure", "PYLOG_PURE is set")


def test_without_a_compiled_kernel_the_pure_one_runs_with_a_warning():
    *log, version = run(HIDE + SAY, PYLOG_PURE="0")
    assert len(log) == 1 and log[0].startswith("pylog.kernel WARNING this installation has no compiled kernel")
    said = json.loads(version)
    assert said["kernel"] == "pure" and said["why_pure"].startswith("there is no compiled kernel")


def test_the_compiled_kernel_runs_where_it_is_built():
    pytest.importorskip("pylog.kernel.compiled", exc_type=ImportError)
    said = json.loads(run(SAY, PYLOG_PURE="")[-1])
    assert (said["kernel"], said["why_pure"]) == ("compiled", "")


@pytest.mark.parametrize("pure", ["0", "1"])
def test_records_go_from_one_kernel_to_the_other(pure):
    headers = (Header("h", b"x"), Header("n", None))
    records = [
        kernel.Record(b"v", b"k", 5, headers),
        kernel.ConsumerRecord(9, 5, None, b"v", headers, BatchScope("topic", 3, 7, 1)),
    ]
    code = f"import pickle; print([repr(one) for one in pickle.loads({pickle.dumps(records)!r})])"
    assert run(code, PYLOG_PURE=pure) == [repr([repr(one) for one in records])]
