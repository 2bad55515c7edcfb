"""Regular expressions of clients, by RE2 and without it: what is matched, and what is refused."""

import sys
from collections.abc import Iterator

import pytest

from pylog.coordinator.patterns import PATTERN_CHARS_MAX, PLAIN_CHARS_MAX, matcher
from pylog.errors import InvalidRegularExpression


@pytest.fixture
def without_re2(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "re2", None)
    matcher.cache_clear()
    yield
    matcher.cache_clear()


@pytest.fixture
def with_re2() -> None:
    pytest.importorskip("re2", reason="google-re2 is absent")


@pytest.fixture(params=["with_re2", "without_re2"])
def engine(request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(request.param)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("pattern", "fits", "others"),
    [
        ("", [""], ["a"]),
        ("orders", ["orders"], ["orders-1", "border", "Orders"]),
        ("orders-.*", ["orders-", "orders-1.eu"], ["orders", "old-orders-1", "orders-1\n"]),
        (".*orders.*", ["orders", "old-orders-1"], ["order-s"]),
        (".+", ["a"], ["", "a\nb"]),
        ("a|b|c.*", ["a", "b", "c", "cd"], ["ab", "d", "ac"]),
        ("^(orders|pay[a-z]ents)-[0-9]+-eu.*$", ["orders-17-eu", "payments-1-eu.x"], ["orders--eu", "orders-x-eu"]),
        (r"(?:a|)\d\.\w?-\\", [r"a1._-" + "\\", r"1.-" + "\\"], [r"a1x_-" + "\\", r"a٣._-" + "\\"]),
        ("[^a-c_]+", ["xyz", "ü"], ["", "xa", "_"]),
        ("x-[a.:/ -]*y", ["x-y", "x-a.: /-y"], ["x-by"]),
        ("é+", ["éé"], ["e"]),
        ("(^ab-.*)", ["ab-", "ab-1"], ["a", "xab-1"]),
        ("(^a.*)|(^(?:b|c)-[0-9]+$)|^d$", ["a", "ab", "b-1", "d"], ["b", "xa", "dd"]),
    ],
)
def test_a_pattern_matches_whole_texts(pattern: str, fits: list[str], others: list[str]) -> None:
    matches = matcher(pattern).fits
    assert [text for text in [*fits, *others] if matches(text)] == fits


REFUSED = ["(", "[z-a]", "a++", "a**", r"(a)\1", "(?=a)", "(?<!a)b", "(?>a)", "(?P<x>a)(?P=x)", "a{1001}", "a\\",
           "[a--b]"]  # fmt: skip


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("pattern", [*REFUSED, "a" * (PATTERN_CHARS_MAX + 1)])
def test_what_kafka_would_not_know_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression) as caught:
        matcher(pattern)
    assert len(str(caught.value)) < 400


HOSTILE = ["(a|aa)+b", "(a*)*b", "a*a*b", "(a|a)(a|a)b", "(.*)(.*)b", "(a?|b)a?a?", "((a|b)|a)b", "a*.*b", "a.*?b",
           "(a|b)*", "(a.*)*b", "(a.*)+b", "(^a+b)b|(a.*)*b", "a{1,9}b", "a?" * 100 + "a" * 100]  # fmt: skip


@pytest.mark.usefixtures("with_re2")
@pytest.mark.parametrize("pattern", [*HOSTILE, "(x+x+)+y", "[[:alpha:]]{2}", r"\Qb.\E", "(?i)B", "(?P<x>b)"])
def test_re2_matches_what_would_take_others_for_ever(pattern: str) -> None:
    matches = matcher(pattern).fits
    assert not matches("a" * 249 + "c\udfff")


@pytest.mark.usefixtures("with_re2")
def test_groups_are_not_captured() -> None:
    # With them RE2 takes 2 ms for a text of 249 letters, and twice as many steps.
    assert matcher("(((a)))").steps == matcher("a").steps


@pytest.mark.usefixtures("without_re2")
@pytest.mark.parametrize("pattern", [*HOSTILE, "a" * (PLAIN_CHARS_MAX + 1)])
def test_without_re2_a_pattern_that_tries_many_ways_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression, match=r"install pylog-commitlog\[re2\]"):
        matcher(pattern)


@pytest.mark.usefixtures("with_re2")
@pytest.mark.parametrize(
    "pattern", ["(a?){1000}", "((a?){100}){9}" * 2, r"\w" * 4000, "(" * 4000, r"\pL" * 17, "\ud800"]
)
def test_a_pattern_that_is_large_or_no_text_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression):
        matcher(pattern)
