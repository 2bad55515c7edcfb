"""The pages that follow suites of Spark's and of Kafka's name tests that there are."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = re.compile(r"def (test_\w+)\(")


@pytest.mark.parametrize(("page", "folders", "least"), [
    ("spark_suites", ("spark", "unit/spark", "conformance"), 40), ("share_suites", ("",), 100),
])  # fmt: skip
def test_each_test_that_the_page_names_is_there(page: str, folders: tuple[str, ...], least: int) -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")))
    paths = (path for folder in folders for path in (ROOT / "tests" / folder).glob("*.py" if folder else "**/*.py"))
    found = {name for path in paths for name in TESTS.findall(path.read_text(encoding="utf-8"))}
    assert len(named) > least
    assert named - found == set()
