"""The list of served keys in docs/compatibility.md; `python tests/docs/test_compatibility.py` writes it. The page has
each difference that `make differential` knows, too.
"""

from pathlib import Path

from differential.known import DOUBLES, KNOWN
from pylog.protocol.schema import message, names
from pylog.server.api.table import APIS

PAGE = Path(__file__).parent.parent.parent / "docs" / "compatibility.md"
BEGIN, END = "<!-- served keys: from the code -->\n", "<!-- end -->\n"


def served() -> str:
    """The table of the keys that are served, and the list of those that are not."""
    rows = [f"| {api.key} | {api.name} | {api.low} to {api.high} |" for api in APIS.values()]
    clients = {message(name).api_key: name.removesuffix("Request") for name in names("request")}
    absent = [clients[key] for key in sorted(clients.keys() - APIS.keys())]
    return "\n".join([
        "| key | name | versions |", "|---|---|---|", *rows, "",
        f"Not served: {', '.join(absent)}.", "",
    ])  # fmt: skip


def parts() -> tuple[str, str, str]:
    """What stands before the table, the table, and what follows."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    table, _, after = rest.partition(END)
    return before, table, after


def test_the_page_lists_the_keys_that_are_served() -> None:
    assert parts()[1] == served(), "run python tests/docs/test_compatibility.py"


def test_the_page_has_each_difference_that_is_known() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert [reason for reason in {DOUBLES, *(known.reason for known in KNOWN)} if reason not in page] == []


if __name__ == "__main__":
    before, _, after = parts()
    PAGE.write_text(f"{before}{BEGIN}{served()}{END}{after}", encoding="utf-8")
