"""The options of `write.format("pylog")`: what they mean, and which are refused."""

import pytest

from pylog.spark.options.where import GivenDirectories, Servers
from pylog.spark.options.write import parse_write


def test_a_topic_in_a_directory_is_written_exactly_once() -> None:
    found = parse_write({"path": "/data", "TOPIC": "t", "checkpointLocation": "cp"})
    assert (found.where, found.topic, found.is_exactly_once) == (GivenDirectories(("/data",)), "t", True)
    assert found.producer.compression_type == "none"


def test_configs_of_the_producer_are_taken_apart_from_those_of_the_connection() -> None:
    found = parse_write({
        "kafka.bootstrap.servers": "h:1", "kafka.compression.type": "zstd", "kafka.security.protocol": "SSL",
        "deliveryGuarantee": "AT-LEAST-ONCE", "kafka.batch.size": "1000",
    })  # fmt: skip
    assert found.where == Servers("h:1", (("security.protocol", "SSL"),))
    assert (found.producer.compression_type, found.producer.batch_size) == ("zstd", 1000)
    assert (found.topic, found.is_exactly_once) == (None, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topics": "t"}, "unknown option 'topics' for the pylog sink: did you mean 'topic'"),
        ({"topic": " "}, "option 'topic' is empty"),
        ({"deliveryGuarantee": "exactly once"}, "'exactly-once' or 'at-least-once', got 'exactly once'"),
        ({"kafka.compression.type": "rar"}, "rar"),
        ({"kafka.batch.size": "many"}, "many"),
        ({"kafka.key.serializer": "x"}, "kafka.key.serializer"),
        ({"kafka.linger.ms": "5"}, "kafka.linger.ms"),
        ({"kafka.bootstrap.servers": "h:1"}, "both path"),
    ],
)
def test_what_means_nothing_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_write({"path": "/data", **options})


def test_without_a_place_nothing_can_be_written() -> None:
    with pytest.raises(ValueError, match=r"kafka\.bootstrap\.servers"):
        parse_write({"topic": "t"})
