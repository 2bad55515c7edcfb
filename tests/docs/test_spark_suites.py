"""docs/spark_suites.md names tests that there are."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_each_test_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "spark_suites.md").read_text(encoding="utf-8")))
    folders = ("tests/spark", "tests/unit/spark", "tests/conformance")
    code = "".join(path.read_text(encoding="utf-8") for folder in folders for path in (ROOT / folder).glob("*.py"))
    assert len(named) > 40
    assert named <= set(re.findall(r"def (test_\w+)\(", code))
