"""The pages of `pylog ui` as a visitor has them: in Chromium, by keyboard, on a phone, in the dark."""

import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

import pylog
from browser.pages import LOG, PAGES, leaving, make_log, phone, scheme, shown

UNNAMED = """
    return [...document.querySelectorAll("a, button, input:not([type=hidden]), select, textarea")].filter(one =>
        !(one.labels?.length || one.textContent.trim() || one.ariaLabel)).map(one => one.outerHTML)
"""
CONTRAST = """
    const light = (color) => {
        const [r, g, b] = color.match(/[\\d.]+/g).map(Number).map(one => one / 255)
            .map(one => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (one) => {
        for (; one; one = one.parentElement) {
            const color = getComputedStyle(one).backgroundColor;
            if (!color.endsWith(", 0)")) return color;
        }
        return "rgb(255, 255, 255)";
    };
    const ratio = (one) => {
        const [a, b] = [getComputedStyle(one).color, ground(one)].map(light).sort((x, y) => y - x);
        return (a + 0.05) / (b + 0.05);
    };
    const hasText = (one) => [...one.childNodes].some(part => part.nodeType === 3 && part.data.trim());
    return [...document.querySelectorAll("body *")].filter(one => hasText(one) && ratio(one) < 4.5)
        .map(one => `${one.outerHTML.slice(0, 100)} ${ratio(one).toFixed(1)}`);
"""


def texts(browser: Chrome, selector: str) -> list[str]:
    return [one.text for one in browser.find_elements(By.CSS_SELECTOR, selector)]


def follow_link(browser: Chrome, text: str) -> None:
    with leaving(browser):
        browser.find_element(By.LINK_TEXT, text).click()


def enter(browser: Chrome, field: str, text: str) -> None:
    with leaving(browser):
        browser.find_element(By.ID, field).send_keys(text, Keys.ENTER)


def saved(browser: Chrome, link: str | None) -> str:
    """A file behind a link, as text."""
    text: str = browser.execute_async_script("fetch(arguments[0]).then(one => one.text()).then(arguments[1])", link)
    return text


def press(browser: Chrome, selector: str) -> None:
    with leaving(browser):
        browser.find_element(By.CSS_SELECTOR, selector).click()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_for_everyone(browser: Chrome, address: str, page: str) -> None:
    for name in ("light", "dark"):
        scheme(browser, name)
        browser.get(address + page)
        assert len(texts(browser, "h1")) == len(texts(browser, "main")) == 1
        assert browser.execute_script(UNNAMED) == []
        assert browser.execute_script(CONTRAST) == [], name
    phone(browser)
    browser.get(address + page)
    assert browser.execute_script("return document.documentElement.scrollWidth") == 360


def test_a_visitor_finds_the_way_from_topics_to_the_bytes_of_a_batch(browser: Chrome, address: str) -> None:
    browser.get(address)
    assert browser.title == "Topics - pylog"
    for text in ("orders", "0", LOG, "0"):
        follow_link(browser, text)
    assert texts(browser, "h1") == ["Batch at byte 0"]
    header = dict(
        zip(texts(browser, "#header ~ div tbody th"), texts(browser, "#header ~ div td:nth-child(3)"), strict=True)
    )
    assert header["magic"] == "02"


def test_a_visitor_browses_records_by_partition_offset_and_text(browser: Chrome, address: str) -> None:
    browser.get(f"{address}topics/clicks/records")
    assert len(texts(browser, "#records tr")) == 50
    Select(browser.find_element(By.ID, "partition")).select_by_visible_text("1")
    enter(browser, "offset", "10")
    assert texts(browser, "#records td:first-child")[:2] == ["1:10", "1:11"]
    follow_link(browser, "Newer")
    assert texts(browser, "#records td:first-child")[0] == "1:60"

    Select(browser.find_element(By.ID, "partition")).select_by_visible_text("all")
    browser.find_element(By.ID, "offset").clear()
    enter(browser, "text", '"ms": 77}')
    assert ['"ms": 77}' in one for one in texts(browser, "#records td:nth-child(4)")] == [True]
    press(browser, "#records a")
    assert '"user": "user-77"' in texts(browser, "pre")[1]


def test_a_value_is_decoded_by_the_schema_of_the_log(browser: Chrome, address: str) -> None:
    browser.get(f"{address}topics/payments/records")
    assert texts(browser, "#records td:nth-child(4)") == ['Avro, schema 1 {"user": {"id": "ann"}, "amount": 7}']
    press(browser, "#records a")
    assert texts(browser, "pre") == ['{\n  "user": {\n    "id": "ann"\n  },\n  "amount": 7\n}']
    follow_link(browser, "Avro, schema 1")
    assert texts(browser, "h1") == ["payments-value"]


def test_records_are_found_by_a_field_and_saved(browser: Chrome, address: str) -> None:
    browser.get(f"{address}topics/payments/records")
    enter(browser, "where", "value.user.id=bob")
    assert texts(browser, "main p:not([class])") == ["There are no such records here."]
    browser.find_element(By.ID, "where").clear()
    enter(browser, "where", "value.user.id=ann value.amount>=7")
    assert texts(browser, "#records td:first-child") == ["0:0"]
    links = browser.find_elements(By.CSS_SELECTOR, "a[download]")
    assert [one.text for one in links] == ["JSON lines", "CSV", "Parquet"] * 2
    raw, decoded = (saved(browser, link.get_attribute("href")) for link in (links[0], links[3]))
    assert '"topic":"payments"' in raw and '"value":"' in raw
    assert '"value":{"user":{"id":"ann"},"amount":7}' in decoded and len(decoded.splitlines()) == 1
    assert '"{""user"":{""id"":""ann""},""amount"":7}"' in saved(browser, links[4].get_attribute("href"))
    assert saved(browser, links[5].get_attribute("href")).startswith("PAR1")


def test_committed_records_alone_and_those_from_a_time_are_shown(browser: Chrome, tmp_path: Path) -> None:
    path = tmp_path / "data"
    with pylog.open(path) as log:
        log.create_topic("orders")
        with log.producer() as producer:
            producer.send("orders", b"old", timestamp_ms=1_000)
            producer.send("orders", b"new", timestamp_ms=5_000)
        with log.producer(transactional_id="billing") as producer:
            producer.begin()
            producer.send("orders", b"aborted", timestamp_ms=6_000).result()
            producer.abort()
    with shown("--log", os.fspath(path)) as address:
        browser.get(f"{address}topics/orders/records?time=1970-01-01T00:00:02")
        assert texts(browser, "#records td:nth-child(4)") == ["new", "aborted"]
        browser.find_element(By.ID, "committed").click()
        press(browser, "form button")
        assert texts(browser, "#records td:nth-child(4)") == ["new"]


def test_schemas_are_listed_and_lead_to_their_versions_and_topics(browser: Chrome, address: str) -> None:
    browser.get(address)
    follow_link(browser, "Schemas")
    assert texts(browser, "tbody :is(th, td)") == ["payments-value", "AVRO", "1", "1", "BACKWARD"]
    follow_link(browser, "payments-value")
    assert '"name": "Payment"' in texts(browser, "pre")[0]
    follow_link(browser, "payments")
    assert texts(browser, "h1") == ["payments"]


def test_transactions_have_states_and_partitions(browser: Chrome, address: str) -> None:
    browser.get(address)
    follow_link(browser, "Transactions")
    follow_link(browser, "billing")
    words = texts(browser, "main")[0]
    assert ("PrepareCommit" in words or "CompleteCommit" in words) and "orders:0" in words


def test_pages_work_without_script(browser: Chrome, address: str) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(f"{address}topics/clicks/records?partition=1&offset=10")
        assert browser.find_element(By.CSS_SELECTOR, "#records td").text == "1:10"
        browser.find_element(By.LINK_TEXT, "Newer").click()
        WebDriverWait(browser, 60).until(lambda _: "offset=60" in browser.current_url)
        assert browser.find_element(By.CSS_SELECTOR, "#records td").text == "1:60"
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_hostile_records_run_nothing(browser: Chrome, address: str) -> None:
    for page in ("topics/orders/records", "topics/orders/records/0/0"):
        browser.get(address + page)
        assert "broken in" not in browser.title
        assert browser.find_elements(By.CSS_SELECTOR, "main script, main img") == []
        assert "<script>document.title" in browser.find_element(By.TAG_NAME, "main").text


def test_what_a_page_would_smuggle_in_is_stopped_by_its_policy(browser: Chrome, address: str) -> None:
    browser.get(address)
    browser.execute_script("""
        const made = document.createElement("script"); made.textContent = "document.title = 'broken in'";
        document.body.append(made);
    """)
    assert browser.title == "Topics - pylog"
    assert any("Content Security Policy" in one["message"] for one in browser.get_log("browser"))


def test_all_is_reached_by_keyboard_and_the_focus_is_seen(browser: Chrome, address: str) -> None:
    browser.get(f"{address}topics/clicks/records")
    keys = ActionChains(browser)
    keys.send_keys(Keys.TAB).perform()
    skip = browser.switch_to.active_element
    assert skip.text == "Skip to the content" and skip.rect["x"] >= 0
    keys.send_keys(Keys.ENTER, Keys.TAB).perform()
    seen: list[str] = []
    # A field for a time has a stop for each part of it.
    while "Follow live" not in seen and len(seen) < 40:
        found = browser.switch_to.active_element
        seen.append(found.get_attribute("id") or found.text)
        assert found.value_of_css_property("outline-style") == "solid", found.get_attribute("outerHTML")
        keys.send_keys(Keys.TAB).perform()
    assert {"partition", "offset", "time", "text", "where", "committed", "Show", "Follow live"} <= set(seen)


def test_a_topic_is_followed_live(browser: Chrome, tmp_path: Path) -> None:
    path = tmp_path / "data"
    with pylog.open(path) as log:
        log.create_topic("clicks")
        log.topic("clicks")[0].append([pylog.Record(b"before")])
        with shown("--log", os.fspath(path)) as address:
            browser.get(f"{address}topics/clicks/records")
            status = browser.find_element(By.CSS_SELECTOR, "#live [role=status]")
            browser.find_element(By.CSS_SELECTOR, "#live button").click()
            waiting = WebDriverWait(browser, 20)
            waiting.until(lambda _: status.text == "0 new")
            # A page that follows holds none of the six connections that a browser has for all of its tabs.
            for _ in range(8):
                browser.switch_to.new_window("tab")
                browser.get(f"{address}topics/clicks/records")
                browser.find_element(By.CSS_SELECTOR, "#live button").click()
                waiting.until(lambda _: texts(browser, "#live [role=status]") == ["0 new"])
            for tab in browser.window_handles[1:]:
                browser.switch_to.window(tab)
                browser.close()
            browser.switch_to.window(browser.window_handles[0])
            log.topic("clicks")[0].append([pylog.Record(b"<b>after</b>"), pylog.Record(b"last")])
            waiting.until(lambda _: status.text == "2 new")
            assert texts(browser, "#records td:nth-child(4)") == ["last", "<b>after</b>", "before"]
            browser.find_element(By.CSS_SELECTOR, "#live button").click()
            assert status.text == "Stopped after 2 new"
            log.topic("clicks")[0].append([pylog.Record(b"unseen")])
            browser.find_element(By.CSS_SELECTOR, "#live button").click()
            # It ends while a page follows.
    WebDriverWait(browser, 20).until(lambda _: status.text == "Connecting again")
    browser.get("about:blank")
    browser.get_log("browser")


def test_with_the_token_a_visitor_changes_topics_and_groups(browser: Chrome, tmp_path: Path) -> None:
    path = tmp_path / "data"
    make_log(path)
    with shown("--log", os.fspath(path), "--write") as address:
        place = f"http://{urlsplit(address).netloc}/"
        browser.get(place)
        assert texts(browser, "h1") == ["The token, please"]
        browser.get(address)
        assert browser.current_url == place and texts(browser, "h1") == ["Topics"]
        assert browser.execute_script("return document.cookie") == ""

        enter(browser, "new", "made-here")
        assert texts(browser, ".done") == ["The topic was created."]
        follow_link(browser, "Configs")
        Select(browser.find_element(By.ID, "name")).select_by_visible_text("retention.ms")
        browser.find_element(By.ID, "value").send_keys("60000")
        press(browser, "button[value=set]")
        assert texts(browser, ".done") == ["The config was changed."]

        browser.get(f"{place}group?id=analytics")
        browser.find_element(By.XPATH, "//summary[.='Reset offsets']").click()
        Select(browser.find_element(By.ID, "way")).select_by_value("latest")
        with leaving(browser):
            browser.find_element(By.XPATH, "//button[.='Reset offsets']").click()
        assert texts(browser, ".done") == ["The offsets of the group were reset."]
        with pylog.open(path) as log:
            assert all(one.lag == 0 for one in log.admin.lag("analytics").values())
        browser.find_element(By.XPATH, "//summary[.='Delete the group']").click()
        enter(browser, "confirm", "analytics")
        assert texts(browser, ".done") == ["The group was deleted."]
    with pylog.open(path) as log:
        assert log.topic("made-here").overrides == {"retention.ms": "60000"}
        assert log.admin.list_groups() == []


def test_topics_are_sorted_and_what_matters_stands_first(browser: Chrome, address: str) -> None:
    def is_looked_at(_: Chrome) -> bool:
        browser.get(address)
        return "The first look" not in browser.page_source

    WebDriverWait(browser, 120).until(is_looked_at)
    facts = texts(browser, ".large dt")
    assert facts == ["Under-replicated partitions", "Largest lag", "Topics", "Partitions"]
    follow_link(browser, "Size")
    first = texts(browser, "tbody th")
    assert first[0] == "orders" and texts(browser, "[aria-sort=descending]") == ["Size ↓"]
    follow_link(browser, "Size ↓")
    assert texts(browser, "tbody th") == first[::-1]


def test_the_last_hour_is_drawn(browser: Chrome, address: str) -> None:
    def is_drawn(_: Chrome) -> bool:
        browser.get(f"{address}topics/clicks")
        return "polyline" in browser.page_source

    WebDriverWait(browser, 120).until(is_drawn)
    assert [one.partition(",")[0] for one in texts(browser, "figcaption")] == ["Records/s", "Growth/s", "Lag"]
    browser.get(f"{address}group?id=analytics")
    assert "now 350, at most 350" in texts(browser, "figcaption")[0]
    line = browser.find_element(By.CSS_SELECTOR, "polyline")
    assert line.value_of_css_property("fill") == "none" and line.rect["width"] > 200


def test_a_topic_names_the_groups_that_read_it(browser: Chrome, address: str) -> None:
    browser.get(f"{address}topics/clicks")
    assert texts(browser, "#groups ~ div tbody :is(th, td:last-child)") == ["analytics", "350"]
    follow_link(browser, "analytics")
    assert texts(browser, "h1") == ["analytics"]


def test_a_record_is_produced_by_a_form(browser: Chrome, tmp_path: Path) -> None:
    path = tmp_path / "data"
    make_log(path)
    with shown("--log", os.fspath(path), "--write") as address:
        browser.get(address)
        follow_link(browser, "payments")
        follow_link(browser, "Produce")
        Select(browser.find_element(By.ID, "key-format")).select_by_visible_text("hexadecimal")
        browser.find_element(By.ID, "key").send_keys("00 ff")
        Select(browser.find_element(By.ID, "value-format")).select_by_visible_text("JSON, by a schema")
        chosen = Select(browser.find_element(By.ID, "value-subject")).first_selected_option
        assert chosen.text == "payments-value"
        browser.find_element(By.ID, "value").send_keys('{"user": {"id": "bob"}, "amount": 1.5}')
        browser.find_element(By.ID, "headers").send_keys("trace=77")
        press(browser, "form button")
        problem = "value does not fit schema 1 of payments-value: value.amount is 1.5, not a whole number of 32 bits"
        assert texts(browser, "[role=alert]") == [f"Nothing was appended: {problem}"]
        value = browser.find_element(By.ID, "value")
        assert value.get_attribute("value") == '{"user": {"id": "bob"}, "amount": 1.5}'
        value.clear()
        value.send_keys('{"user": {"id": "bob"}, "amount": 9}')
        press(browser, "form button")
        assert texts(browser, ".done") == ["The record was appended."]
        assert '"amount": 9' in texts(browser, "pre")[0]
    with pylog.open(path) as log:
        record = list(log.topic("payments")[0].records())[1]
        assert (record.key, record.headers) == (b"\x00\xff", (("trace", b"77"),))


def test_changes_go_to_the_owner_of_the_log(browser: Chrome, tmp_path: Path) -> None:
    with pylog.open(tmp_path / "data") as log, shown("--log", log.path, "--write") as address:
        browser.get(address)
        enter(browser, "new", "made-here")
        assert texts(browser, ".done") == ["The topic was created."]
        assert log.topics() == ["made-here"]


def test_damage_is_found_and_named(browser: Chrome, tmp_path: Path) -> None:
    path = tmp_path / "data"
    make_log(path)
    spoiled = path / "orders-0" / LOG
    data = bytearray(spoiled.read_bytes())
    data[100] ^= 1
    spoiled.write_bytes(data)
    with shown("--log", os.fspath(path)) as address:
        browser.get(f"{address}damage")
        with leaving(browser):
            browser.find_element(By.XPATH, "//button[.='Check']").click()
        assert os.fspath(spoiled) in texts(browser, "tr.problem th")
        assert "1 problem" in texts(browser, "p.problem")[0]


def test_a_server_is_shown(browser: Chrome) -> None:
    with pylog.serve(":memory:") as server, pylog.connect(server.bootstrap_servers) as connected:
        connected.create_topic("far")
        with connected.producer() as producer:
            producer.send("far", b"away")
        with shown("--bootstrap", server.bootstrap_servers) as address:
            browser.get(address)
            follow_link(browser, "far")
            follow_link(browser, "Records")
            assert texts(browser, "#records td:nth-child(4)") == ["away"]


@pytest.mark.skipif("PYLOG_SCREENSHOTS" not in os.environ, reason="PYLOG_SCREENSHOTS=docs/ui makes those of the docs")
def test_screenshots_of_the_docs_are_made(browser: Chrome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(os.environ["PYLOG_SCREENSHOTS"]).absolute()
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path)
    make_log(Path("data"))
    with pylog.open("data") as log, log.producer() as producer, shown("--log", "data", "--write") as address:
        browser.get(address)
        place = f"http://{urlsplit(address).netloc}/"

        def has_lines(_: Chrome) -> bool:
            # Some seconds of unequal rates: a line of one step says little.
            for one in range(200 * (1 + len(lines) % 3)):
                producer.send("clicks", b"{}", key=b"user-%d" % (one % 97))
            browser.get(f"{place}topics/clicks")
            lines.add(browser.page_source.partition("<polyline")[2][:500])
            return len(lines) > 5

        lines = set[str]()
        WebDriverWait(browser, 120).until(has_lines)
        for name, page, color, width in (
            ("topics", "", "light", 1400), ("topic", "topics/clicks", "light", 1400),
            ("records", "topics/clicks/records?where=value.user%3Duser-7", "light", 800),
            ("produce", "topics/payments/produce", "light", 800),
            ("batch", f"topics/orders/partitions/0/files/{LOG}/batch?position=0", "dark", 800),
            ("phone", "topics/clicks/records?partition=0&offset=0", "light", 390),
        ):  # fmt: skip
            scheme(browser, color)
            phone(browser, width)
            browser.get(place + page)
            browser.save_screenshot(os.fspath(folder / f"{name}.png"))
