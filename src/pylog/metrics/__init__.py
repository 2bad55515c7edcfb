"""Numbers of a log about itself: `Log.metrics()`, and the ways of Prometheus and OpenTelemetry to them.

    metric                  a metric: Kafka's name, its kind, its tags
    table                   every metric there is
    histogram               how long calls took: how many of them in each class of durations
    snapshot                the numbers of one moment
    prometheus_collector    the numbers for prometheus_client (an extra)
    otel_instruments        the numbers for opentelemetry-api (an extra)

The object that does the work keeps its numbers, as plain ints. One statement without a call increases a number; the
interpreter's lock makes that one step, so it takes no other lock. Sums are made when a reader asks: each object has a
`measure`, which adds its numbers to a `Metrics`.
"""

from typing import TYPE_CHECKING

from pylog.metrics.histogram import Histogram
from pylog.metrics.metric import Metric, MetricKind, MetricName
from pylog.metrics.snapshot import Measured, Metrics, Value
from pylog.metrics.table import TABLE

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

    from pylog.metrics.prometheus_collector import LogCollector

__all__ = [
    "TABLE",
    "Histogram",
    "Measured",
    "Metric",
    "MetricKind",
    "MetricName",
    "Metrics",
    "Value",
    "opentelemetry",
    "prometheus",
]  # fmt: skip


def prometheus(log: Measured) -> "LogCollector":
    """The metrics of a log for prometheus_client: register it once, `REGISTRY.register(prometheus(log))`.

    Names are those that Prometheus' JMX exporter gives to Kafka's: `kafka_server_brokertopicmetrics_messagesin_total`.
    After the log is closed there are no samples. Raises ImportError, which says what to install.

    >>> from prometheus_client import CollectorRegistry, generate_latest
    >>> registry = CollectorRegistry()
    >>> registry.register(pylog.metrics.prometheus(log))
    >>> b"kafka_server_brokertopicmetrics_messagesin_total" in generate_latest(registry)
    True
    """
    try:
        from pylog.metrics.prometheus_collector import LogCollector
    except ModuleNotFoundError as error:
        raise ImportError(f"this needs prometheus-client: pip install prometheus-client ({error})") from error
    return LogCollector(log)


def opentelemetry(log: Measured, meter_provider: "MeterProvider | None" = None) -> None:
    """Make observable instruments for the metrics of a log, by the meter "pylog" of a provider; None: the global one.

    Their names are those of `prometheus`, without `_total`. A histogram is two counters, `_count` and `_sum`: the API
    has no observable histogram. After the log is closed they observe nothing. Raises ImportError, which says
    what to install.

    >>> from opentelemetry.sdk.metrics import MeterProvider
    >>> from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    >>> reader = InMemoryMetricReader()
    >>> pylog.metrics.opentelemetry(log, MeterProvider([reader], shutdown_on_exit=False))
    >>> len(reader.get_metrics_data().resource_metrics)
    1
    """
    try:
        from pylog.metrics.otel_instruments import make_instruments
    except ModuleNotFoundError as error:
        raise ImportError(f"this needs opentelemetry-api: pip install opentelemetry-api ({error})") from error
    make_instruments(log, meter_provider)
