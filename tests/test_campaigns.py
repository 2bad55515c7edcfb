"""Each campaign of the Makefile begins: the modules that it names are found with the path that it gives them."""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMED: defaultdict[str, list[str]] = defaultdict(list)
for path, module in re.findall(r"PYTHONPATH=(\S+) \$\(BIN\)/python -m (\S+)", (ROOT / "Makefile").read_text()):
    NAMED[path].append(module)


@pytest.mark.parametrize("path", sorted(NAMED))
def test_the_modules_of_campaigns_are_found(path: str) -> None:
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    subprocess.run([sys.executable, "-c", code, *NAMED[path]], cwd=ROOT, env={"PYTHONPATH": path}, check=True)


def test_there_are_campaigns() -> None:
    assert len(NAMED) == 2 and sum(map(len, NAMED.values())) > 15
