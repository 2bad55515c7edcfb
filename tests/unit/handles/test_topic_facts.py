"""The facts of a topic, from files and from a server."""

import pytest

import pylog
from pylog.errors import UnknownTopicOrPartition
from pylog.handles.topic_facts import TopicSize, ends_of, facts_of, readers_of, readers_of_topic, sizes_of
from support.clients.values import until


def test_a_server_tells_the_same_of_a_topic_as_the_files_or_less() -> None:
    with pylog.serve(":memory:") as server, pylog.connect(server.bootstrap_servers) as connected:
        log = server.owned
        assert isinstance(log, pylog.Log)
        log.create_topic("t", partitions=2, config={"retention.ms": 1000})
        log.topic("t")[1].append([pylog.Record(b"x")])
        here, there = facts_of(log, "t"), facts_of(connected, "t")

        assert (there.name, there.id, there.overrides) == (here.name, here.id, here.overrides) == (
            "t", here.id, {"retention.ms": "1000"},
        )  # fmt: skip
        assert there.configs.items() >= here.configs.items()
        for one, other in zip(here.partitions, there.partitions, strict=True):
            assert (one.start, one.end, one.high_watermark, one.size) == (
                other.start, other.end, other.high_watermark, other.size,
            )  # fmt: skip
            assert one.segments is not None and other.segments is other.durable is other.cleaning is None
        assert [one.end for one in here.partitions] == [0, 1]
        size = log.topic("t")[1].size
        assert sizes_of(connected, ["t"]) == sizes_of(log, ["t"]) == [TopicSize("t", 2, 1, size, 1)]
        with pytest.raises(UnknownTopicOrPartition):
            facts_of(connected, "none")


def test_a_topic_that_is_deleted_meanwhile_is_left_out() -> None:
    with pylog.serve(":memory:") as server, pylog.connect(server.bootstrap_servers) as connected:
        for name in ("stays", "goes", "stays-too"):
            connected.create_topic(name, partitions=2)
        names = connected.topics()
        server.owned.delete_topic("goes")
        # What a client knows of topics may be older than that.
        assert [one.name for one in sizes_of(connected, names)] == ["stays", "stays-too"]
        assert [one.name for one in sizes_of(server.owned, names)] == ["stays", "stays-too"]
        assert len(ends_of(connected, names)) == 4


def test_a_member_that_has_committed_nothing_has_no_lag() -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        log.topic("t")[0].append([pylog.Record(b"a")])
        with log.consumer("t", group_id="g", auto_offset_reset="latest") as consumer:
            consumer.poll(timeout_ms=0)
            while not consumer.assignment():
                consumer.poll(timeout_ms=10)
            (reader,) = readers_of(log)["t"]
            consumer.commit({pylog.TopicPartition("t", 0): 0})
            (after,) = readers_of(log)["t"]
    assert (reader.group, reader.members, reader.lag) == ("g", 1, None)
    assert (after.group, after.members, after.lag) == ("g", 1, 1)


def test_a_share_group_reads_a_topic_with_all_of_its_members() -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        log.topic("t")[0].append([pylog.Record(b"a")])
        log.admin.alter_share_offsets("g", {pylog.TopicPartition("t", 0): 0})
        with log.share_consumer("t", group_id="g") as one, log.share_consumer("t", group_id="g") as other:
            assert one.poll(60_000)
            until(lambda: other.poll(10) == [] and readers_of(log)["t"][0].members == 2)
            (reader,) = readers_of(log)["t"]
            (same,) = readers_of_topic(log, "t", {0: 1}, ["g"])
    assert reader == same and (reader.group, reader.state, reader.members, reader.lag) == ("g", "Stable", 2, 1)
