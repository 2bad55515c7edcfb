"""The recipes of docs/testing.md run as they stand, each in a session of pytest."""

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


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_passes(name: str, tmp_path: Path) -> None:
    missing = [package for package in packages(RECIPES[name]) if find_spec(package) is None]
    if missing:
        pytest.skip(f"{missing} are not installed: `make conformance` installs them")
    environment = dict(os.environ)
    if "pyspark" in packages(RECIPES[name]):
        if not CONNECTOR or not SPARK.exists():
            pytest.skip("Spark's Kafka connector is absent: run `make programs`")
        jars = ",".join(map(str, CONNECTOR))
        environment |= {"PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell", "PYTHONPATH": str(SPARK)}
        environment |= {"SPARK_HOME": str(SPARK / "pyspark")}
    (tmp_path / name).write_text(RECIPES[name])

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", name],
        cwd=tmp_path, capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
