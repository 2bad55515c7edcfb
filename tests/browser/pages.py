"""A log to look at, the process that shows it, and what a visitor's device is like."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.expected_conditions import staleness_of
from selenium.webdriver.support.wait import WebDriverWait

import pylog
from pylog import serde

PHONE = (360, 740)
LOG = "00000000000000000000.log"
PAGES = (
    "", "topics/clicks", "topics/clicks/config", "topics/clicks/records", "topics/orders/records",
    "topics/orders/records/0/0", "topics/orders/records/0/1", "topics/clicks/partitions/0",
    "topics/payments/records", "topics/payments/records/0/0",
    f"topics/clicks/partitions/0/files/{LOG}", f"topics/clicks/partitions/0/files/{LOG}/batch?position=0", "groups",
    "group?id=analytics", "transactions", "transaction?id=billing", "schemas",
    "schema?subject=payments-value", "node", "damage", "none",
)  # fmt: skip
USER = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "string"}]}
PAYMENT = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": "user", "type": USER}, {"name": "amount", "type": "int"}],
}


def scheme(browser: Chrome, name: str) -> None:
    """Let the visitor prefer "light" or "dark"."""
    feature = {"name": "prefers-color-scheme", "value": name}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def phone(browser: Chrome, width: int = PHONE[0]) -> None:
    """Let the window be as small as a phone's, or as wide as is said."""
    metrics = {"width": width, "height": PHONE[1], "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


@contextmanager
def leaving(browser: Chrome) -> Iterator[None]:
    """Do what leads to another page, and end when that page is there.

    Chromium sends a form off some time after the key that does so: what is looked for at once may be of the old page.
    """
    left = browser.find_element(By.TAG_NAME, "html")
    yield
    waiting = WebDriverWait(browser, 30)
    waiting.until(staleness_of(left))
    waiting.until(lambda _: browser.execute_script("return document.readyState") == "complete")


def make_log(path: Path) -> None:
    """A log with a bit of everything."""
    with pylog.open(path) as log:
        log.create_topic("clicks", partitions=3, config={"retention.ms": 604_800_000})
        log.create_topic("orders")
        log.create_topic("payments")
        with log.producer(linger_ms=50) as producer:
            for one in range(600):
                user = f"user-{one % 97}"
                click = {"user": user, "page": f"/shop/{one % 13}", "ms": one}
                headers = [("trace", b"%d" % one), ("source", b"web")]
                producer.send("clicks", json.dumps(click).encode(), key=user.encode(), headers=headers)
            producer.send(
                "orders", b"<script>document.title = 'broken in'</script>", key=b"<img src=x onerror=alert(1)>"
            )
            producer.send("orders", bytes(range(256)), key=b"all bytes")
            producer.send("orders", "\u202eleft to right".encode(), key=b"a mark that turns text round")
            producer.send("orders", b"x" * 300_000, key=b"long")
            producer.send("orders", None, key=b"gone")
        payments = serde.avro(serde.LogRegistry(log), "payments-value", PAYMENT)
        with log.producer(value_serializer=payments.serialize) as producer:
            producer.send("payments", {"user": {"id": "ann"}, "amount": 7})
        with log.producer(transactional_id="billing") as producer, producer.transaction():
            producer.send("orders", b'{"paid": true, "items": [1, 2, 3]}', key=b"order-1")
        with log.consumer("clicks", group_id="analytics", auto_offset_reset="earliest") as consumer:
            consumer.poll(5000, max_records=250)
            consumer.commit()


@contextmanager
def shown(*words: str) -> Iterator[str]:
    """The address at which `pylog ui` shows a log."""
    environment = {name: value for name, value in os.environ.items() if name != "PYLOG_LOG"}
    command = [sys.executable, "-m", "pylog", "ui", "--listen", "127.0.0.1:0", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        try:
            assert " is shown at http://127.0.0.1:" in line, line + process.stderr.read()
            yield line.partition(" is shown at ")[2].partition(";")[0]
        finally:
            process.terminate()
            rest = process.communicate(timeout=30)[1]
    assert (process.returncode, rest) == (0, "pylog: stopped\n")
