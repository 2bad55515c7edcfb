"""The metrics of a log as observable instruments of OpenTelemetry."""

import threading
from collections.abc import Iterator
from functools import partial

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter_provider

from pylog.errors import Closed
from pylog.metrics.histogram import Histogram
from pylog.metrics.metric import Metric, MetricKind, MetricName
from pylog.metrics.snapshot import Measured, Value
from pylog.metrics.table import TABLE
from pylog.version import VERSION

__all__ = ["make_instruments"]

Number = tuple[MetricName, Value]


class _Snapshots:
    """One snapshot for all instruments of a collection: an instrument that asks again has a new one made."""

    def __init__(self, log: Measured) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._found: dict[Metric, list[Number]] = {}
        self._asked: set[str] = set()
        self._is_first = True

    def of(self, instrument: str, metric: Metric) -> list[Number]:
        """The numbers of a metric for an instrument; none after the log is closed."""
        with self._lock:
            if self._is_first or instrument in self._asked:
                self._is_first = False
                self._asked.clear()
                self._found = self._grouped()
            self._asked.add(instrument)
            return self._found.get(metric, [])

    def _grouped(self) -> dict[Metric, list[Number]]:
        try:
            found = self._log.metrics()
        except Closed:
            return {}
        groups: dict[Metric, list[Number]] = {}
        for name, value in found.items():
            groups.setdefault(found.metric(name), []).append((name, value))
        return groups


def make_instruments(log: Measured, provider: MeterProvider | None) -> None:
    """See `pylog.metrics.opentelemetry`."""
    meter = (provider or get_meter_provider()).get_meter("pylog", VERSION)
    snapshots = _Snapshots(log)
    for metric in TABLE:
        name = metric.exported_name
        if metric.kind is MetricKind.HISTOGRAM:
            for part, unit in (("count", "1"), ("sum", "ms")):
                called = f"{name}_{part}"
                meter.create_observable_counter(
                    called, [partial(_observe, snapshots, metric, called, part)], unit, metric.text
                )
        else:
            create = (
                meter.create_observable_counter if metric.kind is MetricKind.COUNTER else meter.create_observable_gauge
            )
            create(name, [partial(_observe, snapshots, metric, name, "")], description=metric.text)


def _observe(
    snapshots: _Snapshots, metric: Metric, instrument: str, part: str, options: CallbackOptions
) -> Iterator[Observation]:
    for name, value in snapshots.of(instrument, metric):
        number = getattr(value, part) if isinstance(value, Histogram) else value
        yield Observation(number, {tag.replace("-", "_"): text for tag, text in name.tags})
