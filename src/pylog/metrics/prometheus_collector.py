"""The metrics of a log as prometheus_client collects them."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from pylog.errors import Closed
from pylog.metrics.histogram import Histogram
from pylog.metrics.metric import Metric, MetricKind
from pylog.metrics.snapshot import Measured
from pylog.metrics.table import TABLE

__all__ = ["LogCollector"]

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


class LogCollector(Collector):
    """A collector for a registry, which takes one of them: the names of a second one would be the same."""

    def __init__(self, log: Measured) -> None:
        self._log = log

    def describe(self) -> Iterable[Family]:
        """Every family that there may be, without samples."""
        return [_family(metric) for metric in TABLE]

    def collect(self) -> Iterator[Family]:
        """The numbers of now; none after the log is closed."""
        try:
            found = self._log.metrics()
        except Closed:
            return
        families: dict[Metric, Family] = {}
        for name, value in found.items():
            metric = found.metric(name)
            family = families.get(metric)
            if family is None:
                family = families[metric] = _family(metric)
            labels = [text for _, text in name.tags]
            if isinstance(family, HistogramMetricFamily):
                assert isinstance(value, Histogram), metric
                family.add_metric(labels, _buckets(value), value.sum)
            else:
                assert not isinstance(value, Histogram), metric
                family.add_metric(labels, value)
        yield from families.values()


def _family(metric: Metric) -> Family:
    kinds: dict[MetricKind, type[Family]] = {
        MetricKind.COUNTER: CounterMetricFamily,
        MetricKind.GAUGE: GaugeMetricFamily,
        MetricKind.HISTOGRAM: HistogramMetricFamily,
    }
    return kinds[metric.kind](metric.exported_name, metric.text, labels=metric.exported_tags)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    below, buckets = 0, []
    for count, bound in zip(histogram.counts, [*map(str, histogram.bounds), "+Inf"], strict=True):
        below += count
        buckets.append((bound, float(below)))
    return buckets
