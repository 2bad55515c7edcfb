"""axe-core (npm) finds no violation on any page, at three widths, with the forms of `--write`.

`make ui-test` installs it into build/axe; without it these tests are skipped, loudly.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from browser.pages import PAGES, make_log, phone, shown

AXE = Path(__file__).parents[2] / "build/axe/node_modules/axe-core/axe.min.js"
WIDTHS = (1400, 800, 390)
RUN = """
    const done = arguments[arguments.length - 1];
    const told = (one) => `${one.id}: ${one.nodes.map(node => node.html).join(" ").slice(0, 300)}`;
    axe.run().then(found => done(found.violations.map(told)), error => done([String(error)]));
"""


@pytest.fixture(scope="module")
def writable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address, with its token, of a log that can be changed."""
    if not AXE.exists():
        pytest.skip("axe-core is not here: npm install --prefix build/axe axe-core")
    path = tmp_path_factory.mktemp("axe") / "data"
    make_log(path)
    with shown("--log", os.fspath(path), "--write") as found:
        yield found


@pytest.mark.parametrize(
    "page", [*PAGES, "topics/clicks/produce", "?sort=size", "topics/clicks/records?where=key~user"]
)
def test_axe_finds_no_violation(browser: Chrome, writable: str, page: str) -> None:
    browser.get(writable)
    for width in WIDTHS:
        phone(browser, width)
        browser.get(f"http://{urlsplit(writable).netloc}/{page}")
        browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true;")
        browser.execute_script(AXE.read_text())
        assert browser.execute_async_script(RUN) == [], width
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert browser.find_elements(By.TAG_NAME, "h1")
