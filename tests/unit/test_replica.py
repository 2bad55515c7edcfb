"""The two roles over a partition, driven by hand: what is fetched, acknowledged, cut and refused."""

from uuid import UUID

import pytest

from pylog.config import TopicConfig
from pylog.errors import (
    CorruptBatch,
    DurabilityUnknown,
    FencedLeaderEpoch,
    LogDiverged,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from pylog.files import MemoryFiles, join
from pylog.kernel import Record
from pylog.partition import Checkpoint, Partition
from pylog.protocol.batch import encode, split
from pylog.protocol.messages import (
    CONSUMER,
    EARLIEST,
    LATEST,
    FetchedPart,
    FetchPart,
)
from pylog.protocol.messages.records import ListOffsetsPartition, OffsetForLeaderPartition
from pylog.replica import Follower, Leader, bounds_part, list_offset

NOW = 1_700_000_000_000
CONFIG = TopicConfig.loaded({"segment.bytes": "1000", "segment.ms": "10000", "index.interval.bytes": "200"})
LEADER, FOLLOWER = 1, 2


def make(files: MemoryFiles | None = None, config: TopicConfig = CONFIG) -> Partition:
    partition = Partition(files or MemoryFiles(), "log/t-0", "t", 0, config)
    partition.create(UUID(int=7), NOW)
    return partition


def lead(partition: Partition, epoch: int, *, durable: bool = False) -> Leader:
    partition.begin_epoch(epoch)
    return Leader(partition, epoch=epoch, followers=frozenset({FOLLOWER}), visible_when_durable=durable, now_ms=0)


def write(leader: Leader, *values: str, timestamp: int = NOW) -> None:
    for value in values:
        leader.append(encode([Record(value.encode(), timestamp=timestamp)], now_ms=NOW), NOW)


def fetch(leader: Leader, follower: Follower, max_bytes: int = 1 << 20) -> bool:
    """One fetch and its answer, as the node and the fetcher pass them on."""
    part = follower.next_fetch(max_bytes)
    try:
        answer = leader.fetch(part, replica_id=FOLLOWER, max_bytes=1 << 20, now_ms=0)
    except OffsetOutOfRange as error:
        answer = bounds_part(leader.partition, part)
        answer.error = error
    return follower.apply(answer, NOW)


def catch_up(leader: Leader, follower: Follower, max_bytes: int = 1 << 20) -> int:
    rounds = 1
    while fetch(leader, follower, max_bytes):
        rounds += 1
        assert rounds < 1000, "the follower makes no progress"
    return rounds


def values(partition: Partition) -> list[str]:
    found, offset = [], partition.start_offset
    while offset < partition.next_offset:
        piece = partition.read(offset, 1 << 20, upto=partition.next_offset)
        assert piece is not None
        for batch in split(piece.data, check_crc=True):
            found += [
                str(record.value, "utf-8") for record in batch.records("t", 0, offset) if record.value is not None
            ]
            offset = batch.next_offset
    return found


def segment_files(partition: Partition) -> dict[int, bytes]:
    return {segment.base_offset: partition.files.read_file(segment.path) for segment, _ in partition.segments}


def assert_same(leader: Leader, follower: Follower) -> None:
    assert segment_files(follower.partition) == segment_files(leader.partition)
    assert follower.partition.epochs.entries == leader.partition.epochs.entries
    follower.partition.check()


# --- what is committed ------------------------------------------------------------------------------------------------


def test_the_high_watermark_is_the_lowest_end_of_the_replicas() -> None:
    leader, follower = lead(make(), 0), Follower(make(), leader=LEADER, epoch=0)
    write(leader, "a", "b")
    leader.advance()
    assert leader.partition.high_watermark == 0, "nobody has fetched yet"
    fetch(leader, follower)
    assert (leader.partition.high_watermark, follower.partition.next_offset) == (0, 2)
    fetch(leader, follower)
    assert leader.partition.high_watermark == 2, "the second fetch is the acknowledgement"
    assert follower.partition.high_watermark == 2


def test_the_leaders_own_copy_counts_when_it_is_durable() -> None:
    leader, follower = lead(make(), 0, durable=True), Follower(make(), leader=LEADER, epoch=0)
    write(leader, "a")
    catch_up(leader, follower)
    assert leader.partition.high_watermark == 0
    leader.partition.sync()
    leader.advance()
    assert leader.partition.high_watermark == 1


def test_a_follower_that_lost_its_tail_does_not_move_the_high_watermark_back() -> None:
    leader, follower = lead(make(), 0), Follower(make(), leader=LEADER, epoch=0)
    write(leader, "a", "b", "c")
    catch_up(leader, follower)
    follower.partition.truncate(1, NOW)
    fetch(leader, follower)
    assert leader.partition.high_watermark == 3
    write(leader, "d")
    leader.advance()
    assert leader.partition.high_watermark == 3
    catch_up(leader, follower)
    assert leader.partition.high_watermark == 4
    assert_same(leader, follower)


def test_a_follower_acknowledges_nothing_before_its_log_was_compared() -> None:
    """Both have led in epoch 0, and the leader has more: what it has there is not what the follower says it has."""
    leader, follower = lead(make(), 0), Follower(lead(make(), 0).partition, leader=LEADER, epoch=0)
    write(Leader(follower.partition, epoch=0, followers=frozenset(), visible_when_durable=False, now_ms=0), "x", "y")
    write(leader, "a", "b", "c")
    with pytest.raises(LogDiverged):
        fetch(leader, follower)
    leader.advance()
    assert leader.partition.high_watermark == 0


def test_an_impossible_offset_is_no_acknowledgement() -> None:
    leader = lead(make(), 0)
    write(leader, "a")
    with pytest.raises(OffsetOutOfRange):
        leader.fetch(FetchPart("t", 0, 50), replica_id=FOLLOWER, max_bytes=100, now_ms=0)
    write(leader, "b")
    leader.advance()
    assert leader.partition.high_watermark == 0


def test_a_fetcher_that_is_no_replica_may_read_but_does_not_count() -> None:
    leader = lead(make(), 0)
    write(leader, "a")
    leader.fetch(FetchPart("t", 0, 1), replica_id=77, max_bytes=100, now_ms=0)
    assert not leader.advance() and leader.partition.high_watermark == 0


def test_consumers_see_up_to_the_high_watermark_and_followers_to_the_end() -> None:
    leader, follower = lead(make(), 0), Follower(make(), leader=LEADER, epoch=0)
    write(leader, "a")
    catch_up(leader, follower)
    write(leader, "b")
    seen = leader.fetch(FetchPart("t", 0, 0), replica_id=-1, max_bytes=1 << 20, now_ms=0)
    assert [batch.next_offset for batch in split(seen.data)] == [1]
    copied = leader.fetch(FetchPart("t", 0, 0), replica_id=FOLLOWER, max_bytes=1 << 20, now_ms=0)
    assert [batch.next_offset for batch in split(copied.data)] == [1, 2]


# --- the same bytes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_bytes", [1, 300, 1 << 20])
def test_segments_roll_at_the_same_batches_by_size_and_by_time(max_bytes: int) -> None:
    leader, follower = lead(make(), 0), Follower(make(), leader=LEADER, epoch=0)
    for i in range(80):
        write(leader, f"{i} " + "x" * (i * 37 % 300), timestamp=NOW + i * 3000 if i > 40 else NOW)
        if i % 7 == 0:
            catch_up(leader, follower, max_bytes)
    catch_up(leader, follower, max_bytes)
    assert len(leader.partition.segments) > 20
    assert_same(leader, follower)


@pytest.mark.parametrize("step", [2, 9, 200])
@pytest.mark.parametrize("limit", [{"segment.index.bytes": "48"}, {"segment.bytes": "1000"}, {"segment.ms": "9000"}])
def test_batches_in_one_fetch_are_appended_as_if_one_by_one(limit: dict[str, str], step: int) -> None:
    """Segments and indexes: a full index rolls, too, in the middle of what one answer has brought."""
    config = TopicConfig.loaded({"index.interval.bytes": "100", **limit})
    batches = [
        encode(
            [Record(b"x" * (i * 37 % 300), timestamp=NOW + i * 1000)], now_ms=NOW, base_offset=i, leader_epoch=0
        ).data
        for i in range(200)
    ]
    at_once, by_batch = make(config=config), make(config=config)
    for start in range(0, len(batches), step):
        at_once.append_follower(b"".join(batches[start : start + step]), epoch=0, now_ms=NOW, as_one=False)
    for batch in batches:
        by_batch.append_follower(batch, epoch=0, now_ms=NOW)
    assert len(by_batch.segments) > 4
    assert segment_files(at_once) == segment_files(by_batch)
    assert index_files(at_once) == index_files(by_batch)


def index_files(partition: Partition) -> dict[str, bytes]:
    partition.close()
    paths = [segment.path.removesuffix(".log") for segment, _ in partition.segments]
    return {path + kind: partition.files.read_file(path + kind) for path in paths for kind in (".index", ".timeindex")}


def test_batches_before_a_bad_one_are_taken() -> None:
    leader, follower = lead(make(), 0), Follower(make(), leader=LEADER, epoch=0)
    write(leader, "a")
    catch_up(leader, follower)
    write(leader, "b", "c", "d")
    answer = leader.fetch(follower.next_fetch(1 << 20), replica_id=FOLLOWER, max_bytes=1 << 20, now_ms=0)
    damaged = bytearray(answer.data)
    damaged[-1] ^= 1
    answer.data = bytes(damaged)
    with pytest.raises(CorruptBatch, match="CRC"):
        follower.apply(answer, NOW)
    assert values(follower.partition) == ["a", "b", "c"]
    catch_up(leader, follower)
    assert_same(leader, follower)


def test_a_follower_goes_on_where_it_was_after_a_crash() -> None:
    files = MemoryFiles()
    leader, follower = lead(make(), 0), Follower(make(files), leader=LEADER, epoch=0)
    for i in range(30):
        write(leader, f"{i} " + "x" * 100)
    catch_up(leader, follower)
    last = files.open(follower.partition.segments[-1][0].path)
    last.truncate(last.size() - 5)
    reopened = Partition(files, "log/t-0", "t", 0, CONFIG)
    reopened.open(Checkpoint(clean=False), NOW)
    again = Follower(reopened, leader=LEADER, epoch=0)
    assert reopened.next_offset < 30
    write(leader, "more")
    catch_up(leader, again)
    assert_same(leader, again)


def test_an_empty_segment_left_by_a_crash_is_not_kept() -> None:
    """The leader rolled and died before it wrote: its next batch goes where its follower will put it."""
    files = MemoryFiles()
    leader, follower = lead(make(files), 0), Follower(make(), leader=LEADER, epoch=0)
    write(leader, "a", "b")
    catch_up(leader, follower)
    leader.partition.roll(NOW)
    reopened = Partition(files, "log/t-0", "t", 0, CONFIG)
    reopened.open(Checkpoint(clean=False), NOW)
    leader = lead(reopened, 1)
    write(leader, "c")
    follower = Follower(follower.partition, leader=LEADER, epoch=1)
    catch_up(leader, follower)
    assert len(reopened.segments) == 1
    assert_same(leader, follower)


# --- divergence -------------------------------------------------------------------------------------------------------


def parted(common: int, ours: list[str], theirs: list[str]) -> tuple[Leader, Follower]:
    """A new leader in epoch 1 with `theirs`, and the old one of epoch 0 with `ours`, after `common` shared records."""
    old = lead(make(), 0)
    new = Follower(make(), leader=LEADER, epoch=0)
    write(old, *[f"common {i}" for i in range(common)])
    catch_up(old, new)
    write(old, *ours)
    leader = lead(new.partition, 1)
    write(leader, *theirs)
    return leader, Follower(old.partition, leader=FOLLOWER, epoch=1)


@pytest.mark.parametrize("theirs", [[], ["x"], ["x"] * 5, ["y" * 850, "z"]])
@pytest.mark.parametrize("ours", [[], ["p"], ["p" * 900, "q" * 900, "r"]])
@pytest.mark.parametrize("common", [0, 3])
def test_records_that_only_the_old_leader_had_are_cut(common: int, ours: list[str], theirs: list[str]) -> None:
    leader, follower = parted(common, ours, theirs)
    catch_up(leader, follower)
    assert values(follower.partition) == [f"common {i}" for i in range(common)] + theirs
    assert segment_files(follower.partition) == segment_files(leader.partition)
    assert leader.partition.high_watermark == follower.partition.high_watermark == common + len(theirs)


@pytest.mark.parametrize(
    ("epoch", "offset", "diverging"),
    [(0, 3, None), (0, 4, (0, 3)), (1, 4, None), (1, 5, (1, 4)), (-1, 3, None), (2, 3, None)],
)
def test_a_consumer_hears_where_the_log_was_cut(epoch: int, offset: int, diverging: tuple[int, int] | None) -> None:
    """KIP-320. Of an epoch that the log has never heard of it can say nothing."""
    leader, follower = parted(3, ["a", "b"], ["x"])
    catch_up(leader, follower)
    part = FetchPart("t", 0, offset, 1000, last_fetched_epoch=epoch)
    if diverging is None:
        assert leader.fetch(part, replica_id=CONSUMER, max_bytes=1000, now_ms=0).diverging is None
    else:
        answer = leader.fetch(part, replica_id=CONSUMER, max_bytes=1000, now_ms=0)
        assert (answer.diverging, len(answer.data)) == (diverging, 0)


def test_a_leader_that_has_written_nothing_says_where_older_epochs_ended() -> None:
    """KAFKA-7415: two elections without a write; the leader of the one in between has records nobody else has."""
    one, two = make(), make()
    write(lead(one, 0), "a", "b")
    catch_up(Leader(one, epoch=0, followers=frozenset(), visible_when_durable=False, now_ms=0),
             Follower(two, leader=LEADER, epoch=0))  # fmt: skip
    write(lead(two, 1), "lost 1", "lost 2", "lost 3")
    leader = lead(one, 2)
    follower = Follower(two, leader=LEADER, epoch=2)
    rounds = catch_up(leader, follower)
    assert values(two) == ["a", "b"] and rounds <= 3
    write(leader, "c")
    catch_up(leader, follower)
    assert_same(leader, follower)


def test_fast_failovers_are_reconciled_step_by_step() -> None:
    """KIP-279: both logs have epochs the other has never seen."""
    one, two = make(), make()
    leader, follower = lead(one, 0), Follower(two, leader=LEADER, epoch=0)
    write(leader, "a", "b")
    catch_up(leader, follower)
    write(lead(two, 1), "two in 1")
    write(lead(one, 2), "one in 2", "one in 2")
    write(lead(two, 3), "two in 3")
    leader, follower = lead(one, 4), Follower(two, leader=LEADER, epoch=4)
    catch_up(leader, follower)
    assert values(two) == ["a", "b", "one in 2", "one in 2"]
    assert segment_files(one) == segment_files(two)


def test_a_follower_ahead_of_its_leader_is_cut() -> None:
    leader, follower = lead(make(), 0), Follower(make(), leader=LEADER, epoch=0)
    write(leader, *"abcdef")
    catch_up(leader, follower)
    leader.partition.truncate(2, NOW)
    catch_up(leader, follower)
    assert values(follower.partition) == ["a", "b"]
    write(leader, "x")
    catch_up(leader, follower)
    assert_same(leader, follower)


def test_a_follower_behind_the_leaders_start_begins_anew() -> None:
    leader, follower = lead(make(), 0), Follower(make(), leader=LEADER, epoch=0)
    write(leader, "a", "b")
    catch_up(leader, follower)
    leader.partition.truncate_fully(100, NOW)
    write(leader, "c")
    catch_up(leader, follower)
    assert (follower.partition.start_offset, follower.partition.next_offset) == (100, 101)
    assert values(follower.partition) == ["c"]
    assert_same(leader, follower)
    assert leader.partition.high_watermark == follower.partition.high_watermark == 101


# --- epochs -----------------------------------------------------------------------------------------------------------


def test_a_fetcher_with_another_epoch_is_refused() -> None:
    leader = lead(make(), 5)
    for epoch, error in ((4, FencedLeaderEpoch), (6, UnknownLeaderEpoch)):
        with pytest.raises(error, match=str(epoch)):
            leader.fetch(FetchPart("t", 0, 0, current_leader_epoch=epoch), replica_id=FOLLOWER, max_bytes=1, now_ms=0)
    leader.fetch(FetchPart("t", 0, 0, current_leader_epoch=5), replica_id=FOLLOWER, max_bytes=1, now_ms=0)


def read_only_leader(partition: Partition, told_epoch: int) -> Leader:
    return Leader(
        partition, epoch=None, followers=frozenset(), visible_when_durable=False, now_ms=0, told_epoch=told_epoch
    )  # fmt: skip


def test_a_leader_that_was_only_read_refuses_other_epochs_than_it_is_told_to_have() -> None:
    leader = read_only_leader(make(), 3)
    for epoch, error in ((2, FencedLeaderEpoch), (4, UnknownLeaderEpoch)):
        with pytest.raises(error, match=r"epoch 3$|leader's 3$"):
            leader.fetch(FetchPart("t", 0, 0, current_leader_epoch=epoch), replica_id=CONSUMER, max_bytes=1, now_ms=0)
    leader.fetch(FetchPart("t", 0, 0, current_leader_epoch=3), replica_id=CONSUMER, max_bytes=1, now_ms=0)


def test_a_log_that_came_from_elsewhere_and_was_only_read_knows_its_own_epochs() -> None:
    partition = make()
    write(lead(partition, 5), "a")
    leader = read_only_leader(partition, 3)
    for epoch in (3, 5):
        leader.fetch(FetchPart("t", 0, 0, current_leader_epoch=epoch), replica_id=CONSUMER, max_bytes=1, now_ms=0)
    with pytest.raises(UnknownLeaderEpoch, match="leader's 5"):
        leader.fetch(FetchPart("t", 0, 0, current_leader_epoch=6), replica_id=CONSUMER, max_bytes=1, now_ms=0)


@pytest.mark.parametrize(("asked", "found"), [(0, (0, 0)), (2, (2, 0)), (3, (3, 0)), (4, (-1, -1)), (-1, (-1, -1))])
def test_a_log_that_was_never_written_ends_in_the_epoch_of_its_leader(asked: int, found: tuple[int, int]) -> None:
    leader = read_only_leader(make(), 3)
    answer = leader.epoch_end(OffsetForLeaderPartition(partition=0, leader_epoch=asked))
    assert (answer.leader_epoch, answer.end_offset) == found
    for when in (EARLIEST, LATEST):
        listed = leader.list_offset(ListOffsetsPartition(partition_index=0, timestamp=when), None)
        assert listed.leader_epoch == 3


def test_a_deposed_leader_appends_nothing() -> None:
    partition = make()
    stale = lead(partition, 1)
    write(stale, "a")
    write(lead(partition, 2), "b")
    with pytest.raises(FencedLeaderEpoch, match="epoch 1 is over"):
        write(stale, "c")
    with pytest.raises(FencedLeaderEpoch):
        partition.begin_epoch(1)
    assert values(partition) == ["a", "b"]


def test_an_error_in_the_answer_is_raised_and_changes_nothing() -> None:
    follower = Follower(make(), leader=LEADER, epoch=0)
    with pytest.raises(DurabilityUnknown):
        follower.apply(FetchedPart("t", 0, DurabilityUnknown("x")), NOW)
    with pytest.raises(OffsetOutOfRange):
        follower.apply(FetchedPart("t", 0, OffsetOutOfRange("x"), log_start_offset=0), NOW)
    assert follower.partition.next_offset == 0


def test_offsets_by_name_and_by_time_stop_at_the_high_watermark() -> None:
    leader, follower = lead(make(), 0), Follower(make(), leader=LEADER, epoch=0)
    write(leader, "a", timestamp=1000)
    write(leader, "b", timestamp=2000)
    catch_up(leader, follower)
    write(leader, "c", timestamp=3000)

    def offset(timestamp: int) -> tuple[int, int]:
        found = list_offset(leader.partition, ListOffsetsPartition(partition_index=0, timestamp=timestamp))
        return found.offset, found.timestamp

    assert (offset(EARLIEST), offset(LATEST)) == ((0, -1), (2, -1))
    assert offset(1500) == (1, 2000)
    assert offset(3000) == (-1, -1), "nobody has committed it"


def test_the_log_of_a_crashed_leader_is_found_by_its_epochs() -> None:
    """The epoch checkpoint names an epoch before its first batch: a crash in between must not leave it behind."""
    files = MemoryFiles()
    partition = make(files)
    write(lead(partition, 0), "a")
    partition.begin_epoch(3)
    reopened = Partition(files, "log/t-0", "t", 0, CONFIG)
    reopened.open(Checkpoint(clean=False), NOW)
    assert reopened.epochs.entries == [(0, 0)]
    assert files.stat(join("log/t-0", "leader-epoch-checkpoint")) is not None


def test_a_follower_joins_the_isr_with_what_was_there_when_the_term_began() -> None:
    """The high watermark of a leader that was just opened may be lower than what was acknowledged (KAFKA-7128)."""
    partition = make()
    write(Leader(partition, epoch=0, followers=frozenset(), visible_when_durable=True, now_ms=0), "a", "b")
    leader = Leader(
        partition, epoch=0, followers=frozenset(), joining=frozenset({FOLLOWER}), visible_when_durable=True, now_ms=0
    )
    joined = []
    for offset in (0, 1, 2):
        part = FetchPart("t", 0, offset, high_watermark=0)
        leader.fetch(part, replica_id=FOLLOWER, max_bytes=1, now_ms=offset)
        joined.append(leader.expand_isr(FOLLOWER))
    assert (joined, partition.high_watermark) == ([False, False, True], 0)
