"""The ways of Prometheus and OpenTelemetry to the metrics of a log."""

import subprocess
import sys
import textwrap
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry

import pylog
from pylog import metrics


def with_records(log: pylog.Log, count: int) -> None:
    log.create_topic("t", exist_ok=True)
    with log.producer() as producer:
        for _ in range(count):
            producer.send("t", b"value").result()


def test_prometheus_reads_counters_gauges_and_histograms_by_labels() -> None:
    registry = CollectorRegistry()
    with pylog.open(":memory:", flush="sync") as log:
        registry.register(metrics.prometheus(log))
        with_records(log, 3)
        found = log.metrics()

        assert registry.get_sample_value("kafka_server_brokertopicmetrics_messagesin_total", {"topic": "t"}) == 3
        assert registry.get_sample_value("kafka_log_log_logendoffset", {"topic": "t", "partition": "0"}) == 3
        flushes: Any = found.total("LogFlushRateAndTimeMs")
        flush = "kafka_log_logflushstats_logflushrateandtimems"
        assert registry.get_sample_value(f"{flush}_count") == flushes.count > 0
        assert registry.get_sample_value(f"{flush}_bucket", {"le": "+Inf"}) == flushes.count
        assert registry.get_sample_value(f"{flush}_sum") == pytest.approx(flushes.sum)


def test_a_registry_takes_one_log_and_hears_nothing_of_a_closed_one() -> None:
    registry = CollectorRegistry(auto_describe=True)
    with pylog.open(":memory:") as log:
        registry.register(metrics.prometheus(log))
        with pytest.raises(ValueError, match="Duplicated timeseries"):
            registry.register(metrics.prometheus(log))
    assert list(registry.collect()) == []


def observed(reader: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, Any], float]]]:
    data = reader.get_metrics_data()
    if data is None:
        return {}
    return {
        metric.name: [(dict(point.attributes or {}), getattr(point, "value", 0.0)) for point in metric.data.data_points]
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def test_opentelemetry_observes_the_numbers_of_each_collection() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    with pylog.open(":memory:", flush="sync") as log:
        metrics.opentelemetry(log, provider)
        with_records(log, 2)
        first = observed(reader)
        with_records(log, 3)
        second = observed(reader)
        flushes: Any = log.metrics().total("LogFlushRateAndTimeMs")

    name, labels = "kafka_server_brokertopicmetrics_messagesin", {"topic": "t"}
    assert (first[name], second[name]) == ([(labels, 2)], [(labels, 5)])
    assert second["kafka_log_logflushstats_logflushrateandtimems_count"] == [({}, flushes.count)]
    assert second["kafka_log_logflushstats_logflushrateandtimems_sum"][0][1] == pytest.approx(flushes.sum)
    assert first["kafka_log_log_logendoffset"] == [({"topic": "t", "partition": "0"}, 2)]
    assert name not in observed(reader)
    provider.shutdown()


def test_a_collection_looks_at_each_number_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[metrics.MetricName] = []
    metric = metrics.Metrics.metric
    monkeypatch.setattr(metrics.Metrics, "metric", lambda self, name: looks.append(name) or metric(self, name))
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    with pylog.open(":memory:") as log:
        metrics.opentelemetry(log, provider)
        with_records(log, 2)
        observed(reader)
    provider.shutdown()
    assert len(looks) == len(set(looks)) > 0


def test_without_a_provider_the_instruments_are_those_of_the_global_one() -> None:
    """In a process of its own, as that one is set for good."""
    script = """
        import pylog
        from opentelemetry.metrics import set_meter_provider
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        reader = InMemoryMetricReader()
        set_meter_provider(MeterProvider([reader], shutdown_on_exit=False))
        with pylog.open(":memory:") as log:
            pylog.metrics.opentelemetry(log)
            log.create_topic("t")[0].append([pylog.Record(b"v")])
            for resource in reader.get_metrics_data().resource_metrics:
                for scope in resource.scope_metrics:
                    print(scope.scope.name, *sorted(metric.name for metric in scope.metrics))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    ran = subprocess.run(command, capture_output=True, text=True)
    name, *found = ran.stdout.split()
    assert (ran.returncode, name) == (0, "pylog"), ran.stderr
    assert len(found) > 20


@pytest.mark.parametrize(
    ("package", "use"), [("prometheus_client", metrics.prometheus), ("opentelemetry", metrics.opentelemetry)]
)
def test_a_missing_extra_says_what_to_install(package: str, use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("prometheus_collector", "otel_instruments"):
        monkeypatch.delitem(sys.modules, f"pylog.metrics.{name}", raising=False)
        monkeypatch.delattr(metrics, name, raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pylog.open(":memory:") as log, pytest.raises(ImportError, match=f"pip install {package[:5]}"):
        use(log)
