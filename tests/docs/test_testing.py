"""The recipes of docs/testing.md run as they stand, in a session of pytest."""

import ast
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "testing.md"
CONNECTOR, SPARK = sorted((ROOT / "build" / "spark-kafka").glob("*.jar")), ROOT / "build" / "pyspark"
"""What `make programs` fetches."""
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
    clients = {"confluent_kafka", "aiokafka", "kafka", "faststream", "pyspark"}
    assert clients <= set().union(*map(packages, RECIPES.values()))


NEEDS_SPARK = {name: "pyspark" in packages(source) for name, source in RECIPES.items()}


@pytest.mark.parametrize("name", [name for name in RECIPES if NEEDS_SPARK[name]])
def test_a_recipe_with_spark_passes(name: str, tmp_path: Path) -> None:
    if not CONNECTOR or not SPARK.exists():
        pytest.skip("Spark's Kafka connector is absent: run `make programs`")
    jars = ",".join(map(str, CONNECTOR))
    settings = {"PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell", "PYTHONPATH": str(SPARK)}
    assert_passes(tmp_path, [name], SPARK_HOME=str(SPARK / "pyspark"), **settings)


def test_the_other_recipes_pass(tmp_path: Path) -> None:
    missing = {
        name: absent
        for name, source in RECIPES.items()
        if (absent := [package for package in packages(source) if find_spec(package) is None])
    }
    assert_passes(tmp_path, [name for name in RECIPES if not NEEDS_SPARK[name] and name not in missing])
    if missing:
        pytest.skip(f"{missing} are not installed: `make conformance` installs them")


def assert_passes(folder: Path, names: list[str], **settings: str) -> None:
    """All of them in one session of pytest, which takes longer to begin than most of them do."""
    for name in names:
        (folder / name).write_text(RECIPES[name])

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *names],
        cwd=folder, capture_output=True, text=True, check=False, env=os.environ | settings,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
