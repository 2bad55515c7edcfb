"""Administration through `log.admin`: what it tells, and what it refuses."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import TopicPartition, errors
from pylog.broker.replica_manager import EndedRoles
from pylog.client.admin.admin import Admin
from pylog.client.admin.offset_moves import listed_offsets
from pylog.client.admin.transactions import HangingTransaction
from pylog.protocol.batch import encode
from pylog.protocol.messages import ConfigSource, ProduceRequest, Session
from pylog.testing import StandIn
from support.messages import init_producer_id, join_group, sync_group

NOW = 1_700_000_000_000
SESSION = Session("me")
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[pylog.Log]:
    with pylog.open(tmp_path / "log", flush="none") as log:
        for view in log.create_topic("t", partitions=2):
            view.append([pylog.Record(b"%d" % number, timestamp=NOW + number) for number in range(10)])
        yield log


def ask(log: pylog.Log, message: Any) -> Any:
    return log.broker.handle(message, SESSION).result()


def send(log: pylog.Log, name: str | None, producer_id: int, epoch: int, key: TopicPartition) -> Any:
    batch = encode(
        [(b"x", None, NOW, ())], now_ms=NOW, producer_id=producer_id, producer_epoch=epoch, base_sequence=0,
        transactional=True,
    )  # fmt: skip
    return ask(log, ProduceRequest.of(*key, batch, transactional_id=name)).parts[0].error


def test_a_group_of_the_newer_protocol_is_described(log: pylog.Log) -> None:
    with log.consumer("t", group_id="g", group_protocol="consumer", auto_offset_reset="earliest") as consumer:
        while len(consumer.assignment()) < 2:
            consumer.poll(timeout_ms=20)
        group = log.admin.describe_group("g")
        assert (group.type, group.state, group.assignor) == ("Consumer", "Stable", "uniform")
        assert group.members[0].assignment == (FIRST, SECOND)
        assert [lag.member_id for lag in log.admin.lag("g").values()] == [group.members[0].member_id] * 2


@pytest.mark.parametrize(
    ("protocol_type", "assignment"), [("connect", b"\0\0"), ("consumer", b"odd"), ("consumer", b"")]
)
def test_an_unreadable_assignment_of_a_member_is_shown_as_empty(
    log: pylog.Log, protocol_type: str, assignment: bytes
) -> None:
    joined = ask(log, join_group("g", protocol_type=protocol_type, protocols=[("range", b"\0\0")]))
    sync = sync_group("g", 1, joined.member_id, assignments=[(joined.member_id, assignment)])
    assert ask(log, sync).error is None
    assert log.admin.describe_group("g").members[0].assignment == ()


def test_offsets_of_a_topic_that_is_gone_are_behind_nothing(log: pylog.Log) -> None:
    log.create_topic("gone")
    log.admin.alter_offsets("g", {FIRST: 4, TopicPartition("gone", 0): 0})
    log.delete_topic("gone")
    assert {key: lag.lag for key, lag in log.admin.lag("g").items() if key.topic == "t"} == {FIRST: 6}
    # One who has not looked at the topic since it went hears of it from the node.
    log.create_topic("gone")
    log.admin.alter_offsets("other", {TopicPartition("gone", 0): 0})
    log.broker.node.changes.delete_topic("gone", EndedRoles())
    gone = TopicPartition("gone", 0)
    assert [listed_offsets(log.admin._cluster, [gone], -1) for _ in range(2)] == [{gone: 0}] * 2
    with pytest.raises(errors.UnknownTopicOrPartition):
        log.admin.alter_offsets("g", {TopicPartition("gone", 0): 1})


def test_a_group_that_is_read_by_is_not_sent_elsewhere(log: pylog.Log) -> None:
    with log.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer:
        assert consumer.poll(timeout_ms=60_000)
        (member,) = log.admin.describe_group("g").members
        assert member.assignment == (FIRST, SECOND)
        with pytest.raises(errors.GroupNotEmpty):
            log.admin.reset_offsets("g", "earliest", partitions=[FIRST])
        with pytest.raises(errors.GroupSubscribedToTopic):
            log.admin.delete_offsets("g", [FIRST])
    assert log.admin.reset_offsets("g", shift=-3, partitions=[FIRST], dry_run=True) == {FIRST: (10, 7)}
    assert log.admin.reset_offsets("g", "latest") == log.admin.reset_offsets("g", shift=0)


def test_a_reset_has_one_way_and_stays_in_the_log(log: pylog.Log) -> None:
    for ways in ({}, {"to": "latest", "offset": 3}, {"shift": 1, "time_ms": 2}):
        with pytest.raises(ValueError, match="give one of"):
            log.admin.reset_offsets("g", **ways, partitions=[FIRST])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="nothing in t-0"):
        log.admin.reset_offsets("g", shift=1, partitions=[FIRST])
    assert log.admin.reset_offsets("g", offset=99, partitions=[FIRST]) == {FIRST: (None, 10)}
    assert log.admin.reset_offsets("g", time_ms=NOW + 3) == {FIRST: (10, 3)}
    assert log.admin.reset_offsets("g", time_ms=NOW + 99) == {FIRST: (3, 10)}
    assert log.admin.reset_offsets("nobody", "latest", partitions=[FIRST], dry_run=True) == {FIRST: (None, 10)}


def test_arguments_of_another_kind_are_named(log: pylog.Log) -> None:
    admin: Any = log.admin
    for call in (
        lambda: admin.describe_group(3), lambda: admin.delete_groups([None]), lambda: admin.delete_groups("g"),
        lambda: admin.reset_offsets(None, "earliest", partitions=[FIRST]), lambda: admin.list_groups(states=[1]),
        lambda: admin.list_groups(states="Empty"), lambda: admin.alter_offsets("z", [(FIRST, 3)]),
        lambda: admin.committed(None), lambda: admin.delete_offsets(3, [FIRST]),
        lambda: admin.list_transactions(states=[None]),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=r"group_id|states|offsets is a dict"):
            call()
    with pytest.raises(ValueError, match="xx is none of Empty, Ongoing"):
        admin.list_transactions(states=["xx"])
    assert admin.list_transactions(states=["ongoing"]) == []


def test_a_reset_of_all_that_a_group_has_committed_says_where_that_is_nothing(log: pylog.Log) -> None:
    with pytest.raises(errors.GroupIdNotFound):
        log.admin.reset_offsets("nobody", "latest")
    with log.consumer("t", group_id="live", enable_auto_commit=False) as consumer:
        while not consumer.assignment():
            consumer.poll(100)
        for partitions in (None, [FIRST]):
            with pytest.raises(errors.GroupNotEmpty):
                log.admin.reset_offsets("live", "latest", partitions=partitions, dry_run=True)


def test_groups_are_listed_by_states_that_there_are(log: pylog.Log) -> None:
    log.admin.alter_offsets("g", {FIRST: 1})
    assert [one.group_id for one in log.admin.list_groups(states=["empty"], types=["CLASSIC"])] == ["g"]
    assert log.admin.list_groups(states=["Stable"]) == []
    with pytest.raises(ValueError, match="states: bogus is none of Empty"):
        log.admin.list_groups(states=["bogus"])
    with pytest.raises(ValueError, match="types: shared is none of"):
        log.admin.list_groups(types=["shared"])


def test_offsets_are_listed_by_each_kind_of_question(log: pylog.Log) -> None:
    found = log.admin.list_offsets({FIRST: "max_timestamp", SECOND: NOW + 5})
    assert (found[FIRST].offset, found[SECOND].offset) == (9, 5)
    assert log.admin.list_offsets({FIRST: "latest"}, isolation_level="read_committed")[FIRST].offset == 10
    with pytest.raises(ValueError, match="none of earliest"):
        log.admin.list_offsets({FIRST: "soon"})
    with pytest.raises(ValueError, match="no time in ms"):
        log.admin.list_offsets({FIRST: -1})
    with pytest.raises(errors.UnknownTopicOrPartition):
        log.admin.list_offsets({TopicPartition("nowhere", 0): "latest"})


def test_the_node_tells_its_configs_and_directories(log: pylog.Log, tmp_path: Path) -> None:
    configs = log.admin.describe_node_config()
    assert configs["max.open.files"] == ("256", ConfigSource.DEFAULT_CONFIG, True)
    assert list(configs) == sorted(configs)
    (directory,) = log.admin.describe_log_dirs()
    assert (directory.path, directory.error) == (str(tmp_path / "log"), None)
    assert directory.partitions[FIRST] == log.topic("t")[0].size


def test_a_config_of_the_node_says_whether_it_was_given() -> None:
    with (
        pylog.open(":memory:", config={"num.partitions": 3, "log.retention.ms": 5000}) as log,
        pylog.connect(log.serve().bootstrap_servers) as there,
    ):
        configs = log.admin.describe_node_config()
        assert configs["num.partitions"] == ("3", ConfigSource.STATIC_BROKER_CONFIG, True)
        assert {name for name, one in configs.items() if one.source is not ConfigSource.DEFAULT_CONFIG} == {
            "num.partitions", "log.retention.ms"
        }  # fmt: skip
        assert there.admin.describe_node_config() == configs


def test_groups_are_deleted_by_one_call_and_each_has_its_error(log: pylog.Log) -> None:
    admin = log.admin
    for name in ("old", "older"):
        admin.alter_offsets(name, {FIRST: 1})
    with log.consumer("t", group_id="at work") as consumer:
        consumer.poll(timeout_ms=100)
        errors_of = admin.delete_groups(["old", "gone", "at work", "older", "old"])
    assert {name: type(error) for name, error in errors_of.items()} == {
        "old": type(None), "gone": errors.GroupIdNotFound, "at work": errors.GroupNotEmpty, "older": type(None)
    }  # fmt: skip
    with pytest.raises(errors.GroupIdNotFound):
        admin.delete_group("old")
    assert admin.delete_groups([]) == {}


def test_a_directory_that_is_offline_says_why(tmp_path: Path) -> None:
    with pylog.open([tmp_path / "a", tmp_path / "b"]) as log:
        log.create_topic("t", partitions=2)
        log.broker.node.directories.fail(list(log.broker.node.directories)[1], errors.StorageError("gone"))
        first, second = log.admin.describe_log_dirs()
    assert first.error is None and str(second.error) == "gone" and second.partitions == {}


def test_a_transaction_that_its_coordinator_knows_does_not_hang(log: pylog.Log) -> None:
    given = ask(log, init_producer_id("tx"))
    assert send(log, "tx", given.producer_id, given.producer_epoch, FIRST) is None
    assert log.admin.find_hanging_transactions() == log.admin.find_hanging_transactions([SECOND]) == []
    (known,) = log.admin.describe_producers([FIRST])[FIRST]
    hanging = HangingTransaction(*FIRST, known.producer_id, -5, 0, 0, 0)
    with pytest.raises(errors.PylogError):
        log.admin.abort_transaction(hanging)
    with pytest.raises(errors.UnknownTopicOrPartition):
        log.admin.describe_producers([TopicPartition("nowhere", 0)])
    with pytest.raises(errors.TransactionalIdNotFound):
        log.admin.describe_transaction("nobody")


@pytest.mark.parametrize(
    "question",
    [
        lambda admin: admin.list_offsets({FIRST: "latest"}),
        lambda admin: admin.describe_producers([FIRST]),
        lambda admin: admin.reset_offsets("g", "latest", partitions=[FIRST]),
    ],
)
def test_an_error_of_a_node_is_the_answer(log: pylog.Log, question: Callable[[Admin], object]) -> None:
    admin, topic = log.admin, log.topic("t")
    assert admin.list_offsets({FIRST: "latest"})[FIRST].offset == 10
    log.broker.apply(pylog.Follow(topic="t", topic_id=topic.id, partition=0, partitions=2, leader=9, leader_epoch=9))
    # The admin takes it for the leader still, and it says that it is not.
    with pytest.raises(errors.NotLeaderOrFollower):
        question(admin)


@pytest.mark.parametrize(
    "call",
    [
        lambda admin: admin.create_topic(3, 1, {}), lambda admin: admin.create_topic("x", "1", {}),
        lambda admin: admin.create_topic("x", 1, ["a"]), lambda admin: admin.alter_config("t", {}, "segment.bytes"),
        lambda admin: admin.delete_records([FIRST]), lambda admin: admin.delete_records({FIRST: "1"}),
    ],
)  # fmt: skip
def test_arguments_of_another_type_are_refused(log: pylog.Log, call: Any) -> None:
    with pytest.raises(TypeError):
        call(log.admin)


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.assign(FIRST), lambda consumer: consumer.assign([("t", "0")]),
        lambda consumer: consumer.pause([("t", "0")]), lambda consumer: consumer.committed(FIRST),
        lambda consumer: consumer.commit([FIRST]), lambda consumer: consumer.end_offsets(["t"]),
    ],
)  # fmt: skip
def test_one_partition_where_several_are_asked_for_is_refused_in_words(log: pylog.Log, call: Any) -> None:
    with log.consumer(group_id="g") as consumer, pytest.raises(TypeError, match=r"in a list|not list"):
        call(consumer)


@pytest.mark.parametrize("mode", ["own", "read"])
def test_the_configs_of_a_topic_say_which_are_its_own(tmp_path: Path, mode: Any) -> None:
    with pylog.open(tmp_path / "log") as log:
        log.create_topic("t", config={"retention.ms": 5000})
    with pylog.open(tmp_path / "log", mode=mode, config={"log.index.interval.bytes": 8192}) as log:
        found = log.admin.describe_topic_config("t")
        assert found["index.interval.bytes"] == ("8192", ConfigSource.STATIC_BROKER_CONFIG)
        assert (found["retention.ms"], found["segment.bytes"]) == (
            ("5000", ConfigSource.DYNAMIC_TOPIC_CONFIG),
            ("1073741824", ConfigSource.DEFAULT_CONFIG),
        )
        with pytest.raises(errors.UnknownTopicOrPartition):
            log.admin.describe_topic_config("gone")


# --- topics -----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["here", "elsewhere"])
def topics(request: pytest.FixtureRequest, log: pylog.Log) -> Iterator[pylog.Log | pylog.ConnectedLog]:
    """The log of `log`, in this process and by a network."""
    if request.param == "here":
        yield log
    else:
        with pylog.connect(log.serve().bootstrap_servers) as connected:
            yield connected


AnyLog = pylog.Log | pylog.ConnectedLog


def test_many_topics_are_made_and_removed_by_one_call(topics: AnyLog) -> None:
    made = topics.admin.create_topics({"a": 3, "t": 1, "b/c": 1, "d": -1}, {"retention.ms": 5})
    assert [type(error) for error in made.values()] == [
        type(None), errors.TopicAlreadyExists, errors.InvalidTopic, type(None),
    ]  # fmt: skip
    assert topics.topics() == ["a", "d", "t"] and len(topics.topic("a")) == 3
    assert topics.admin.describe_topic_config("a")["retention.ms"] == ("5", ConfigSource.DYNAMIC_TOPIC_CONFIG)

    gone = topics.admin.delete_topics(["a", "never", "d", "a"])
    assert list(gone) == ["a", "never", "d"]
    assert [type(error) for error in gone.values()] == [type(None), errors.UnknownTopicOrPartition, type(None)]
    assert topics.topics() == ["t"]


def test_what_is_only_validated_changes_nothing(topics: AnyLog) -> None:
    admin = topics.admin
    admin.create_topic("new", 3, {"retention.ms": 5}, validate_only=True)
    admin.create_partitions("t", 5, validate_only=True)
    admin.alter_config("t", {"retention.ms": 5}, validate_only=True)
    assert topics.topics() == ["t"] and len(topics.topic("t")) == 2
    assert admin.describe_topic_config("t")["retention.ms"] == ("-1", ConfigSource.DEFAULT_CONFIG)

    with pytest.raises(errors.TopicAlreadyExists):
        admin.create_topic("t", validate_only=True)
    with pytest.raises(errors.InvalidPartitions):
        admin.create_partitions("t", 1, validate_only=True)
    with pytest.raises(errors.InvalidConfig):
        admin.alter_config("t", {"retention.ms": "soon"}, validate_only=True)


def test_words_are_added_to_a_list_of_a_config_and_taken_away(topics: AnyLog) -> None:
    def policy() -> set[str]:
        return set(topics.admin.describe_topic_config("t")["cleanup.policy"].value.split(","))

    topics.alter_config("t", append={"cleanup.policy": "compact"})
    assert policy() == {"delete", "compact"}
    topics.alter_config("t", {"retention_ms": 7}, subtract={"cleanup_policy": "delete"})
    assert policy() == {"compact"}
    with pytest.raises(errors.InvalidConfig):
        topics.alter_config("t", append={"retention.ms": "7"})


def test_transactional_ids_are_listed_by_a_pattern(topics: AnyLog) -> None:
    for name in ("billing-1", "billing-2", "search"):
        with topics.producer(transactional_id=name) as producer, producer.transaction():
            producer.send("t", b"x", partition=0)

    def listed(pattern: str) -> list[str]:
        return [one.transactional_id for one in topics.admin.list_transactions(pattern=pattern)]

    assert listed("billing-.*") == ["billing-1", "billing-2"]
    assert listed("billing") == []
    with pytest.raises(errors.InvalidRegularExpression):
        listed("(")


def test_an_error_in_the_answer_to_a_list_is_raised() -> None:
    with StandIn() as server, pylog.connect(server.bootstrap_servers) as log:
        server.fail("ListGroups", errors.ClusterAuthorization, times=None)
        with pytest.raises(errors.ClusterAuthorization):
            log.admin.list_groups()
