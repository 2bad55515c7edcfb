"""Topics altered, extended, trimmed, cleaned and deleted, through the log a user holds."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import OffsetAndMetadata, Record, TopicPartition, errors
from pylog.broker.housekeeping import CleaningState
from pylog.protocol.messages import (
    ConfigChange,
    ConfigResource,
    Fetch,
    FetchPart,
    ResourceChange,
    ResourceType,
    Session,
)
from pylog.protocol.partitioner import partition_for_key
from pylog.testing import SimClock
from support.clients.values import until
from support.killed import kill
from support.log_copies import copy_log

DAY_MS = 24 * 60 * 60 * 1000
SMALL = {"log.segment.bytes": 1 << 20}


def fill(log: pylog.Log, topic: str, count: int, *, size: int = 100, partition: int = 0) -> None:
    for i in range(count):
        log.topic(topic)[partition].append([Record(b"%d:" % i + b"x" * size, key=b"k%d" % (i % 7))])


def values(log: pylog.Log, topic: str, partition: int = 0) -> list[bytes]:
    return [record.value or b"" for record in log.topic(topic)[partition].records()]


def roll(log: pylog.Log, topic: str, partition: int = 0) -> None:
    log.broker.partition(topic, partition).roll(log.broker.node.topics._clock.wall_ms())


# --- configs ----------------------------------------------------------------------------------------------------------


def test_a_config_is_set_and_taken_back_and_open_partitions_go_by_it() -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t", config={"max.message.bytes": 10_000})
        fill(log, "t", 1)
        log.alter_config("t", {"max_message_bytes": 200, "retention.ms": 5})
        assert log.topic("t").overrides == {"max.message.bytes": "200", "retention.ms": "5"}
        with pytest.raises(errors.RecordTooLarge):
            fill(log, "t", 1, size=300)
        log.alter_config("t", delete=["max.message.bytes"])
        assert log.topic("t").overrides == {"retention.ms": "5"}
        fill(log, "t", 1, size=300)
        with pytest.raises(errors.InvalidConfig, match=r"did you mean retention\.ms"):
            log.alter_config("t", {"retention.mss": 1, "segment.ms": 7})
        with pytest.raises(errors.UnknownTopicOrPartition):
            log.alter_config("nobody", {"retention.ms": 1})
        assert log.topic("t").overrides == {"retention.ms": "5"}


def alter(log: pylog.Log, *changes: ConfigChange) -> errors.PylogError | None:
    change = ResourceChange(ConfigResource(ResourceType.TOPIC, "t"), list(changes))
    (error,) = log.broker.node.cluster_changes.alter_configs([change])
    return error


def test_lists_grow_and_shrink_and_nothing_else_does() -> None:
    with pylog.open(":memory:", config={"log.cleanup.policy": "compact"}) as log:
        log.create_topic("t")
        assert alter(log, ConfigChange("cleanup.policy", "delete", "append")) is None
        assert log.topic("t").config.cleanup_policy == {"compact", "delete"}
        assert alter(log, ConfigChange("cleanup.policy", "compact", "subtract")) is None
        assert log.topic("t").config.cleanup_policy == {"delete"}
        for change, reason in (
            (ConfigChange("segment.bytes", "5", "subtract"), "not a list"),
            (ConfigChange("retention.ms"), "value is missing"),
            (ConfigChange("retention.ms", "1", "double"), "is not set, delete"),
        ):
            error = alter(log, ConfigChange("segment.ms", "5"), change)
            assert isinstance(error, errors.InvalidConfig | errors.InvalidRequest) and reason in str(error)
        assert log.topic("t").overrides == {"cleanup.policy": "delete"}


def test_a_missing_override_may_be_deleted() -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        assert alter(log, ConfigChange("retention.mss", operation="delete")) is None
        log.alter_config("t", {"cleanup.policy": "compact,compact"}, delete=["segment.ms"])
        assert log.topic("t").overrides == {"cleanup.policy": "compact"}


def test_a_topic_without_a_number_of_partitions_gets_that_of_the_node() -> None:
    with pylog.open(":memory:") as log:
        assert len(log.create_topic("t", partitions=-1)) == 1
    with pylog.open(":memory:", config={"num.partitions": 3}) as log:
        assert len(log.create_topic("t", partitions=-1)) == 3
        assert len(log.create_topic("u")) == 1


def test_altered_configs_survive_a_reopen(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t")
        log.alter_config("t", {"cleanup.policy": "compact,delete"})
    with pylog.open(tmp_path) as log:
        assert log.topic("t").config.cleanup_policy == {"compact", "delete"}


def test_one_name_is_no_list_of_names() -> None:
    """Taken letter by letter it would delete groups that nobody has named."""
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        for group in ("a", "b"):
            log.admin.alter_offsets(group, {TopicPartition("t", 0): 0})
        for call in (
            lambda: log.admin.delete_groups("ab"),
            lambda: log.admin.list_groups(states="Empty"),
            lambda: log.admin.list_groups(types="Classic"),
            lambda: log.admin.list_transactions(states="Ongoing"),
        ):
            with pytest.raises(TypeError, match="list of names, not a str"):
                call()
        assert [group.group_id for group in log.admin.list_groups()] == ["a", "b"]


# --- offsets of groups ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "kind", "reason"),
    [
        (-1, ValueError, "t-0: offset -1 is negative"),
        (True, TypeError, "t-0: the offset is bool, not int"),
        ("3", TypeError, "t-0: the offset is str, not int"),
        (OffsetAndMetadata(3, None), TypeError, "t-0: the metadata is NoneType, not str"),  # type: ignore[arg-type]
        (OffsetAndMetadata(3, "", None), TypeError, "t-0: the leader epoch is NoneType, not int"),  # type: ignore[arg-type]
    ],
)
def test_a_position_that_is_none_changes_nothing(bad: Any, kind: type[Exception], reason: str) -> None:
    key = TopicPartition("t", 0)
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        log.admin.alter_offsets("g", {key: 5})
        with log.consumer(group_id="g") as consumer, log.producer(transactional_id="x") as producer:
            producer.begin()
            for call in (
                lambda: log.admin.alter_offsets("g", {key: bad}),
                lambda: consumer.commit({key: bad}),
                lambda: producer.send_offsets({key: bad}, "g"),
            ):
                with pytest.raises(kind, match=reason):
                    call()
            producer.send_offsets({("t", 0): 6}, "h")  # type: ignore[dict-item]
            producer.commit()
        assert log.admin.committed("g")[key].offset == 5
        assert log.admin.committed("h")[key].offset == 6


def test_a_group_is_sent_to_a_place_that_there_is() -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        log.admin.alter_offsets("g", {TopicPartition("t", 0): 0})
        bad: list[dict[str, Any]] = [{}, {"to": "first"}, {"to": "latest", "offset": 1}, {"time_ms": -1}]
        for way in bad:
            with pytest.raises(ValueError):
                log.admin.reset_offsets("g", **way)
        for name in ("offset", "time_ms", "shift"):
            with pytest.raises(TypeError, match=f"{name} is str, not int"):
                log.admin.reset_offsets("g", **{name: "3"})  # type: ignore[arg-type]


# --- partitions -------------------------------------------------------------------------------------------------------


def test_partitions_are_added_and_used_at_once(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t", partitions=2)
        with log.producer() as producer, log.consumer("t", auto_offset_reset="earliest") as consumer:
            producer.send("t", b"one", partition=1).result()
            assert len(consumer.poll(timeout_ms=60_000)) == 1
            log.create_partitions("t", 4)
            with pytest.raises(errors.InvalidPartitions, match="has 4 partitions"):
                log.create_partitions("t", 4)
        assert len(log.topic("t")) == 4
        log.topic("t")[3].append([Record(b"x")])
    with pylog.open(tmp_path) as log:
        assert values(log, "t", 3) == [b"x"] and values(log, "t", 1) == [b"one"]


def test_a_directory_with_some_partitions_of_a_topic_is_adopted_as_it_is(tmp_path: Path) -> None:
    with pylog.open(tmp_path / "one") as log:
        log.create_topic("x", partitions=3)
        log.topic("x")[2].append([Record(b"here")])
    (tmp_path / "two").mkdir()
    (tmp_path / "one" / "x-2").rename(tmp_path / "two" / "x-2")
    with pylog.open(tmp_path / "two") as log:
        topic = log.topic("x")
        assert [view.partition for view in topic] == [2] and len(topic) == 1
        assert values(log, "x", 2) == [b"here"]
        with log.consumer("x", auto_offset_reset="earliest") as consumer:
            assert [record.value for record in consumer.poll(timeout_ms=60_000)] == [b"here"]
        with pytest.raises(IndexError):
            topic[0]
    assert sorted(p.name for p in (tmp_path / "two").glob("x-*")) == ["x-2"]


# --- deleting records and topics --------------------------------------------------------------------------------------


def test_deleted_records_stay_deleted_after_a_crash(tmp_path: Path) -> None:
    key = TopicPartition("t", 0)
    log = pylog.open(tmp_path)
    log.create_topic("t")
    log.topic("t")[0].append([Record(b"%d" % i) for i in range(10)])
    assert log.delete_records({("t", 0): 2}) == {key: 2}  # type: ignore[dict-item]
    assert log.delete_records({key: 4}) == {key: 4}
    with pytest.raises(errors.OffsetOutOfRange, match="high watermark, 10"):
        log.delete_records({key: 11})
    assert values(log, "t") == [b"%d" % i for i in range(4, 10)]
    kill(log)
    with pylog.open(tmp_path) as log:
        assert values(log, "t") == [b"%d" % i for i in range(4, 10)]
        assert log.delete_records({key: -1}) == {key: 10}
        assert values(log, "t") == []


def test_records_of_a_compacted_topic_are_not_deleted() -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t", config={"cleanup.policy": "compact"})
        fill(log, "t", 3)
        with pytest.raises(errors.PolicyViolation):
            log.delete_records({TopicPartition("t", 0): 1})


def test_a_deleted_topic_is_hidden_at_once_and_removed_later(tmp_path: Path) -> None:
    clock = SimClock(1_000_000)
    with pylog.open(tmp_path, clock=clock) as log:
        log.create_topic("t", config={"file.delete.delay.ms": 60_000})
        fill(log, "t", 3)
        held = log.broker.partition("t", 0)
        log.delete_topic("t")
        with pytest.raises(errors.UnknownTopicOrPartition):
            log.topic("t")
        with pytest.raises(errors.NotLeaderOrFollower, match="moved or deleted"):
            held.roll(0)
        assert [p.name.endswith("-delete") for p in tmp_path.glob("t-0*")] == [True]
        log.create_topic("t")
        fill(log, "t", 1)
        assert len(values(log, "t")) == 1
        clock.advance(60_000)
        log.broker.node.topics.purge(clock.wall_ms())
        assert [p.name for p in tmp_path.glob("t-0*")] == ["t-0"]


def test_a_topic_made_again_is_read_and_written_from_its_own_beginning() -> None:
    with (
        pylog.open(":memory:") as log,
        log.producer() as producer,
        log.consumer(auto_offset_reset="earliest") as reader,
    ):
        log.create_topic("t")
        reader.subscribe(["t"])
        for number in range(5):
            producer.send("t", b"old %d" % number).result()
        assert len(reader.poll()) == 5
        log.delete_topic("t")
        log.create_topic("t", partitions=3)
        # The producer chose this partition when there was no other, and sent it to a topic that is gone.
        assert producer.send("t", b"first").result().offset == 0
        assert producer.send("t", b"second", partition=2).result().partition == 2
        key = next(b"%d" % n for n in range(100) if partition_for_key(b"%d" % n, 3) == 1)
        assert producer.send("t", b"third", key=key).result().partition == 1
        found = [record.value for _ in range(3) for record in reader.poll()]
        assert sorted(found) == [b"first", b"second", b"third"]
        assert reader.assignment() == {TopicPartition("t", number) for number in range(3)}


def test_a_partition_that_was_added_since_can_be_named() -> None:
    with pylog.open(":memory:") as log, log.producer() as producer:
        log.create_topic("t")
        producer.send("t", b"x").result()
        log.create_partitions("t", 2)
        assert producer.send("t", b"x", partition=1).result().partition == 1
        with pytest.raises(errors.UnknownTopicOrPartition, match="it has 2"):
            producer.send("t", b"x", partition=2)


def test_a_waiting_consumer_hears_at_once_of_a_deleted_topic() -> None:
    with pylog.open(":memory:", clock=SimClock()) as log:
        topic = log.create_topic("t")
        fetch = Fetch([FetchPart("t", 0, 0, topic_id=topic.id)], max_wait_ms=60_000)
        answer = log.broker.handle(fetch, Session())
        assert not answer.done()
        log.delete_topic("t")
        assert isinstance(answer.result(0).parts[0].error, errors.UnknownTopicOrPartition)
        log.create_topic("t")
        answer = log.broker.handle(fetch, Session())
        assert isinstance(answer.result(0).parts[0].error, errors.UnknownTopicId)


def test_where_nothing_is_to_be_cleaned_nothing_is_written(tmp_path: Path) -> None:
    """What cleaning came to lies in one file for all: written for each of n partitions it would cost n * n."""
    with pylog.open(tmp_path) as log:
        log.create_topic("t", 3, config={"cleanup.policy": "compact"})
        assert log.clean() == {}
        assert not (tmp_path / ".pylog-cleanings").exists()
        assert [view.cleaning for view in log.topic("t")] == [None] * 3


def test_results_of_cleaning_are_dropped_with_the_topic(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t", config={"cleanup.policy": "compact"})
        fill(log, "t", 10)
        roll(log, "t")
        log.clean()
        assert log.topic("t")[0].cleaning is not None
        log.delete_topic("t")
        log.create_topic("t", config={"cleanup.policy": "compact"})
        fill(log, "t", 1)
        assert log.topic("t")[0].cleaning is None
        with pylog.open(tmp_path, mode="read") as other:
            assert other.topic("t")[0].cleaning is None


def test_a_topic_deleted_while_it_is_cleaned_leaves_nothing_behind(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t", config={"cleanup.policy": "compact"})
        fill(log, "t", 10)
        roll(log, "t")
        housekeeping = log.broker.housekeeping
        note = housekeeping._note

        def delete_first(key: TopicPartition, state: CleaningState) -> None:
            housekeeping._note = note  # type: ignore[method-assign]
            log.delete_topic("t")
            log.create_topic("t", config={"cleanup.policy": "compact"})

        housekeeping._note = delete_first  # type: ignore[method-assign]
        assert log.clean() == {}
        assert housekeeping.cleanings == {}
        fill(log, "t", 10)
        roll(log, "t")
        assert len(log.clean()) == 1


# --- syncs and waiting ------------------------------------------------------------------------------------------------


def test_flush_ms_syncs_in_the_background_whatever_the_flush_mode(tmp_path: Path) -> None:
    clock = SimClock(1_000_000)
    with pylog.open(tmp_path, flush="none", clock=clock) as log:
        log.create_topic("t", config={"flush.ms": 5000})
        log.create_topic("lazy")
        fill(log, "t", 2)
        fill(log, "lazy", 2)
        broker = log.broker
        assert broker._due() == clock.tick_ms() + 5000
        clock.advance(4999)
        broker.work()
        assert log.topic("t")[0].durable_offset == 0
        clock.advance(1)
        broker.work()
        assert (log.topic("t")[0].durable_offset, log.topic("lazy")[0].durable_offset) == (2, 0)
        assert broker._due() is None


def test_a_close_does_not_wait_for_a_follower_that_never_comes() -> None:
    with pylog.open(":memory:", config={"replica.fetch.backoff.ms": 1}) as log:
        log.create_topic("t")
        log.broker.apply(pylog.Lead(topic="t", partition=0, leader_epoch=5, replicas=(1, 2)))
        # Longer than a test may take.
        producer = log.producer(acks="all", request_timeout_ms=600_000, delivery_timeout_ms=700_000)
        future = producer.send("t", b"x", on_delivery=lambda *_: None)
    assert isinstance(future.exception(), errors.RequestTimedOut)


# --- retention --------------------------------------------------------------------------------------------------------


def test_old_segments_go_and_their_files_later(tmp_path: Path) -> None:
    clock = SimClock(10 * DAY_MS)
    # Housekeeping itself leaves all to the calls below.
    with pylog.open(tmp_path, clock=clock, config={"log.retention.check.interval.ms": 100 * DAY_MS}) as log:
        log.create_topic("t", config={"retention.ms": 2 * DAY_MS + 600_000, "file.delete.delay.ms": 60_000})
        for day in range(5):
            fill(log, "t", 2)
            if day < 4:
                roll(log, "t")
                clock.advance(DAY_MS)
        key = TopicPartition("t", 0)
        assert log.apply_retention() == {key: 2}
        assert log.topic("t")[0].start_offset == 4 and len(values(log, "t")) == 6
        folder = tmp_path / "t-0"
        assert len(list(folder.glob("*.log.deleted"))) == 2
        clock.advance(60_000)
        log.broker.node.topics.purge(clock.wall_ms())
        until(lambda: not list(folder.glob("*.deleted")))
        assert log.apply_retention() == {}
        log.alter_config("t", {"retention.ms": -1, "retention.bytes": log.topic("t")[0].segments[-1].size})
        assert log.apply_retention() == {key: 2}
    with pylog.open(tmp_path, clock=clock) as log:
        assert log.topic("t")[0].start_offset == 8


def test_retention_in_the_background(tmp_path: Path) -> None:
    clock = SimClock(10 * DAY_MS)
    config = {"log.retention.check.interval.ms": 1000}
    with pylog.open(tmp_path, clock=clock, config=config) as log:
        log.create_topic("t", config={"retention.ms": DAY_MS})
        fill(log, "t", 2)
        roll(log, "t")
        clock.advance(2 * DAY_MS)
        log.broker.housekeeping._work()
        # The thread of its own may have begun with it before.
        until(lambda: log.topic("t")[0].start_offset == 2)


# --- compaction -------------------------------------------------------------------------------------------------------


def test_a_compacted_topic_keeps_the_newest_of_each_key(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t", config={"cleanup.policy": "compact"})
        log.create_topic("other")
        fill(log, "t", 50)
        roll(log, "t")
        fill(log, "t", 1)
        done = log.clean()
        (cleaned,) = done.values()
        assert cleaned.end_offset == 51 and cleaned.records_kept == 7, "the active segment was rolled first"
        assert len(values(log, "t")) == 7
        state = log.broker.housekeeping.cleanings[TopicPartition("t", 0)]
        assert state.last == cleaned and state.progress is None and state.error is None
        assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 51\n"
        assert log.clean("t") == {}
    with pylog.open(tmp_path) as log:
        assert len(values(log, "t")) == 7 and log.topic("t")[0].next_offset == 51


def test_the_cleaner_cleans_dirty_logs_and_leaves_damaged_ones(tmp_path: Path) -> None:
    with pylog.open(tmp_path, config={"log.cleaner.enable": False}) as log:
        for name, ratio in (("clean", 0.9), ("dirty", 0.1), ("bad", 0.0)):
            log.create_topic(name, config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": ratio})
            fill(log, name, 10)
            roll(log, name)
        log.clean("clean")
        fill(log, "clean", 1)
        roll(log, "clean")
        path = Path(log.topic("bad")[0].segments[0].path)
        data = bytearray(path.read_bytes())
        data[70] ^= 1
        path.write_bytes(data)
        for _ in range(3):
            log.broker.housekeeping._clean_once()
        states = log.broker.housekeeping.cleanings
        assert states[TopicPartition("dirty", 0)].last is not None
        assert "CRC" in (states[TopicPartition("bad", 0)].error or "")
        assert states[TopicPartition("clean", 0)].last is not None
        assert log.broker.housekeeping._dirtiest(log.broker.node.kept()) is None


# --- several directories ----------------------------------------------------------------------------------------------


def where(log: pylog.Log, topic: str) -> list[str]:
    return [Path(view.path).parent.name for view in log.topic(topic)]


def test_partitions_are_spread_and_found_again(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with pylog.open(paths) as log:
        log.create_topic("t", partitions=4)
        log.create_topic("u", partitions=1)
        for number in range(4):
            log.topic("t")[number].append([Record(b"%d" % number)])
        assert where(log, "t") == ["a", "b", "a", "b"] and where(log, "u") == ["a"]
    ids = {(path / "meta.properties").read_text() for path in paths}
    assert len(ids) == 2
    with pytest.raises(errors.LogNotFound, match="first directory"):
        pylog.open(list(reversed(paths)))
    shutil.rmtree(paths[0] / "__cluster_metadata-0")
    with pylog.open(paths) as log:
        # Without a metadata log the folders of all are adopted.
        assert [values(log, "t", number) for number in range(4)] == [[b"%d" % number] for number in range(4)]


def test_a_second_owner_of_any_of_them_is_refused(tmp_path: Path) -> None:
    with pylog.open([tmp_path / "a", tmp_path / "b"]):
        copy_log(tmp_path / "a", tmp_path / "c")
        with pytest.raises(errors.DirectoryLocked):
            pylog.open([tmp_path / "c", tmp_path / "b"], wait=0)
        pylog.open(tmp_path / "c").close()


def test_a_partition_moves_while_it_is_in_use(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with pylog.open(paths) as log:
        log.create_topic("t", config={"file.delete.delay.ms": 0})
        fill(log, "t", 20)
        roll(log, "t")
        fill(log, "t", 5)
        before = values(log, "t")
        with log.consumer("t", auto_offset_reset="earliest") as consumer, log.producer() as producer:
            assert len(consumer.poll(max_records=10)) == 10
            log.move_partition("t", 0, paths[1])
            assert where(log, "t") == ["b"] and values(log, "t") == before
            producer.send("t", b"after", partition=0).result()
            rest: list[bytes | None] = []
            while len(rest) < 16:
                rest += [record.value for record in consumer.poll(timeout_ms=1000)]
            assert rest == [*before[10:], b"after"]
        log.broker.node.topics.purge(2**60)
        with pytest.raises(errors.LogDirNotFound, match="not a directory of this log"):
            log.move_partition("t", 0, tmp_path / "c")
        log.topic("t")[0].check()
    # Housekeeping may have been at it before `purge` was.
    assert not list(paths[0].glob("t-0*"))
    with pylog.open(paths) as log:
        assert where(log, "t") == ["b"] and values(log, "t") == [*before, b"after"]


def test_a_directory_that_cannot_be_opened_takes_only_its_partitions(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with pylog.open(paths) as log:
        log.create_topic("t", partitions=2)
        for number in range(2):
            log.topic("t")[number].append([Record(b"%d" % number)])
    identity = (paths[1] / "meta.properties").read_text()
    (paths[1] / "meta.properties").write_text(identity.replace("\ndirectory.id=", "\ndirectory.id=?"))
    with pylog.open(paths) as log:
        assert values(log, "t", 0) == [b"0"]
        log.topic("t")[0].append([Record(b"more")])
        with pytest.raises(errors.KafkaStorage, match="log directory that is online"):
            log.topic("t")[1].append([Record(b"x")])
    (paths[1] / "meta.properties").write_text(identity)
    with pylog.open(paths) as log:
        assert values(log, "t", 1) == [b"1"] and values(log, "t", 0) == [b"0", b"more"]
