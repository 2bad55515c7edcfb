"""The recipes of docs/testing.md run as they stand, each in a session of pytest."""

import ast
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
RECIPES = dict(re.findall(r"```python\n# (\S+\.py)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))


def packages(source: str) -> set[str]:
    """The packages that a recipe imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module)
    return {name.partition(".")[0] for name in found}


def test_the_page_has_recipes_for_every_client() -> None:
    assert {"confluent_kafka", "aiokafka", "kafka", "faststream"} <= set().union(*map(packages, RECIPES.values()))


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_passes(name: str, tmp_path: Path) -> None:
    missing = [package for package in packages(RECIPES[name]) if find_spec(package) is None]
    if missing:
        pytest.skip(f"{missing} are not installed: `make conformance` installs them")
    (tmp_path / name).write_text(RECIPES[name])

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", name],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
