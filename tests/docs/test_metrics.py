"""The table of metrics in docs/metrics.md; `python tests/docs/test_metrics.py` writes it."""

from pathlib import Path

from pylog.metrics import TABLE, MetricKind

PAGE = Path(__file__).parent.parent.parent / "docs" / "metrics.md"
BEGIN, END = "<!-- metrics: from the code -->\n", "<!-- end -->\n"


def metrics() -> str:
    """A table for each group, in the order of the code."""
    lines: list[str] = []
    for group in dict.fromkeys(metric.group for metric in TABLE):
        lines += [f"### `{group}`", "", "| name | kind | what it says | in Prometheus |", "|---|---|---|---|"]
        for metric in TABLE:
            if metric.group == group:
                tags = "".join(f" `{tag}`" for tag in metric.tags)
                by = f" By{tags}." if tags else ""
                total = "_total" if metric.kind is MetricKind.COUNTER else ""
                lines.append(
                    f"| `{metric.name}` | {metric.kind.value} | {metric.text}{by} | `{metric.exported_name}{total}` |"
                )
        lines.append("")
    return "\n".join(lines)


def parts() -> tuple[str, str, str]:
    """What stands before the tables, the tables, and what follows."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    tables, _, after = rest.partition(END)
    return before, tables, after


def test_the_page_lists_the_metrics_of_the_code() -> None:
    assert parts()[1] == metrics(), "run python tests/docs/test_metrics.py"


if __name__ == "__main__":
    before, _, after = parts()
    PAGE.write_text(f"{before}{BEGIN}{metrics()}{END}{after}", encoding="utf-8")
