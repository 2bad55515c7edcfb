"""A real Chromium, driven by selenium, and `pylog ui` in a process of its own.

`make ui-test` runs these tests. Where there is no Chromium they are skipped, loudly; `make test` leaves them out.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from browser.pages import make_log, scheme, shown

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
WIDE = (1200, 800)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests here: each takes a browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """Chromium without a screen. It leaves temporary files behind."""
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no Chromium and chromedriver here: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars", "--lang=en"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    environment = {**os.environ, "TMPDIR": str(tmp_path_factory.mktemp("chromium"))}
    driver = webdriver.Chrome(options=options, service=Service(DRIVER, env=environment))
    driver.implicitly_wait(10)
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(autouse=True)
def as_it_was(browser: webdriver.Chrome) -> Iterator[None]:
    """Each test begins with a wide window and without cookies; what the browser's console complains of fails it."""
    browser.set_window_size(*WIDE)
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    scheme(browser, "light")
    browser.execute_cdp_cmd("Network.clearBrowserCookies", {})
    browser.get_log("browser")
    yield
    complaints = [one for one in browser.get_log("browser") if "status of 4" not in one["message"]]
    assert complaints == []


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that tests only look at."""
    found = tmp_path_factory.mktemp("ui") / "data"
    make_log(found)
    return found


@pytest.fixture(scope="session")
def address(path: Path) -> Iterator[str]:
    """Where it is shown, for looking."""
    with shown("--log", os.fspath(path)) as found:
        yield found
