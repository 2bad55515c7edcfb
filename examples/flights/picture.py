"""The picture of step 5: delays over the year, a line for each airport and a calendar of all of them."""

import datetime
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .spark import Daily

COLOURS = {"EWR": "#c8553d", "JFK": "#2f6690", "LGA": "#3a7d44"}
NAMES = {"EWR": "Newark", "JFK": "JFK", "LGA": "LaGuardia"}
INK = "#2b2d42"
FAINT = "#8d99ae"
SMOOTH_DAYS = 7
SCALE_MINUTES_MAX = 60


def draw_delays(days: "Sequence[Daily]", path: str) -> None:
    """Write the picture as PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    with mpl.rc_context(
        {"text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "axes.edgecolor": FAINT}
    ):
        figure, (lines, calendar) = pyplot.subplots(
            2, 1, figsize=(12, 7.3), dpi=130, height_ratios=[2.1, 1], layout="constrained"
        )
        flights = sum(day.flights for day in days)
        figure.suptitle(
            f"Departure delays from New York, {days[0].day[:4]}", x=0.045, ha="left", fontsize=17, fontweight="bold"
        )
        lines.set_title(
            f"Mean of {SMOOTH_DAYS} days by airport, single days as dots. "
            f"Computed by Spark from {flights:,} records of a pylog topic.",
            loc="left", color="#5c677d", pad=10,
        )  # fmt: skip
        _draw_lines(lines, days)
        _draw_calendar(calendar, days)
        figure.savefig(path)
        pyplot.close(figure)


def _draw_lines(axes: "Axes", days: "Sequence[Daily]") -> None:
    for origin, colour in COLOURS.items():
        own = [day for day in days if day.origin == origin and day.mean_delay is not None]
        at = [_number(day.day) for day in own]
        delays = [day.mean_delay or 0.0 for day in own]
        axes.plot(at, delays, ".", color=colour, alpha=0.22, markersize=4)
        axes.plot(at, _smooth(own), color=colour, linewidth=2.2, label=NAMES[origin], solid_capstyle="round")
    worst = max(days, key=lambda day: day.mean_delay or 0.0)
    axes.annotate(
        f"{worst.origin}, {_date(worst.day):%-d %B}: {worst.mean_delay:.0f} minutes",
        (_number(worst.day), worst.mean_delay or 0.0),
        xytext=(-12, -3), textcoords="offset points", ha="right", color=COLOURS[worst.origin],
    )  # fmt: skip
    axes.axhline(0, color=FAINT, linewidth=0.8)
    axes.set_ylabel("minutes")
    axes.set_xlim(_number(days[0].day) - 2, _number(days[-1].day) + 2)
    months = [datetime.date(_date(days[0].day).year, month, 1) for month in range(1, 13)]
    axes.set_xticks([_number(str(month)) for month in months], [f"{month:%b}" for month in months])
    for label in axes.get_xticklabels():
        label.set_horizontalalignment("left")
    axes.grid(axis="y", color="#e5e8ee", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)
    axes.legend(frameon=False, ncols=3, loc="upper right")


def _draw_calendar(axes: "Axes", days: "Sequence[Daily]") -> None:
    """A column for each week, a row for each weekday, darker where departures were later."""
    delay_sums: dict[str, float] = defaultdict(float)
    departed: dict[str, int] = defaultdict(int)
    for day in days:
        delay_sums[day.day] += (day.mean_delay or 0.0) * day.departed
        departed[day.day] += day.departed
    first = _date(min(departed))
    monday = first - datetime.timedelta(days=first.weekday())
    weeks = (_date(max(departed)) - monday).days // 7 + 1
    cells = [[math.nan] * weeks for _ in range(7)]
    for name, count in departed.items():
        date = _date(name)
        if count:
            cells[date.weekday()][(date - monday).days // 7] = delay_sums[name] / count
    mesh = axes.pcolormesh(cells, cmap="YlOrRd", vmin=0, vmax=SCALE_MINUTES_MAX, edgecolors="white", linewidth=1.6)
    axes.invert_yaxis()
    axes.set_aspect("equal")
    axes.set_yticks([0.5, 2.5, 4.5, 6.5], ["Mon", "Wed", "Fri", "Sun"])
    months = [datetime.date(first.year, month, 1) for month in range(1, 13)]
    axes.set_xticks([(date - monday).days / 7 + 0.5 for date in months], [f"{date:%b}" for date in months])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title("Every day, all airports", loc="left", color="#5c677d", pad=8)
    scale = axes.figure.colorbar(mesh, ax=axes, fraction=0.012, pad=0.01, aspect=11, extend="max")
    scale.outline.set_visible(False)
    scale.ax.tick_params(length=0)
    scale.set_label("minutes late")


def _smooth(days: "Sequence[Daily]") -> list[float]:
    """The mean delay of all flights in the days around each day."""
    half = SMOOTH_DAYS // 2
    means = []
    for index in range(len(days)):
        around = days[max(0, index - half) : index + half + 1]
        means.append(
            sum((day.mean_delay or 0.0) * day.departed for day in around) / sum(day.departed for day in around)
        )
    return means


def _date(text: str) -> datetime.date:
    return datetime.date.fromisoformat(text)


def _number(text: str) -> float:
    """A day's place on the axis."""
    return float(_date(text).toordinal())
