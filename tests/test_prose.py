"""The prose of pylog: docstrings, error and log messages, help texts, docs and pages, held to one list of rules.

A reader may be an engineer whose first language is not English. The rules keep out the turns of phrase that need a
second reading, and words that are not those of Kafka and databases (docs/glossary.md). Each rule is data: its reason,
a wrong and a right example. Code between backticks is no prose. `python tests/test_prose.py` counts by rule and room.
"""

import ast
import gc
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src/pylog"

PROGRAMS = (
    "server|node|broker|client|owner|log|file|table|topic|partition|leader|follower|group|process|kernel|system|catalogue|"
    "coordinator|producer|consumer|library|connection|socket|replica|copy|store|machine|thread"
)


@dataclass(frozen=True)
class Rule:
    """A turn of phrase that is refused, and the one that takes its place."""

    name: str
    pattern: str
    reason: str
    wrong: str
    right: str
    first: bool = False
    """Only the beginning of a docstring is looked at."""

    @property
    def regex(self) -> re.Pattern[str]:
        return re.compile(self.pattern, re.IGNORECASE if not self.first else 0)


RULES = [
    Rule(
        "but for",
        r"\bbut\s+for\b",
        "`but for` is read as a contrast first",
        "All topics but for those that are deleted",
        "All topics except those that are deleted",
    ),
    Rule(
        "is none",
        r"(?-i:\b(?:[Ii]s|are|was|were)\s+none\b(?!\s+of))",
        "a pronoun that denies needs a second reading",
        "None where there is none",
        "None without a commit",
    ),
    Rule(
        "is no X of",
        r"(?<!there\s)\b(?:is|are)\s+no\s+\w+\s+of\b",
        "a noun that is denied needs a second reading",
        "the record is no repeat of any",
        "the record is not a duplicate",
    ),
    Rule(
        "Nothing:",
        r"(?-i:\bNothing:)",
        "a docstring says what a function does, and then why it does nothing",
        "Nothing: the numbers are the owner's.",
        "Do nothing, because the owner has the numbers.",
    ),
    Rule(
        "whoever",
        r"\b(?:whoever|whomever|whosoever|whatever\s+it\s+(?:takes|is))\b",
        "a sentence names who acts",
        "Write, whatever it takes, for whoever waits",
        "Write for the callers that wait; reopen the file first if its descriptor was closed",
    ),
    Rule(
        "What",
        r"\AWhat\b",
        "a docstring begins with a noun phrase that names the thing, or an imperative",
        "What is known of an owner.",
        "The facts about an owner.",
        first=True,
    ),
    Rule(
        "How",
        r"\AHow\b",
        "a docstring begins with a noun phrase that names the thing, or an imperative",
        "How many requests wait.",
        "The number of requests that wait.",
        first=True,
    ),
    Rule(
        "The X that a Y is",
        r"\A(?:The|A|An)\s[^.:;,]*?\bthat\s+(?:a|an|the|this|it|its)\b[^.:;,]*\s(?:is|are)\.",
        "a definition that ends in its verb needs a second reading",
        "The call that a frame is.",
        "Decode one request frame.",
        first=True,
    ),
    Rule(
        "personification",
        rf"\b(?:{PROGRAMS})s?\s+(?:that\s+)?(?:says?|said|knows?|knew|hears?|heard|thinks?|thought|believes?|wants?|"
        r"wished|wishes|cares|hopes|feels)\b",
        "programs and files have state and send messages; they do not speak or know",
        "the server says that the log knows the topic",
        "the server answers that the topic exists",
    ),
    Rule(
        "archaism",
        r"\b(?:anew|lest|whence|hitherto|thereof|whereof|wherein|whereupon|unto|ere|nought|amiss|of\s+old|in\s+vain|"
        r"to\s+be\s+had|as\s+ever|shall|upon|mends?|mended|heed|forthwith|betake|whilst|save\s+for)\b",
        "plain words are read at once",
        "the index is made anew",
        "the index is rebuilt",
    ),
    Rule(
        "glossary",
        r"\b(?:hundredths?|go(?:es)?\s+on\s+elsewhere|the\s+like)\b",
        "one word for one thing, and it is Kafka's or that of databases (docs/glossary.md)",
        "the 99th hundredth",
        "p99",
    ),
]


@dataclass(frozen=True)
class Text:
    """A piece of prose, and the line where it begins."""

    path: Path
    line: int
    text: str
    docstring: bool = False


def _blanked(text: str, pattern: str) -> str:
    """The text with each match replaced by blanks; its lines keep their numbers."""
    return re.sub(pattern, lambda found: re.sub(r"[^\n]", " ", found[0]), text, flags=re.DOTALL | re.MULTILINE)


def _prose(text: str) -> str:
    return _blanked(text, r"`+[^`]*`+")


def _strings(node: ast.AST) -> Iterator[ast.Constant]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each


def _is_log_call(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"debug", "info", "warning", "error", "exception", "critical"}
    )


def _of_statements(path: Path, body: list[ast.stmt]) -> Iterator[Text]:
    for place, statement in enumerate(body):
        if isinstance(statement, ast.Expr):
            value = statement.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield Text(path, statement.lineno, value.value.strip(), docstring=place == 0)
            elif _is_log_call(value):
                yield from (Text(path, each.lineno, each.value) for each in _strings(value))
        elif isinstance(statement, ast.Raise) or (path.parts[-2] == "cli" and isinstance(statement, ast.Return)):
            yield from (Text(path, each.lineno, each.value) for each in _strings(statement))
        for decorator in getattr(statement, "decorator_list", ()):
            yield from (Text(path, each.lineno, each.value) for each in _strings(decorator))
        for field in ("body", "orelse", "finalbody"):
            yield from _of_statements(path, getattr(statement, field, []))
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from _of_statements(path, part.body)


def _of_source() -> Iterator[Text]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield from _of_statements(path, ast.parse(path.read_bytes()).body)
    for path in sorted((*SOURCE.rglob("*.pyx"), *SOURCE.rglob("*.pxd"))):
        source = path.read_text()
        for found in re.finditer(r'^[ \t]*"""(.*?)"""', source, re.DOTALL | re.MULTILINE):
            yield Text(path, source.count("\n", 0, found.start()) + 1, found[1].strip(), docstring=True)


def _of_docs() -> Iterator[Text]:
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))):
        yield Text(path, 1, _blanked(path.read_text(), r"^```.*?^```|<!--.*?-->"))
    for path in sorted((SOURCE / "ui/templates").rglob("*.html")):
        yield Text(path, 1, _blanked(path.read_text(), r"<[^>]*>|\{[%{#].*?[%}#]\}"))


@cache
def _texts() -> tuple[Text, ...]:
    enabled = gc.isenabled()
    gc.disable()  # the trees of 80,000 lines would be walked by each collection
    try:
        return tuple(
            Text(each.path, each.line, _prose(each.text), each.docstring) for each in (*_of_source(), *_of_docs())
        )
    finally:
        if enabled:
            gc.enable()


def _violations(rule: Rule) -> list[tuple[Path, str]]:
    regex, found = rule.regex, []
    for text in _texts():
        if rule.first and not text.docstring:
            continue
        for match in regex.finditer(text.text):
            line = text.line + text.text.count("\n", 0, match.start())
            words = " ".join(text.text[max(0, match.start() - 30) : match.end() + 30].split())
            found.append((text.path, f"{text.path.relative_to(ROOT)}:{line}: {words!r}"))
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_prose_keeps_the_rule(rule: Rule) -> None:
    found = [line for _, line in _violations(rule)]
    assert not found, "\n".join([f"{rule.name}: {rule.reason}.", *found, f"Not {rule.wrong!r}, but {rule.right!r}."])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_refuses_its_wrong_example_and_takes_its_right_one(rule: Rule) -> None:
    assert rule.regex.search(rule.wrong)
    assert not [other.name for other in RULES if other.regex.search(rule.right)]


def test_the_glossary_has_each_word_once_in_the_order_of_the_alphabet() -> None:
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    words = [word.lower() for word, _ in rows[1:]]
    assert len(words) > 60 and words == sorted(set(words))
    assert [meaning for _, meaning in rows[1:] if len(meaning) > 110] == []


def _count() -> None:
    for rule in RULES:
        found = _violations(rule)
        rooms = Counter(path.relative_to(SOURCE if SOURCE in path.parents else ROOT).parts[0] for path, _ in found)
        print(f"{len(found):5} {rule.name}: {', '.join(f'{room} {count}' for room, count in rooms.most_common())}")
        if "-v" in sys.argv:
            print(*(f"      {line}" for _, line in found), sep="\n")


if __name__ == "__main__":
    _count()
