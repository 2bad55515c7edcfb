"""The site of the docs. `make docs-test` builds it; its tables, and its list of pages, are tested without Sphinx."""

import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from fnmatch import fnmatchcase
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pylog import cli, errors
from pylog.config import NodeConfig, TopicConfig
from pylog.config.connection import ConnectionConfig
from pylog.config.documentation import described
from pylog.config.options import kafka_name
from pylog.server.security import SecurityOptions

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = spec_from_file_location("reference_tables", DOCS / "reference_tables.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        spec.loader.exec_module(module)
    return module


def kafkas(fixtures: Path, page: str) -> list[dict[str, Any]]:
    """The configs of Kafka that a page is about."""
    path = fixtures / "facts" / f"config_{'broker' if page == 'node' else page}.json"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    found: list[dict[str, Any]] = json.loads(path.read_text())["configs"]
    return found


def test_the_reference_has_every_config(tables: ModuleType) -> None:
    for kind, place, absent in tables.PAGES.values():
        names = re.findall(r"^## `(.*)`$", tables.configs(kind, place, absent), re.MULTILINE)
        assert names == [kafka_name(field.name) for field in fields(kind) if "kind" in field.metadata]
    assert set(re.findall(r"^## `(.*)`$", tables.server(), re.MULTILINE)) == set(SecurityOptions.__annotations__)


def test_the_committed_pages_of_configs_are_what_the_code_says(tables: ModuleType) -> None:
    for name, text in tables.pages().items():
        page = (DOCS / "reference" / f"{name}.md").read_text(encoding="utf-8")
        assert page == text, "run python docs/reference_tables.py"


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["topic", "node", "producer", "consumer"])
def test_each_config_of_kafka_is_one_of_pylogs_or_is_told_to_be_absent(
    tables: ModuleType, fixtures: Path, name: str
) -> None:  # fmt: skip
    kind, _, absent = tables.PAGES[name]
    kafka = {one["name"] for one in kafkas(fixtures, name)}
    known = {kafka_name(field.name) for field in fields(kind)}
    if kind is NodeConfig:
        known |= {other for field in fields(TopicConfig) for other in field.metadata.get("broker", ())}
    elif kind is not TopicConfig:
        known |= {kafka_name(field.name) for field in fields(ConnectionConfig)}
    patterns = [pattern for one in absent for pattern in one.patterns.split()]
    missing = {one for one in kafka - known if sum(fnmatchcase(one, pattern) for pattern in patterns) != 1}

    assert not missing, "neither known nor told to be absent, or told twice"
    assert not [one for one in patterns if not any(fnmatchcase(other, one) for other in kafka - known)]


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["topic", "node", "producer", "consumer"])
def test_the_defaults_of_kafka_are_told_where_they_are_others(tables: ModuleType, fixtures: Path, name: str) -> None:
    kind, title = tables.PAGES[name][0], name.title()
    others = {
        one["name"]: ",".join(one["default"]) if isinstance(one["default"], list) else str(one["default"])
        for one in kafkas(fixtures, name)
    }
    told = tables.kafka_configs.OTHER_DEFAULTS.get(title, {})
    ours = {one.name: one.default for one in described(kind) if one.name in others}
    differ = {key for key, text in ours.items() if others[key].lower() != text.lower() and text not in ("None", "-1")}

    assert differ <= told.keys()
    assert {key: text.lower() for key, text in told.items()} == {key: others[key].lower() for key in told}


def test_the_reference_has_every_error(tables: ModuleType) -> None:
    named = re.findall(r"^##+ (\w+)$", tables.error_tree(), re.MULTILINE)
    kinds = {
        name for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.PylogError) and not name.startswith("_")
    }  # fmt: skip
    assert len(named) == len(set(named))
    assert set(named) == kinds


def test_the_reference_has_every_command(tables: ModuleType) -> None:
    text = tables.command()
    for name in cli.COMMANDS:
        assert f"\n## pylog {name}\n" in text


def test_every_page_is_in_the_list_of_contents() -> None:
    contents = "\n".join(re.findall(r"```{toctree}\n(.*?)```", (DOCS / "index.md").read_text(), re.DOTALL)).splitlines()
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")}
    shown = {page for page in pages if not page.startswith("decisions/0")} - {"index"}
    written = {"reference/errors", "reference/command"}
    assert shown | written == {line for line in contents if line and not line.startswith(":")}


@pytest.mark.skipif(find_spec("sphinx") is None, reason="Sphinx is absent: `make docs-test` installs it")
def test_the_site_is_built_without_a_warning_and_no_link_is_broken(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-E", "-b", "html", "docs", tmp_path],
        cwd=ROOT, capture_output=True, text=True, check=False, env=dict(os.environ, NO_COLOR="1"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr

    page = (tmp_path / "reference" / "python.html").read_text()
    for name in ("pylog.open", "pylog.Producer.send", "pylog.Consumer.poll", "pylog.Log.follow"):
        assert f'id="{name}"' in page, name
    for html in tmp_path.rglob("*.html"):
        # It is read without a network.
        assert not re.search(r'(src|<link[^>]*href)="https?:', html.read_text()), html
