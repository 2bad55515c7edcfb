"""The site of the docs. `make docs-test` builds it; its tables, and its list of pages, are tested without Sphinx."""

import os
import re
import subprocess
import sys
from dataclasses import fields
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from pylog import cli, errors
from pylog.config import ConsumerConfig, NodeConfig, ProducerConfig, TopicConfig
from pylog.config.connection import ConnectionConfig
from pylog.config.options import kafka_name

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = spec_from_file_location("reference_tables", DOCS / "reference_tables.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_has_every_config(tables: ModuleType) -> None:
    text = tables.configs()
    for kind in (TopicConfig, NodeConfig, ProducerConfig, ConsumerConfig, ConnectionConfig):
        part = re.search(rf"^## {kind.__name__.removesuffix('Config')}:.*?(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
        assert part is not None, kind
        names = re.findall(r"^### `(.*)`$", part[0], re.MULTILINE)
        assert names == [kafka_name(field.name) for field in fields(kind) if "kind" in field.metadata]


def test_the_committed_page_of_configs_is_what_the_code_says(tables: ModuleType) -> None:
    page = (DOCS / "reference" / "configs.md").read_text(encoding="utf-8")
    assert page == tables.configs(), "run python docs/reference_tables.py"


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
    written = {"reference/configs", "reference/errors", "reference/command"}
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
