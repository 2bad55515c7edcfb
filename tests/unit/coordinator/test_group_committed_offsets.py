"""The log's order decides which offset counts, whatever the order in which transactions end."""

from hypothesis import given
from hypothesis import strategies as st

from pylog.coordinator.group.committed_offsets import CommittedOffsets
from pylog.coordinator.group.records import Committed, OffsetChange
from pylog.record import TopicPartition

AT = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def commit(offset: int, at: TopicPartition = AT, group: str = "g") -> OffsetChange:
    return OffsetChange(group, at, Committed(offset, -1, "", 0))


def gone(at: TopicPartition = AT) -> OffsetChange:
    return OffsetChange("g", at, None)


def offset(offsets: CommittedOffsets, at: TopicPartition = AT) -> int | None:
    found = offsets.get("g", at)
    return None if found is None else found.offset


def test_an_offset_of_a_transaction_counts_when_it_is_committed() -> None:
    offsets = CommittedOffsets()
    offsets.replay(commit(1), None)
    offsets.replay(commit(2), 7)
    assert (offset(offsets), offsets.is_pending("g", AT), offsets.is_pending("g", OTHER)) == (1, True, False)
    offsets.replay_marker(7, committed=True)
    assert (offset(offsets), offsets.is_pending("g", AT), offsets.has_pending("g")) == (2, False, False)


def test_an_offset_of_an_aborted_transaction_never_counts() -> None:
    offsets = CommittedOffsets()
    offsets.replay(commit(2), 7)
    offsets.replay_marker(7, committed=False)
    assert (offset(offsets), offsets.has_pending("g")) == (None, False)


def test_a_plain_commit_after_a_staged_one_wins_over_the_marker() -> None:
    offsets = CommittedOffsets()
    offsets.replay(commit(5), 7)
    offsets.replay(commit(3), None)
    offsets.replay_marker(7, committed=True)
    assert offset(offsets) == 3


def test_of_two_transactions_the_one_that_staged_later_wins() -> None:
    offsets = CommittedOffsets()
    offsets.replay(commit(1), 7)
    offsets.replay(commit(2), 8)
    offsets.replay_marker(8, committed=True)
    offsets.replay_marker(7, committed=True)
    assert offset(offsets) == 2


def test_a_tombstone_takes_committed_and_pending_offsets() -> None:
    offsets = CommittedOffsets()
    offsets.replay(commit(1), None)
    offsets.replay(commit(2), 7)
    offsets.replay(commit(3, OTHER), 7)
    offsets.replay(gone(), None)
    assert (offset(offsets), offsets.partitions_of("g")) == (None, [OTHER])
    offsets.replay(gone(OTHER), None)
    assert not offsets.has_pending("g")
    offsets.replay_marker(7, committed=True)
    assert offsets.of("g") == {}


def test_a_tombstone_without_an_offset_changes_nothing() -> None:
    offsets = CommittedOffsets()
    offsets.replay(commit(1), None)
    offsets.replay(commit(1, OTHER), 7)
    offsets.replay(gone(TopicPartition("u", 0)), None)
    assert offsets.partitions_of("g") == [AT, OTHER]
    offsets.replay_marker(99, committed=True)
    assert offsets.partitions_of("g") == [AT, OTHER]


events = st.one_of(
    st.tuples(st.just("plain"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("staged"), st.integers(0, 1), st.integers(1, 3)),
    st.tuples(st.just("gone"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("commit"), st.just(0), st.integers(1, 3)),
    st.tuples(st.just("abort"), st.just(0), st.integers(1, 3)),
)


@given(st.lists(events, max_size=30))
def test_the_latest_offset_neither_aborted_nor_deleted_counts(log: list[tuple[str, int, int]]) -> None:
    offsets = CommittedOffsets()
    for place, (what, number, producer) in enumerate(log):
        at = TopicPartition("t", number)
        if what in ("commit", "abort"):
            offsets.replay_marker(producer, committed=what == "commit")
        else:
            offsets.replay(gone(at) if what == "gone" else commit(place, at), producer or None)
    for number in (0, 1):
        assert offset(offsets, TopicPartition("t", number)) == latest(log, number)


def latest(log: list[tuple[str, int, int]], number: int) -> int | None:
    """Of the entries after the last tombstone, the last that is plain or whose transaction's next end is a commit."""
    best = None
    for place, (what, of, producer) in enumerate(log):
        if what == "gone" and of == number:
            best = None
        elif what in ("plain", "staged") and of == number:
            rest = log[place + 1 :]
            end = next((later for later in rest if later[0] in ("commit", "abort") and later[2] == producer), None)
            if what == "plain" or (end is not None and end[0] == "commit"):
                best = place
    return best


def told(offsets: CommittedOffsets, at: TopicPartition = AT) -> int | None:
    found = offsets.safe("g", at)
    return None if found is None else found.offset


def replay_at(offsets: CommittedOffsets, end: int, change: OffsetChange, producer_id: int | None = None) -> None:
    if producer_id is None:
        offsets.keep(change, end, 0)
    offsets.replay(change, producer_id)


def test_an_offset_is_told_when_it_is_safe() -> None:
    offsets = CommittedOffsets()
    for end, value in ((1, 10), (2, 20), (3, 30)):
        replay_at(offsets, end, commit(value))
    assert (offset(offsets), told(offsets)) == (30, None)
    offsets.note_safe(1)
    assert told(offsets) == 10
    replay_at(offsets, 4, gone())
    offsets.note_safe(3)
    assert (offset(offsets), told(offsets), offsets.partitions_of("g")) == (None, 30, [AT])
    offsets.note_safe(4)
    assert (told(offsets), offsets.partitions_of("g"), offsets._before, list(offsets._unsafe)) == (None, [], {}, [])


def test_two_offsets_of_one_batch_are_told_together() -> None:
    offsets = CommittedOffsets()
    replay_at(offsets, 2, commit(10))
    replay_at(offsets, 2, commit(20))
    assert told(offsets) is None
    offsets.note_safe(2)
    assert told(offsets) == 20


def test_an_offset_that_a_marker_lets_count_is_told_at_once() -> None:
    offsets = CommittedOffsets()
    replay_at(offsets, 1, commit(10))
    replay_at(offsets, 2, commit(20), 7)
    offsets.replay_marker(7, committed=True)
    assert told(offsets) == 20
    replay_at(offsets, 4, commit(30))
    offsets.note_safe(2)
    assert told(offsets) == 20
    offsets.note_safe(4)
    assert told(offsets) == 30
