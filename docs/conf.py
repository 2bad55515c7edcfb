"""How Sphinx makes the site of these pages: `make docs`. Everything it shows lies in the clone or in the built page."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from pylog.version import VERSION

project = "pylog"
author = "the pylog authors"
release = version = VERSION
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "reference_tables"]
source_suffix = {".md": "markdown"}
exclude_patterns: list[str] = []
templates_path: list[str] = []

html_theme = "furo"
html_title = "pylog"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

myst_heading_anchors = 4
# The pages of decisions are linked by their list alone. Pages name files of the clone, too, for who reads them there.
suppress_warnings = ["toc.not_included"]

default_role = "code"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": False}

GIVEN = "Admin ConnectedLog Consumer Following Log PartitionView Producer Server TopicView".split()
"""The classes that a program gets from calls. Their constructors are not shown."""


def _signature(app: Any, what: str, name: str, obj: Any, options: Any, *shown: str | None) -> tuple[str, None] | None:
    return ("", None) if what == "class" and name.rpartition(".")[2] in GIVEN else None


def setup(app: Any) -> None:
    """Sphinx calls this."""
    app.connect("autodoc-process-signature", _signature)
