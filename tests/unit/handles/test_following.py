"""`Log.follow` and `Log.lead` between two logs of this process, over TCP."""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import pylog
from pylog import Record, errors
from pylog.broker.follower_fetcher import LeaderEndPoint
from pylog.handles.following import FINAL, Following
from pylog.protocol.messages.topics import MetadataResponse, MetadataTopic
from pylog.protocol.metadata_changes import assign_leader
from pylog.replica import Follower
from pylog.runtime.clock import SystemClock
from pylog.server.server import Server
from support.certificates import Authority, authority
from support.clients.values import until
from support.copies import QUICK, caught_up, lag, same, values
from support.described import led
from support.killed import kill
from support.patience import HANG_SECONDS, give_up_early
from support.raw_client import WireClient

__all__ = ["authority"]

T0 = pylog.TopicPartition("t", 0)


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[pylog.Log]:
    with pylog.open(tmp_path / "leader", node_id=1) as log:
        yield log


@pytest.fixture
def server(leader: pylog.Log) -> Server:
    return leader.serve()


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[pylog.Log]:
    with pylog.open(tmp_path / "copy", node_id=2, config=QUICK) as log:
        yield log


def fill(log: pylog.Log, count: int = 50, topic: str = "t", size: int = 10) -> None:
    for i in range(count):
        log.topic(topic)[0].append([Record(b"%d " % i + b"x" * size, b"k%d" % (i % 3))])


# --- what is copied ---------------------------------------------------------------------------------------------------


def test_a_copy_has_the_leaders_files_byte_for_byte(leader: pylog.Log, server: Server, copy: pylog.Log) -> None:
    leader.create_topic("t", config={"segment.bytes": 1 << 20})
    fill(leader, 40, size=100_000)
    copy.follow(server.bootstrap_servers, ["t"])
    fill(leader, 20)
    same(leader, copy)
    assert len(copy.topic("t")[0].segments) > 3


def test_a_copy_has_batches_of_every_kind(leader: pylog.Log, server: Server, copy: pylog.Log) -> None:
    leader.create_topic("t")
    copy.follow(server.bootstrap_servers, ["t"])
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        with leader.producer(compression_type=codec) as producer:
            producer.send("t", b"idempotent" * 20)
    with leader.producer(transactional_id="a") as producer:
        with producer.transaction():
            producer.send("t", b"kept")
        with suppress(ZeroDivisionError), producer.transaction():
            producer.send("t", b"aborted").result(HANG_SECONDS)
            raise ZeroDivisionError
    same(leader, copy)
    view = copy.topic("t")[0]
    committed = [record.value for record in view.records(isolation_level="read_committed")]
    assert committed == [b"idempotent" * 20] * 5 + [b"kept"]


def test_a_copy_takes_over_ids_partitions_and_configs(leader: pylog.Log, server: Server, copy: pylog.Log) -> None:
    made = leader.create_topic("t", 3, {"retention.bytes": 12345})
    copy.follow(server.bootstrap_servers)
    found = copy.topic("t")
    assert (found.id, len(found), found.overrides) == (made.id, 3, {"retention.bytes": "12345"})
    assert copy.broker.cluster_id == leader.broker.cluster_id


def test_a_server_that_was_there_before_tells_the_cluster_id_that_was_taken_over(
    leader: pylog.Log, server: Server, copy: pylog.Log
) -> None:
    with copy.serve() as served, WireClient(served.bootstrap_servers) as client:
        copy.follow(server.bootstrap_servers)
        told = [client.ask(key, {})["clusterId"] for key in ("DescribeCluster", "Metadata")]
        assert told == [leader.broker.cluster_id] * 2


def test_a_cluster_id_that_was_taken_over_stays(tmp_path: Path, leader: pylog.Log, server: Server) -> None:
    leader.create_topic("t")
    for _ in range(2):
        with pylog.open(tmp_path / "copy", node_id=2, config=QUICK) as copy:
            copy.follow(server.bootstrap_servers)
            assert copy.broker.cluster_id == leader.broker.cluster_id


def test_the_segments_of_a_copy_begin_where_the_leaders_node_config_says(tmp_path: Path, copy: pylog.Log) -> None:
    small = {"log.segment.bytes": 1 << 20}
    with pylog.open(tmp_path / "leader", node_id=1, config=small) as leader, leader.serve() as server:
        leader.create_topic("t")
        fill(leader, 40, size=100_000)
        copy.follow(server.bootstrap_servers, ["t"])
        same(leader, copy)
        assert copy.topic("t").overrides == {"segment.bytes": str(1 << 20)}


def test_what_was_read_ahead_of_a_damaged_batch_is_not_taken(
    leader: pylog.Log, server: Server, copy: pylog.Log
) -> None:
    leader.create_topic("t")
    fill(leader, 40, size=100_000)
    path = Path(leader.topic("t")[0].path) / f"{0:020d}.log"
    with path.open("r+b") as file:
        file.seek(5 * path.stat().st_size // 40 + 50_000)
        file.write(b"y")
    following = copy.follow(server.bootstrap_servers)
    for _ in range(3):
        assert isinstance(until(lambda: lag(following).error), errors.CorruptBatch)
        assert copy.topic("t")[0].next_offset == 5


def test_new_topics_partitions_and_configs_come_with_a_refresh(
    leader: pylog.Log, server: Server, copy: pylog.Log
) -> None:
    leader.create_topic("t")
    following = copy.follow(server.bootstrap_servers)
    leader.create_topic("u")
    leader.create_partitions("t", 2)
    leader.alter_config("t", {"retention.bytes": 1000})
    following._configs_ms = 0
    following._refresh()
    fill(leader, topic="u")
    leader.topic("t")[1].append([Record(b"second")])
    same(leader, copy, "u")
    same(leader, copy, "t")
    assert copy.topic("t").overrides == {"retention.bytes": "1000"}
    assert following.topics == ["t", "u"]


def test_topics_that_are_not_named_stay_away(leader: pylog.Log, server: Server, copy: pylog.Log) -> None:
    leader.create_topic("t")
    leader.create_topic("u")
    assert copy.follow(server.bootstrap_servers, ["t"]).topics == copy.topics() == ["t"]


def test_the_logs_of_coordinators_are_copied_too(leader: pylog.Log, server: Server, copy: pylog.Log) -> None:
    leader.create_topic("t")
    fill(leader)
    with leader.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer:
        until(lambda: consumer.poll(100))
        consumer.commit()
        committed = consumer.committed([T0])
    copy.follow(server.bootstrap_servers)
    for name in leader.topics(internal=True):
        caught_up(leader, copy, name)
    for name in copy.topics(internal=True):
        copy.lead(name)
    with copy.consumer("t", group_id="g") as consumer:
        assert consumer.committed([T0]) == committed


def test_a_copy_that_is_behind_the_leaders_start_begins_anew_there(
    tmp_path: Path, leader: pylog.Log, server: Server
) -> None:
    leader.create_topic("t", config={"segment.bytes": 1 << 20, "file.delete.delay.ms": 0})
    fill(leader)
    with pylog.open(tmp_path / "copy", node_id=2, config=QUICK) as copy:
        copy.follow(server.bootstrap_servers)
        same(leader, copy)
    fill(leader, 40, size=100_000)
    leader.delete_records({T0: 80})
    with pylog.open(tmp_path / "copy", node_id=2, config=QUICK) as copy:
        copy.follow(server.bootstrap_servers)
        caught_up(leader, copy)
        assert copy.topic("t")[0].start_offset == 80
        assert values(copy) == values(leader)


def test_a_client_of_a_copy_is_sent_to_the_leader(leader: pylog.Log, server: Server, copy: pylog.Log) -> None:
    leader.create_topic("t")
    copy.follow(server.bootstrap_servers)
    with copy.serve() as served, pylog.connect(served.bootstrap_servers) as client, client.producer() as producer:
        assert producer.send("t", b"x").result(HANG_SECONDS).offset == 0
    same(leader, copy)


# --- what it tells ----------------------------------------------------------------------------------------------------


def test_lag_says_how_far_a_copy_has_come(leader: pylog.Log, server: Server, copy: pylog.Log) -> None:
    leader.create_topic("t")
    fill(leader)
    following = copy.follow(server.bootstrap_servers)
    caught_up(leader, copy)
    found = lag(following)
    assert (found.next_offset, found.high_watermark, found.leader_end, found.lag) == (50, 50, 50, 0)
    assert found.error is None
    assert (found.leader, found.leader_epoch, found.is_in_sync) == (1, 0, False)
    assert repr(following) == f"<Following {server.bootstrap_servers} with 1 partitions>"


def test_the_lag_of_a_copy_that_counts_is_what_appends_wait_for(
    leader: pylog.Log, server: Server, copy: pylog.Log
) -> None:
    """The leader's high watermark waits for the copy, so it says nothing of the lag."""
    leader.create_topic("t")
    leader.lead("t", followers={2})
    following = copy.follow(server.bootstrap_servers)
    fill(leader)
    copy.broker.partition("t", 0).latch(errors.StorageError("the copy's disk is gone"))
    with leader.producer(acks=1) as producer:
        producer.send("t", b"is not copied").result(HANG_SECONDS)
    assert (lag(following).leader_end, lag(following).lag) == (51, 1)
    server.close()
    assert (lag(following).leader_end, lag(following).lag) == (51, 1)


def test_a_leader_that_is_away_is_told_and_followed_when_it_is_back(tmp_path: Path, copy: pylog.Log) -> None:
    leader = pylog.open(tmp_path / "leader", node_id=1)
    server = leader.serve()
    address = server.bootstrap_servers
    leader.create_topic("t")
    fill(leader)
    following = copy.follow(address)
    caught_up(leader, copy)
    leader.close()
    assert isinstance(until(lambda: lag(following).error), errors.NetworkError)
    assert (lag(following).leader_end, lag(following).lag) == (50, 0)
    with pylog.open(tmp_path / "leader") as leader, leader.serve(address):
        fill(leader)
        same(leader, copy)
        until(lambda: lag(following).error is None)


def test_a_leader_that_was_killed_is_followed_in_its_new_epoch(tmp_path: Path, copy: pylog.Log) -> None:
    leader = pylog.open(tmp_path / "leader", node_id=1)
    server = leader.serve()
    address = server.bootstrap_servers
    leader.create_topic("t")
    fill(leader)
    following = copy.follow(address)
    caught_up(leader, copy)
    server.close()
    kill(leader)
    with pylog.open(tmp_path / "leader") as leader, leader.serve(address):
        fill(leader)
        same(leader, copy)
        assert lag(following).leader_epoch == leader.topic("t")[0].leader_epoch == 1


def test_a_leader_killed_between_roll_and_append_has_the_files_of_its_copy(tmp_path: Path, copy: pylog.Log) -> None:
    """A batch that was too large for the segment never came; the one that came in its place fits."""
    leader = pylog.open(tmp_path / "leader", node_id=1)
    leader.create_topic("t")
    fill(leader)
    leader.broker.partition("t", 0).roll(0)
    kill(leader)
    with pylog.open(tmp_path / "leader") as leader, leader.serve() as server:
        copy.follow(server.bootstrap_servers)
        fill(leader)
        same(leader, copy)
        assert len(leader.topic("t")[0].segments) == 1


def test_a_topic_that_is_made_anew_on_the_leader_is_not_mixed_with_the_old_one(
    leader: pylog.Log, server: Server, copy: pylog.Log
) -> None:
    leader.create_topic("t")
    fill(leader)
    following = copy.follow(server.bootstrap_servers)
    caught_up(leader, copy)
    leader.delete_topic("t")
    leader.create_topic("t")
    assert isinstance(until(lambda: isinstance(lag(following).error, FINAL) and lag(following).error), FINAL)
    assert len(values(copy)) == 50


def test_a_leader_that_was_an_older_one_is_followed_when_it_is_the_newest(
    leader: pylog.Log, server: Server, copy: pylog.Log
) -> None:
    leader.create_topic("t")
    following = copy.follow(server.bootstrap_servers)
    copy.broker.partition("t", 0).begin_epoch(7)
    leader.lead("t")
    assert isinstance(until(lambda: lag(following).error), errors.FencedLeaderEpoch)
    until(lambda: lag(following).leader_epoch == -1)
    leader.broker.apply(pylog.Lead(topic="t", partition=0, leader_epoch=8, replicas=(1,)))
    fill(leader)
    same(leader, copy)
    assert lag(following).leader_epoch == 8


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_log_of_the_same_node_id_is_refused(tmp_path: Path, server: Server) -> None:
    with (
        pylog.open(tmp_path / "copy") as copy,
        pytest.raises(errors.DuplicateBrokerRegistration, match="another node_id"),
    ):
        copy.follow(server.bootstrap_servers)


def test_a_log_with_topics_of_another_cluster_is_refused(server: Server, copy: pylog.Log) -> None:
    copy.create_topic("mine")
    with pytest.raises(errors.InconsistentClusterId, match="an empty directory"):
        copy.follow(server.bootstrap_servers)


def test_a_topic_of_another_id_is_refused(tmp_path: Path, leader: pylog.Log, server: Server) -> None:
    leader.create_topic("t")
    with pylog.open(tmp_path / "copy", node_id=2) as copy:
        copy.follow(server.bootstrap_servers)
    leader.delete_topic("t")
    leader.create_topic("t")
    with (
        pylog.open(tmp_path / "copy", node_id=2) as copy,
        pytest.raises(errors.InconsistentTopicId, match="delete one of them"),
    ):
        copy.follow(server.bootstrap_servers)


def test_a_topic_that_the_leader_has_not_is_refused(server: Server, copy: pylog.Log) -> None:
    with pytest.raises(errors.UnknownTopicOrPartition):
        copy.follow(server.bootstrap_servers, ["absent"])
    assert not [thread for thread in threading.enumerate() if thread.name == "pylog-following-2"]


def test_a_name_in_place_of_a_list_is_refused(server: Server, copy: pylog.Log) -> None:
    with pytest.raises(TypeError, match=r"a list of names, \['t'\]"):
        copy.follow(server.bootstrap_servers, "t")


def test_a_topic_is_followed_once_until_that_is_closed(leader: pylog.Log, server: Server, copy: pylog.Log) -> None:
    leader.create_topic("t")
    with copy.follow(server.bootstrap_servers), pytest.raises(ValueError, match="'t' is followed already"):
        copy.follow(server.bootstrap_servers, ["t"])
    copy.follow(server.bootstrap_servers, ["t"])
    fill(leader)
    same(leader, copy)


def test_a_reader_does_not_follow(tmp_path: Path, leader: pylog.Log, server: Server) -> None:
    with pylog.open(tmp_path / "leader", mode="read") as log, pytest.raises(errors.ReadOnly):
        log.follow(server.bootstrap_servers)


def test_a_producer_of_a_copy_is_refused(leader: pylog.Log, server: Server, copy: pylog.Log) -> None:
    leader.create_topic("t")
    copy.follow(server.bootstrap_servers)
    with pytest.raises(errors.NotLeaderOrFollower, match="follows node 1"):
        copy.topic("t")[0].append([Record(b"x")])


def test_a_leader_that_tells_too_little_is_refused(leader: pylog.Log, server: Server, copy: pylog.Log) -> None:
    following = copy.follow(server.bootstrap_servers)
    with pytest.raises(errors.UnsupportedVersion, match="ids of topics"):
        following._follow("old", MetadataTopic(name="old"), led(0, 1), None, {})
    with pytest.raises(errors.UnsupportedVersion, match="id of its cluster"):
        following._check_nodes(MetadataResponse())


def test_a_partition_without_a_leader_waits_for_one(leader: pylog.Log, server: Server, copy: pylog.Log) -> None:
    leader.create_topic("t")
    following = copy.follow(server.bootstrap_servers)
    caught_up(leader, copy)
    following.close()
    error = errors.LeaderNotAvailable("there is none")
    with pytest.raises(errors.LeaderNotAvailable):
        following._follow("t", MetadataTopic(name="t"), led(0, -1), None, {})
    following._note(T0, error)
    following._note(T0, error)
    following._note(pylog.TopicPartition("absent", 0), error)
    role = copy.broker.node.roles.held("t", 0)
    assert isinstance(role, Follower)
    assert role.error is error


def test_a_leader_that_does_not_answer_is_asked_again(tmp_path: Path, copy: pylog.Log) -> None:
    with pylog.open(tmp_path / "leader", node_id=1) as leader, leader.serve() as server:
        following = copy.follow(server.bootstrap_servers)
    give_up_early(following._transport)
    following._work()
    following._work()
    assert following._said
    following.close()
    following._refused(errors.NetworkError("it is late"))
    copy.broker.leave(LeaderEndPoint(9, following._transport))


def test_trouble_is_looked_at_after_the_back_off(tmp_path: Path, copy: pylog.Log) -> None:
    backoff_ms = copy.broker.config.replica_fetch_backoff_ms
    with pylog.open(tmp_path / "leader", node_id=1) as leader, leader.serve() as server:
        following = copy.follow(server.bootstrap_servers)
        # Its own thread does not look meanwhile.
        following._worker.close()
        before_ms = SystemClock().tick_ms()
        following._work()
        assert following._due_ms > before_ms + backoff_ms
    give_up_early(following._transport)
    following._work()
    assert following._said and following._due_ms <= SystemClock().tick_ms() + backoff_ms
    following.close()


def test_a_refusal_in_the_first_look_at_a_leader_leads_to_the_next_one_behind_it(
    leader: pylog.Log, server: Server, copy: pylog.Log
) -> None:
    """The thread looked at once, too: the older answer, gone by last, was taken for an older leader's."""
    dues: list[int | None] = []

    class Refused(Following):
        def _check_nodes(self, found: MetadataResponse) -> None:
            super()._check_nodes(found)
            if not dues:
                self._refused(errors.FencedLeaderEpoch("the leader has begun an epoch"))
            dues.append(self._due())

    leader.create_topic("t")
    with Refused(copy.broker, server.bootstrap_servers, ["t"], {}, SystemClock()):
        until(lambda: len(dues) > 1)
    assert dues[0] is None and dues[1] is not None


def test_a_forked_child_leaves_the_copying_to_its_parent(leader: pylog.Log, server: Server, copy: pylog.Log) -> None:
    leader.create_topic("t")
    copy.follow(server.bootstrap_servers)
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    fill(leader)
    same(leader, copy)


# --- who is counted ---------------------------------------------------------------------------------------------------


def test_acks_all_waits_for_the_followers_that_the_leader_was_told_of(
    leader: pylog.Log, server: Server, copy: pylog.Log
) -> None:
    leader.create_topic("t")
    assert leader.lead("t", followers={2}) == {0: 1}
    with leader.producer(acks="all") as producer:
        future = producer.send("t", b"waits")
        following = copy.follow(server.bootstrap_servers)
        assert future.result(HANG_SECONDS).offset == 0
        assert copy.topic("t")[0].next_offset == 1
    assert lag(following).is_in_sync


def test_a_copy_begins_to_count_when_the_leader_is_told(leader: pylog.Log, server: Server, copy: pylog.Log) -> None:
    leader.create_topic("t")
    fill(leader)
    following = copy.follow(server.bootstrap_servers)
    caught_up(leader, copy)
    leader.lead("t", followers={2})
    until(lambda: lag(following).is_in_sync)
    fill(leader)
    assert copy.topic("t")[0].next_offset == 100


def test_who_counts_is_known_after_the_leader_was_opened_again(tmp_path: Path) -> None:
    with pylog.open(tmp_path / "leader", node_id=1) as leader:
        leader.create_topic("t")
        leader.lead("t", followers={2})
    impatient = {"acks": "all", "request_timeout_ms": 100, "delivery_timeout_ms": 300}
    with pylog.open(tmp_path / "leader") as leader, leader.producer(**impatient) as producer:
        future = producer.send("t", b"no follower has it")
        with pytest.raises(errors.RequestTimedOut):
            future.result(HANG_SECONDS)


@pytest.mark.parametrize("wrong", [{1}, {-1}, {"2"}, {True}])
def test_followers_are_ids_of_other_nodes(leader: pylog.Log, wrong: set[int]) -> None:
    leader.create_topic("t")
    with pytest.raises(ValueError, match="ids of other nodes"):
        leader.lead("t", followers=wrong)


def test_a_topic_that_is_not_there_has_no_leader(leader: pylog.Log) -> None:
    with pytest.raises(errors.UnknownTopicOrPartition):
        leader.lead("absent")


def test_a_follower_that_counts_has_to_be_a_super_user(leader: pylog.Log, copy: pylog.Log) -> None:
    leader.create_topic("t")
    leader.lead("t", followers={2})
    user = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "eve"}
    with leader.serve("SASL_PLAINTEXT://127.0.0.1:0", users={"eve": "secret"}) as server:
        with pytest.raises(errors.SaslAuthentication):
            copy.follow(server.bootstrap_servers, **user, sasl_password="wrong")
        following = copy.follow(server.bootstrap_servers, **user, sasl_password="secret")
        assert isinstance(until(lambda: lag(following).error), errors.TopicAuthorization)


def test_a_copy_follows_by_tls(leader: pylog.Log, copy: pylog.Log, authority: Authority) -> None:
    leader.create_topic("t")
    fill(leader)
    with leader.serve("SSL://127.0.0.1:0", **authority.server) as server:
        copy.follow(server.bootstrap_servers, security_protocol="SSL", ssl_ca_location=authority.cafile)
        same(leader, copy)


# --- promotion by hand ------------------------------------------------------------------------------------------------


def test_a_copy_is_promoted_and_the_old_leader_follows_it(tmp_path: Path, copy: pylog.Log) -> None:
    old = pylog.open(tmp_path / "leader", node_id=1, flush="none", config=QUICK)
    server = old.serve()
    old.create_topic("t")
    fill(old)
    copy.follow(server.bootstrap_servers)
    caught_up(old, copy)
    server.close()
    fill(old, 7)
    kill(old)
    assert copy.lead("t") == {0: 1_002_000}
    fill(copy, 5)
    with pylog.open(tmp_path / "leader", config=QUICK) as old, copy.serve() as new:
        # It does not know yet that it has been replaced.
        fill(old, 3)
        assert old.topic("t")[0].leader_epoch == 1
        old.follow(new.bootstrap_servers)
        same(copy, old)
        assert len(values(old)) == 55


def test_a_promoted_copy_gives_producer_ids_that_the_old_leader_has_not(
    leader: pylog.Log, server: Server, copy: pylog.Log
) -> None:
    leader.create_topic("t")
    copy.follow(server.bootstrap_servers)
    with leader.producer() as producer:
        producer.send("t", b"by the old one").result(HANG_SECONDS)
    caught_up(leader, copy)
    copy.lead("t")
    with copy.producer() as producer:
        producer.send("t", b"by the new one").result(HANG_SECONDS)
    (producers,) = copy.admin.describe_producers([T0]).values()
    assert sorted(one.producer_id for one in producers) == [0, 1_002_000_000_000]


def test_a_copy_that_leads_is_followed_back_by_its_own_leader_never(
    leader: pylog.Log, server: Server, copy: pylog.Log
) -> None:
    leader.create_topic("t")
    following = copy.follow(server.bootstrap_servers)
    copy.lead("t")
    following._refresh()
    fill(copy)
    assert following.topics == []
    with pytest.raises(errors.FencedLeaderEpoch, match="the leader is an older one"):
        copy.follow(server.bootstrap_servers)


def test_a_leader_that_leads_again_takes_the_next_epoch(leader: pylog.Log) -> None:
    leader.create_topic("t", 2)
    assert [leader.lead("t"), leader.lead("t")] == [{0: 1, 1: 1}, {0: 2, 1: 2}]


def test_an_epoch_that_was_taken_by_hand_goes_on_after_a_clean_close(tmp_path: Path) -> None:
    with pylog.open(tmp_path, node_id=1) as log:
        log.create_topic("t")
        log.lead("t", followers={2})
        log.lead("t")
        fill(log)
    with pylog.open(tmp_path) as log:
        fill(log)
        assert log.topic("t")[0].leader_epoch == 2


def test_there_is_no_epoch_behind_the_last_one(leader: pylog.Log) -> None:
    leader.create_topic("t")
    leader.broker.apply(pylog.Lead(topic="t", partition=0, leader_epoch=(1 << 31) - 1, replicas=(1,)))
    with pytest.raises(errors.FencedLeaderEpoch, match="no leader epoch after"):
        leader.lead("t")


# --- two leaders of one epoch -----------------------------------------------------------------------------------------


def test_two_leaders_of_one_epoch_are_told_apart_by_who_took_it(
    tmp_path: Path, leader: pylog.Log, server: Server
) -> None:
    leader.create_topic("t")
    with pylog.open(tmp_path / "copy", node_id=2, config=QUICK) as copy:
        copy.follow(server.bootstrap_servers)
        copy.broker.apply(pylog.Lead(topic="t", partition=0, leader_epoch=5, replicas=(2,)))
        leader.broker.apply(pylog.Lead(topic="t", partition=0, leader_epoch=5, replicas=(1,)))
    with (
        pylog.open(tmp_path / "copy", node_id=2, config=QUICK) as copy,
        pytest.raises(errors.LogDiverged, match="in which node 2 has led, too"),
    ):
        copy.follow(server.bootstrap_servers)


def test_two_leaders_of_one_epoch_are_told_apart_by_their_last_batch(
    tmp_path: Path, leader: pylog.Log, server: Server, copy: pylog.Log
) -> None:
    """The third node has copied from another leader of epoch 5, whose name is lost: its list of topics was."""
    leader.create_topic("t")
    copy.follow(server.bootstrap_servers).close()
    for log in (copy, leader):
        log.broker.apply(pylog.Lead(topic="t", partition=0, leader_epoch=5, replicas=(log.node_id,)))
        log.topic("t")[0].append([Record(b"of node %d" % log.node_id)])
    topic_id = copy.topic("t").id
    image = copy.broker.node.image.topics["t"].partitions[0]
    change = assign_leader(topic_id, 0, image, leader=1, epoch=5, replicas=(1, 2))
    copy.broker.node.topics.metadata_log.commit(change)
    following = copy.follow(server.bootstrap_servers)
    assert isinstance(until(lambda: lag(following).error), errors.LogDiverged)
    assert values(copy) == [b"of node 2"]
    fill(leader)
    assert values(copy) == [b"of node 2"]


# --- the end ----------------------------------------------------------------------------------------------------------


def test_closing_stops_the_copying_and_following_again_goes_on(
    leader: pylog.Log, server: Server, copy: pylog.Log
) -> None:
    leader.create_topic("t")
    fill(leader)
    following = copy.follow(server.bootstrap_servers)
    caught_up(leader, copy)
    following.close()
    following.close()
    fill(leader)
    assert copy.topic("t")[0].next_offset == 50
    copy.follow(server.bootstrap_servers)
    same(leader, copy)


def test_closing_the_log_ends_the_threads(leader: pylog.Log, server: Server, tmp_path: Path) -> None:
    leader.create_topic("t")
    with pylog.open(tmp_path / "copy", node_id=2, config=QUICK) as copy:
        copy.follow(server.bootstrap_servers)
    assert not [thread.name for thread in threading.enumerate() if thread.name.endswith(("fetcher-2-1", "following-2"))]
