"""The numbers of one moment."""

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import add
from typing import Protocol

from pylog.metrics.histogram import Histogram
from pylog.metrics.metric import Metric, MetricName

__all__ = ["Measured", "Metrics", "Value"]

Value = int | float | Histogram


class Metrics(Mapping[MetricName, Value]):
    """Metrics by their names. It does not change: ask again for the numbers of a later moment.

    >>> metrics = log.metrics()
    >>> metrics.total("MessagesInPerSec", topic="orders")
    3
    """

    def __init__(self) -> None:
        self._values: dict[MetricName, Value] = {}
        self._metrics: dict[MetricName, Metric] = {}

    def add(self, metric: Metric, value: Value, **tags: object) -> None:
        """Add the number of one object: it is added to what others have said under the same name. `tags` have an
        underscore for each hyphen in the name of a tag.
        """
        name = metric.named({tag: str(tags[tag.replace("-", "_")]) for tag in metric.tags})
        known = self._values.get(name)
        self._values[name] = value if known is None else add(known, value)
        self._metrics[name] = metric

    def __getitem__(self, name: MetricName) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[MetricName]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<Metrics, {len(self)} of them>"

    def metric(self, name: MetricName) -> Metric:
        """The metric that a number of this name belongs to. Raises KeyError.

        >>> name = next(name for name in metrics if name.name == "MessagesInPerSec")
        >>> metrics.metric(name).kind
        <MetricKind.COUNTER: 'counter'>
        """
        return self._metrics[name]

    def total(self, name: str, **tags: object) -> Value:
        """The sum of all numbers with this name, whatever their group is, that have these tags: `total("Size",
        topic="clicks")`. Histograms are added class by class. The sum of no numbers is 0. `tags` have an underscore for
        each hyphen in the name of a tag.

        >>> metrics.total("LogEndOffset", topic="orders", partition=0)
        3
        """
        wanted = {(tag.replace("_", "-"), str(value)) for tag, value in tags.items()}
        found: list[Value] = [
            value for known, value in self._values.items() if known.name == name and wanted <= set(known.tags)
        ]
        total: Value = reduce(add, found) if found else 0
        return total


class Measured(Protocol):
    """An object that has metrics: a `Log`, a `ConnectedLog`, a `pylog.aio.Log`."""

    def metrics(self) -> Metrics:
        """The numbers of now. Raises Closed."""
