"""The values of metrics: names, histograms, snapshots, and the table."""

import pytest

from pylog.kernel.pure.fast_append import TIME_CLASSES
from pylog.metrics import TABLE, Histogram, MetricKind, MetricName, Metrics
from pylog.metrics.histogram import BOUNDS_MS, CLASSES, Times
from pylog.metrics.table import LOG_SIZE, MESSAGES_IN, RECORDS_SENT, REQUEST_TIMES


def test_a_name_is_that_of_the_mbean_in_kafka() -> None:
    name = LOG_SIZE.named({"topic": "t", "partition": "0"})

    assert name == MetricName("kafka.log:type=Log", "Size", (("topic", "t"), ("partition", "0")))
    assert str(name) == "kafka.log:type=Log,name=Size,topic=t,partition=0"


def test_exported_names_are_those_of_the_jmx_exporter_and_differ() -> None:
    names = [metric.exported_name for metric in TABLE]

    assert MESSAGES_IN.exported_name == "kafka_server_brokertopicmetrics_messagesin"
    assert RECORDS_SENT.exported_name == "kafka_producer_producer_topic_metrics_record_send"
    assert RECORDS_SENT.exported_tags == ("client_id", "topic")
    assert len(set(names)) == len(names) > 50


def test_the_table_says_of_each_metric_what_it_is_in_a_sentence() -> None:
    assert all(metric.text.endswith(".") and metric.text[0].isupper() for metric in TABLE)
    assert {metric.kind for metric in TABLE} == set(MetricKind)


def test_times_are_counted_in_classes_that_double() -> None:
    times = Times()
    for ns in (999, 1000, 1_500_000, 10**15):
        times.add(ns)
    found = times.histogram

    assert (found.counts[0], found.counts[1], found.counts[11], found.counts[-1]) == (1, 1, 1, 1)
    assert found.count == 4
    assert found.sum == pytest.approx((999 + 1000 + 1_500_000 + 10**15) / 1e6)
    assert CLASSES == len(BOUNDS_MS) + 1 == TIME_CLASSES


def test_a_quantile_is_the_bound_that_a_share_stays_below() -> None:
    times = Times()
    for ns in (500, 500, 3_000_000, 10**15):
        times.add(ns)
    found = times.histogram

    assert (found.quantile(0.5), found.quantile(0.75), found.quantile(1)) == (0.001, 4.096, float("inf"))
    assert Times().histogram.quantile(0.5) == Times().histogram.mean == 0.0
    assert found.mean == found.sum / 4
    with pytest.raises(ValueError, match="from 0 to 1"):
        found.quantile(2)


def test_numbers_of_one_name_are_added_and_a_total_goes_over_tags() -> None:
    found, times = Metrics(), Times()
    times.add(1)
    found.add(MESSAGES_IN, 2, topic="a")
    found.add(MESSAGES_IN, 3, topic="a")
    found.add(MESSAGES_IN, 4, topic="b")
    found.add(RECORDS_SENT, 7, client_id="c", topic="a")
    found.add(REQUEST_TIMES, times.histogram, request="Fetch")
    found.add(REQUEST_TIMES, times.histogram, request="Produce")

    assert found[MESSAGES_IN.named({"topic": "a"})] == 5
    assert (found.total("MessagesInPerSec"), found.total("MessagesInPerSec", topic="b")) == (9, 4)
    assert found.total("record-send-total", client_id="c") == 7
    assert found.total("nothing") == 0
    both = found.total("TotalTimeMs")
    assert isinstance(both, Histogram) and both.count == 2
    assert found.metric(RECORDS_SENT.named({"client-id": "c", "topic": "a"})) is RECORDS_SENT
    assert repr(found) == f"<Metrics, {len(list(found))} of them>" == "<Metrics, 5 of them>"
