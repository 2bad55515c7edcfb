"""Options of a Spark read: the cases of Spark's KafkaRelationSuite ("bad batch query options") and our own."""

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.record import TopicPartition
from pylog.spark.columns import COLUMNS, column_name
from pylog.spark.options.limits import EARLIEST, LATEST, AtOffset, AtOffsets, AtTimestamp, AtTimestamps
from pylog.spark.options.read import ReadOptions, Retries, Trigger, check_batch, check_stream, parse
from pylog.spark.options.selection import Assign, Subscribe, SubscribePattern
from pylog.spark.options.where import GivenDirectories, Servers


def read(**options: str) -> ReadOptions:
    """The options of a batch of topic t in /data, with changes."""
    parsed = both(**options)
    check_batch(parsed)
    return parsed


def both(**options: str) -> ReadOptions:
    """The same of a batch or a stream."""
    if not {"subscribe", "subscribePattern", "assign"} & options.keys():
        options = {"subscribe": "t"} | options
    return parse({"path": "/data"} | options)


def test_defaults() -> None:
    assert read() == ReadOptions(
        where=GivenDirectories(("/data",)),
        selection=Subscribe(("t",)),
        starting=AtOffset(EARLIEST),
        ending=AtOffset(LATEST),
        no_match="error",
        min_partitions=None,
        max_records_per_partition=None,
        columns=("key", "value", "topic", "partition", "offset", "timestamp", "timestampType"),
        fail_on_data_loss=True,
        isolation="read_uncommitted",
        retries=Retries(most=3, interval_ms=1_000, poll_timeout_ms=120_000),
        trigger=Trigger(max_offsets=None, min_offsets=None, max_delay_ms=900_000, max_bytes=None),
        state_location=None,
    )


def test_names_and_words_match_in_any_case() -> None:
    shouted = {"PATH": "/data", "SubScribe": "t", "STARTINGOFFSETS": "Earliest", "failondataLOSS": "False"}
    assert parse(shouted) == read(failOnDataLoss="false")
    assert read(startingOffsets=" earliest ", endingOffsets="LATEST") == read()


def test_options_pickle() -> None:
    options = read(startingOffsets='{"t":{"0":1}}')
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("given_path", "expected"),
    [
        ("/a/b", "/a/b"),
        (" /a/b ", "/a/b"),
        ("a/b", str(Path.cwd() / "a/b")),
        ("file:///a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file://localhost/a%20b", "/a b"),
        ("/a/b:c", "/a/b:c"),
    ],
)
def test_path(given_path: str, expected: str) -> None:
    assert read(path=given_path).where == GivenDirectories((expected,))


@pytest.mark.parametrize("path", ["hdfs://host/a", "s3a://bucket/a", "file://host/a"])
def test_path_on_another_machine(path: str) -> None:
    with pytest.raises(ValueError, match="local directories only"):
        read(path=path)


def test_path_missing_or_several() -> None:
    with pytest.raises(ValueError, match=r"needs the log's directory, load\(path\)"):
        parse({"subscribe": "t"})
    with pytest.raises(ValueError, match="needs the log's directory"):
        read(path=" ")
    with pytest.raises(ValueError, match=r"several directories of one log are option\('paths'"):
        parse({"subscribe": "t"})


def test_several_directories_are_a_list() -> None:
    found = parse({"PATHS": '["/a", "file:///b%20c", "d"]', "subscribe": "t"}).where
    assert found == GivenDirectories(("/a", "/b c", str(Path.cwd() / "d")))
    assert (str(found), found.name) == (f"/a, /b c, {Path.cwd()}/d", "/a")
    assert parse({"paths": '["/a"]', "subscribe": "t"}).where == parse({"path": "/a", "subscribe": "t"}).where


def test_places_are_one_log_where_they_share_a_directory() -> None:
    both, first, other = GivenDirectories(("/a", "/b")), GivenDirectories(("/a",)), GivenDirectories(("/c",))
    assert both.is_log_of(first) and first.is_log_of(both)
    assert not both.is_log_of(other) and not both.is_log_of(Servers("h:1"))
    assert Servers("h:1").is_log_of(Servers("h:1")) and not Servers("h:1").is_log_of(both)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"paths": "/a,/b"}, r"option 'paths': expected e.g. \[\"/disk1/data\",\"/disk2/data\"\], got /a,/b"),
        ({"paths": "['/a', '/b']"}, "option 'paths': expected"),
        ({"paths": "[1]"}, "option 'paths': expected"),
        ({"paths": '{"a": "b"}'}, "option 'paths': expected"),
        ({"paths": "[]"}, "option 'paths': expected"),
        ({"paths": '["/a", " "]'}, "option 'paths': expected"),
        ({"paths": "[" * 100_000}, "option 'paths': expected"),
        ({"paths": '["/a", "/a"]'}, "option 'paths' names a directory twice"),
        ({"paths": '["/a", "s3://b"]'}, "local directories only, got path 's3://b'"),
        ({"paths": '["/a"]', "path": "/b"}, "both path '/b' and paths"),
        ({"paths": '["/a"]', "kafka.bootstrap.servers": "h:1"}, "both paths .* and kafka.bootstrap.servers"),
    ],
)
def test_several_directories_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse({"subscribe": "t"} | options)


def test_selection() -> None:
    assert read(subscribe=" a , b,,a").selection == Subscribe(("a", "b"))
    assert read(subscribePattern=" a.*|b ").selection == SubscribePattern("a.*|b")
    assert SubscribePattern(".*").matching(["a", "__pylog_spark_commits"]) == ["a"]
    expected = Assign((TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)))
    assert read(assign='{"b":[1],"a":[2,0,2]}').selection == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "One of the following options must be specified .* subscribe, subscribePattern, assign"),
        (
            {"subscribe": "t", "subscribePattern": "t.*"},
            "Only one of the following options .* got subscribe, subscribeP",
        ),
        ({"subscribe": "t", "assign": '{"a":[0]}'}, "Only one of the following options can be specified"),
        ({"assign": ""}, "No topicpartitions to assign"),
        ({"assign": "a"}, "No topicpartitions to assign"),
        ({"assign": "{}"}, "No topicpartitions to assign"),
        ({"assign": '{"a":[]}'}, "No topicpartitions to assign"),
        ({"subscribe": ""}, "No topics to subscribe"),
        ({"subscribe": " , "}, "No topics to subscribe"),
        ({"subscribePattern": ""}, "Pattern to subscribe is empty"),
        ({"subscribePattern": "(a"}, r"not a regular expression: .* got '\(a'"),
    ],
)
def test_selection_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse({"path": "/data"} | options)


@pytest.mark.parametrize(
    "text", ['{"a":', '{"a":0}', '{"a":["0"]}', '{"a":[-1]}', '{"a":[true]}', '{"a":[0.5]}', "{" * 9999]
)
def test_assign_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"option 'assign': expected e.g. "):
        read(assign=text)


P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_limits() -> None:
    offsets = read(startingOffsets='{"t":{"0":23,"1":-2}}', endingOffsets=' {"t":{"0":99,"1":-1}}')
    assert offsets.starting == AtOffsets({P0: 23, P1: EARLIEST})
    assert offsets.ending == AtOffsets({P0: 99, P1: LATEST})
    times = read(startingOffsetsByTimestamp='{"t":{"0":23}}', endingOffsetsByTimestamp='{"t":{"1":5}}')
    assert times.starting == AtTimestamps({P0: 23})
    assert times.ending == AtTimestamps({P1: 5})
    both = read(startingTimestamp=" 1000", endingTimestamp="2000")
    assert (both.starting, both.ending) == (AtTimestamp(1000), AtTimestamp(2000))


def test_limits_precedence() -> None:
    everything = {
        "startingTimestamp": "1",
        "startingOffsetsByTimestamp": '{"t":{"0":2}}',
        "startingOffsets": "latest",
        "endingTimestamp": "3",
        "endingOffsetsByTimestamp": '{"t":{"0":4}}',
        "endingOffsets": "earliest",
    }
    assert (both(**everything).starting, both(**everything).ending) == (AtTimestamp(1), AtTimestamp(3))
    del everything["startingTimestamp"], everything["endingTimestamp"]
    assert (both(**everything).starting, both(**everything).ending) == (AtTimestamps({P0: 2}), AtTimestamps({P0: 4}))


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("startingOffsets", "latest", "starting offset can't be latest for batch queries"),
        ("startingOffsets", '{"t":{"0":-1}}', "startingOffsets for t-0 can't be latest for batch queries"),
        ("endingOffsets", "earliest", "ending offset can't be earliest for batch queries"),
        ("endingOffsets", '{"t":{"0":-2}}', "endingOffsets for t-0 can't be earliest for batch queries"),
        ("startingOffsets", "beginning", "option 'startingOffsets': expected e.g. .* or 'earliest' or 'latest'"),
        ("startingOffsets", '{"t":{"0":-3}}', "option 'startingOffsets': expected"),
        ("startingOffsets", '{"t":{"x":1}}', "option 'startingOffsets': expected"),
        ("startingOffsets", '{"t":{"-1":1}}', "option 'startingOffsets': expected"),
        ("startingOffsets", '{"t":{"0":"1"}}', "option 'startingOffsets': expected"),
        ("startingOffsets", '{"t":{"0":1.0}}', "option 'startingOffsets': expected"),
        ("startingOffsets", '{"#topicIds":[]}', "option 'startingOffsets': expected"),
        ("startingOffsets", '{"#topicIds":{"t":"no id"}}', "option 'startingOffsets': expected"),
        ("endingOffsets", '{"t":"latest"}', "option 'endingOffsets': expected"),
        ("endingOffsets", "[1]", "option 'endingOffsets': expected"),
        ("endingOffsets", '{"t":{"0":1}', "option 'endingOffsets': expected"),
        ("startingOffsetsByTimestamp", "earliest", "option 'startingOffsetsByTimestamp': expected"),
        ("endingOffsetsByTimestamp", '{"t":{"0":-1}}', "option 'endingOffsetsByTimestamp': expected"),
        ("startingTimestamp", "2024-01-01", "option 'startingTimestamp': expected a single timestamp"),
        ("endingTimestamp", "-5", "option 'endingTimestamp': expected a single timestamp .* got '-5'"),
        ("startingOffsetsByTimestampStrategy", "skip", "is 'error' or 'latest', got 'skip'"),
        ("minPartitions", "0", "minPartitions must be positive, got '0'"),
        ("minPartitions", "many", "minPartitions must be positive, got 'many'"),
        ("maxRecordsPerPartition", "-1", "maxRecordsPerPartition must be positive, got '-1'"),
        ("includeHeaders", "yes", "option 'includeHeaders' is 'true' or 'false', got 'yes'"),
        ("failOnDataLoss", "", "option 'failOnDataLoss' is 'true' or 'false', got ''"),
        ("columns", " , ", "option 'columns' names no column"),
        ("columns", "key,KEY", "option 'columns' names a column twice"),
        ("columns", "key,ofset", "option 'columns' names an unknown column 'ofset': did you mean 'offset'?"),
    ],
)
def test_values_refused(option: str, value: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(**{option: value})


def test_values() -> None:
    options = read(
        minPartitions="8",
        maxRecordsPerPartition="1000",
        failOnDataLoss="false",
        startingOffsetsByTimestampStrategy="Latest",
    )
    assert (options.min_partitions, options.max_records_per_partition) == (8, 1000)
    assert not options.fail_on_data_loss
    assert options.no_match == "latest"


def test_columns() -> None:
    assert read(includeHeaders="true").columns == COLUMNS
    assert read(includeHeaders="false").columns == COLUMNS[:-1]
    assert read(columns="offset, TIMESTAMPTYPE,value").columns == ("offset", "timestampType", "value")
    assert read(columns="headers").columns == ("headers",)
    assert column_name("Key", "the schema") == "key"


def test_unknown_options() -> None:
    with pytest.raises(ValueError, match=r"unknown option 'startingoffset' .*: did you mean 'startingOffsets'"):
        read(startingOffset="earliest")
    with pytest.raises(ValueError, match=r"unknown option 'zzz' for the pylog source$"):
        read(zzz="1")


@pytest.mark.parametrize(
    ("option", "instead"),
    [
        ("kafka.auto.offset.reset", "startingOffsets"),
        ("kafka.key.deserializer", "keys are binary"),
        ("kafka.value.deserializer", "values are binary"),
        ("kafka.group.id", "no consumer group"),
        ("kafka.enable.auto.commit", "nothing is committed"),
        ("Kafka.Interceptor.Classes", "as they are in the log"),
        ("kafka.security.protocol", "without a connection"),
    ],
)
def test_kafka_options_refused(option: str, instead: str) -> None:
    with pytest.raises(ValueError, match=f"Kafka option '{option.lower()}' is not supported: .*{instead}"):
        read(**{option: "x"})


SERVERS = {"kafka.bootstrap.servers": " a:1,b:2 ", "subscribe": "t"}


def test_servers_and_how_they_are_reached() -> None:
    parsed = parse({**SERVERS, "kafka.sasl.mechanism": "PLAIN", "kafka.isolation.level": "Read_Committed"})
    assert parsed.where == Servers("a:1,b:2", (("sasl.mechanism", "PLAIN"),))
    assert parsed.isolation == "read_committed"
    assert str(parsed.where) == "a:1,b:2"


def test_a_password_is_not_in_the_words_for_the_options() -> None:
    assert "secret" not in repr(parse({**SERVERS, "kafka.sasl.password": "secret"}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({**SERVERS, "path": "/data"}, "both path '/data' and kafka.bootstrap.servers ' a:1,b:2 ' are given"),
        ({**SERVERS, "kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers is empty"),
        ({**SERVERS, "kafka.group.id": "g"}, "belongs to no consumer group"),
        ({**SERVERS, "kafka.isolation.level": "dirty"}, "'read_uncommitted' or 'read_committed', got 'dirty'"),
    ],
)
def test_servers_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(options)


# What a batch and a stream cannot do


def test_options_without_effect_are_told() -> None:
    options = both(maxOffsetsPerTrigger="5", groupIdPrefix="g", stateLocation="/s")
    assert check_batch(options) == ["maxOffsetsPerTrigger", "stateLocation", "groupIdPrefix"]
    assert check_stream(options) == ["groupIdPrefix"]


def test_limits_of_a_trigger() -> None:
    options = both(
        maxOffsetsPerTrigger="5", minOffsetsPerTrigger="3", maxTriggerDelay="2m", maxBytesPerTrigger="1000000"
    )
    assert options.trigger == Trigger(max_offsets=5, min_offsets=3, max_delay_ms=120_000, max_bytes=1_000_000)
    retries = both(**{"fetchOffset.numRetries": "0", "fetchOffset.retryIntervalMs": "10"}).retries
    assert retries == Retries(most=0, interval_ms=10, poll_timeout_ms=120_000)


@pytest.mark.parametrize(
    ("text", "ms"), [("500ms", 500), ("30 s", 30_000), ("15M", 900_000), ("7", 7), ("1h", 3_600_000)]
)
def test_delays(text: str, ms: int) -> None:
    assert both(maxTriggerDelay=text).trigger.max_delay_ms == ms


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"},
            r"minOffsetsPerTrigger \(6\) is higher than",
        ),
        ({"maxTriggerDelay": "soon"}, "'maxTriggerDelay' is a duration such as 500ms, 30s or 15m, got 'soon'"),
        ({"maxBytesPerTrigger": "0"}, "maxBytesPerTrigger must be positive"),
        ({"fetchOffset.numRetries": "-1"}, "fetchOffset.numRetries must be a whole number from 0 on, got '-1'"),
        ({"endingOffsets": "latest"}, "option 'endingOffsets' is not valid in streaming queries"),
        ({"endingTimestamp": "5"}, "option 'endingTimestamp' is not valid in streaming queries"),
        ({"startingOffsets": "latest"}, "needs option 'stateLocation'"),
        ({"startingTimestamp": "5"}, "needs option 'stateLocation'"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "needs option 'stateLocation'"),
    ],
)
def test_stream_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_stream(both(**options))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"startingOffsets": '{"t":{"0":5,"1":-2}}'},
        {"startingOffsets": "latest", "stateLocation": "/s"},
        {"startingTimestamp": "5", "stateLocation": "/s"},
    ],
)
def test_starts_of_a_stream(options: dict[str, str]) -> None:
    assert check_stream(both(**options)) == []


@given(
    st.dictionaries(
        st.sampled_from(["subscribe", "assign", "startingOffsets", "endingTimestamp", "columns"]), st.text()
    )
)
def test_any_text_is_understood_or_refused_with_a_value_error(options: dict[str, str]) -> None:
    try:
        parsed = parse({"path": "/data"} | options)
    except ValueError as error:
        assert str(error)
    else:
        assert isinstance(parsed, ReadOptions)
