"""After an unclean stop a coordinator ends what partitions know of its producers and its own log does not."""

import pytest

from pylog.coordinator.transaction import Sighting
from pylog.coordinator.transaction.state import EPOCH_LAST, EPOCH_MAX, TransactionState
from pylog.errors import ConcurrentTransactions, CoordinatorNotAvailable, InvalidProducerEpoch, InvalidTxnState
from support.messages import to_add
from support.transaction_desk import P0, P1, UNAVAILABLE, Desk, known


def settle(
    desk: Desk, epoch: int, *, producer_id: int = 50, lacking: tuple[str, ...] = (), has_all_written: bool = False,
    **open_in: int,
) -> None:  # fmt: skip
    names = {"p0": P0, "p1": P1}
    seen = {producer_id: Sighting(epoch, 0, {names[name]: at for name, at in open_in.items()})}
    may_lack = {names[name] for name in lacking}
    settled = desk.machine.settle(
        seen, may_lack.__contains__, desk.now, has_all_written=has_all_written, may_have_begun=True
    )
    desk.carry_out(settled)
    if desk.refuses is None and desk.no_ids is None and not desk.state.is_prepared:
        assert desk.machine.is_settled


def test_a_transaction_open_in_its_epoch_goes_on() -> None:
    desk = Desk(known(TransactionState.ONGOING))
    settle(desk, 4, p0=4)
    assert (desk.state, desk.appends, desk.markers) == (TransactionState.ONGOING, [], [])
    assert desk.end(50, 4, committed=True).error is None


def test_a_transaction_unseen_by_partitions_goes_on_where_nothing_can_be_lost() -> None:
    desk = Desk(known(TransactionState.ONGOING))
    settle(desk, 4, producer_id=77)
    assert (desk.state, desk.appends, desk.markers) == (TransactionState.ONGOING, [], [])
    assert desk.end(50, 4, committed=True).error is None


@pytest.mark.parametrize("seen", [{}, {"p0": 4}])
def test_an_open_transaction_that_may_lack_records_is_aborted(seen: dict[str, int]) -> None:
    desk = Desk(known(TransactionState.ONGOING))
    settle(desk, 4 if seen else -1, producer_id=50 if seen else 77, lacking=("p0",), **seen)
    assert desk.end(50, 4, committed=True).error is not None
    markers = desk.marked()
    assert (markers.committed, markers.producer_epoch, markers.partitions) == (False, 5, (P0,))
    assert isinstance(desk.end(50, 4, committed=True).error, InvalidTxnState)


def test_nothing_ends_or_joins_before_what_is_to_be_aborted_is_written() -> None:
    desk = Desk(known(TransactionState.ONGOING))
    desk.refuses = UNAVAILABLE
    settle(desk, 4, lacking=("p0",), p0=4)
    desk.refuses = None
    assert isinstance(desk.end(50, 4, committed=True).error, ConcurrentTransactions)
    assert desk.join(50, 4, P1) is ConcurrentTransactions
    assert isinstance(desk.machine.join(to_add("x", 50, 4, [P1]), desk.now), ConcurrentTransactions)
    desk.tick(100)
    assert desk.marked().committed is False


@pytest.mark.parametrize(
    ("state", "epoch", "open_in"),
    [
        (TransactionState.ONGOING, 9, {"p0": 9}),  # the partition is newer
        (TransactionState.ONGOING, 3, {"p0": 3}),  # it is older: its own marker is gone
        (TransactionState.ONGOING, 4, {"p0": 4, "p1": 4}),  # it has not joined
        (TransactionState.EMPTY, 4, {"p1": 4}),
        (TransactionState.COMPLETE_COMMIT, 3, {"p0": 3}),
        (TransactionState.COMPLETE_ABORT, 9, {"p1": 8}),
    ],
)
def test_an_unknown_transaction_is_aborted_beyond_all_epochs(
    state: TransactionState, epoch: int, open_in: dict[str, int]
) -> None:
    desk = Desk(known(state))
    settle(desk, epoch, **open_in)
    markers = desk.marked()
    assert (markers.committed, markers.producer_epoch) == (False, max(epoch, 4) + 1)
    assert {"p0": P0, "p1": P1}[next(iter(open_in))] in markers.partitions
    assert desk.state is TransactionState.COMPLETE_ABORT and not desk.markers
    assert desk.init().producer_epoch == max(epoch, 4) + 2


def test_a_later_epoch_in_a_partition_raises_the_producers_epoch() -> None:
    desk = Desk(known(TransactionState.COMPLETE_COMMIT))
    settle(desk, 9)
    assert (desk.state, desk.x.producer_epoch, desk.markers) == (TransactionState.COMPLETE_ABORT, 10, [])


def test_epochs_that_are_used_up_give_another_producer_id() -> None:
    desk = Desk(known(TransactionState.COMPLETE_COMMIT))
    settle(desk, EPOCH_LAST, p0=EPOCH_LAST)
    assert desk.marked().producer_epoch == EPOCH_MAX
    assert (desk.x.producer_id, desk.x.producer_epoch) == (1001, 0)


def test_a_decided_transaction_ends_before_the_rest_is_aborted() -> None:
    desk = Desk(known(TransactionState.PREPARE_COMMIT))
    settle(desk, 8, p1=8)
    assert desk.machine.claims() == {(50, P0), (50, P1)}
    assert desk.marked().committed
    assert desk.state is TransactionState.COMPLETE_COMMIT
    assert desk.init().error is not None, "no transaction begins before the rest is over"
    desk.tick(0)
    markers = desk.marked()
    assert (markers.committed, markers.producer_epoch, markers.partitions) == (False, 9, (P1,))
    assert desk.state is TransactionState.COMPLETE_ABORT and desk.init().producer_epoch == 10


def test_an_abort_that_could_not_be_written_is_tried_again() -> None:
    desk = Desk(known(TransactionState.COMPLETE_COMMIT))
    desk.refuses = UNAVAILABLE
    settle(desk, 8, p1=8)
    assert desk.state is TransactionState.COMPLETE_COMMIT
    desk.refuses = None
    desk.tick(100)
    assert desk.marked().producer_epoch == 9


def test_without_a_producer_id_it_is_tried_again() -> None:
    desk = Desk(known(TransactionState.COMPLETE_COMMIT))
    desk.no_ids = CoordinatorNotAvailable("no ids")
    settle(desk, EPOCH_LAST)
    assert desk.state is TransactionState.COMPLETE_COMMIT
    desk.no_ids = None
    desk.tick(100)
    assert (desk.x.producer_id, desk.x.producer_epoch) == (1001, 0)


def test_an_id_that_was_forgotten_meanwhile_ends_no_transaction() -> None:
    desk = Desk(known(TransactionState.PREPARE_COMMIT))
    settle(desk, 4)
    desk.marked()
    desk.tick(0)
    assert desk.state is TransactionState.COMPLETE_COMMIT and desk.init().producer_epoch == 5


def test_producers_without_a_transactional_id_are_not_claimed() -> None:
    desk = Desk(known(TransactionState.COMPLETE_COMMIT))
    settle(desk, 4, producer_id=77, p0=4)
    assert (desk.machine.claims(), desk.machine.producer_ids()) == (set(), {50, -1})


@pytest.mark.parametrize("state", [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT])
def test_a_producer_whose_transaction_may_be_lost_whole_gets_a_higher_epoch(state: TransactionState) -> None:
    """Its beginning is ahead of the log, and its records are not durable: a crash may leave nothing of it."""
    desk = Desk(known(state))
    settle(desk, -1, producer_id=77)
    assert (desk.state, desk.markers) == (TransactionState.COMPLETE_ABORT, [])
    assert isinstance(desk.end(50, 4, committed=True).error, InvalidTxnState | InvalidProducerEpoch)


def test_a_decided_transaction_comes_to_its_end_before_its_id_is_settled() -> None:
    desk = Desk(known(TransactionState.PREPARE_COMMIT))
    settle(desk, 9)
    assert desk.appends == []
    assert desk.marked().committed
    desk.tick(0)
    assert (desk.state, desk.x.producer_epoch) == (TransactionState.COMPLETE_ABORT, 10)


def test_an_id_that_is_settled_and_late_at_once_is_aborted_once() -> None:
    desk = Desk(known(TransactionState.ONGOING))
    desk.refuses = UNAVAILABLE
    settle(desk, 4, lacking=("p0",), p0=4)
    desk.refuses = None
    desk.tick(70_000)
    assert [len(append.records) for append in desk.appends] == [1]
    assert desk.marked().producer_epoch == 5


# --- where all that was written is there ------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.COMPLETE_COMMIT])
def test_a_transaction_that_partitions_know_goes_on_with_them(state: TransactionState) -> None:
    desk = Desk(known(state))
    settle(desk, 4, has_all_written=True, p0=4, p1=4)
    assert (desk.state, desk.x.partitions, desk.markers) == (TransactionState.ONGOING, (P0, P1), [])
    assert desk.end(50, 4, committed=True).error is None
    assert desk.marked().partitions == (P0, P1)


@pytest.mark.parametrize("state", [TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.COMPLETE_ABORT])
@pytest.mark.parametrize("producer_id", [50, 77])
def test_a_producer_of_which_nothing_hangs_goes_on(state: TransactionState, producer_id: int) -> None:
    desk = Desk(known(state))
    settle(desk, 4, producer_id=producer_id, lacking=("p0",), has_all_written=True)
    assert (desk.state, desk.appends, desk.markers) == (state, [], [])
    assert desk.join(50, 4, P1) is None


@pytest.mark.parametrize(("epoch", "open_in"), [(9, {"p0": 9}), (4, {"p0": 3}), (4, {"p0": 4, "p1": 3}), (9, {})])
def test_what_is_of_another_epoch_is_aborted_all_the_same(epoch: int, open_in: dict[str, int]) -> None:
    desk = Desk(known(TransactionState.COMPLETE_COMMIT))
    settle(desk, epoch, has_all_written=True, **open_in)
    assert desk.state in (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)
    assert desk.x.producer_epoch == epoch + 1


def test_a_decision_comes_to_its_end_before_the_next_transaction_goes_on() -> None:
    desk = Desk(known(TransactionState.PREPARE_COMMIT))
    settle(desk, 4, has_all_written=True, p1=4)
    assert not desk.machine.is_settled
    assert isinstance(desk.end(50, 4, committed=True).error, ConcurrentTransactions)
    assert desk.marked().partitions == (P0,)
    desk.tick(0)
    assert (desk.state, desk.x.partitions) == (TransactionState.ONGOING, (P1,))
    assert desk.machine.is_settled


@pytest.mark.parametrize("version", [1, 2])
def test_what_the_markers_of_a_decision_end_is_nothing_strange(version: int) -> None:
    desk = Desk(known(TransactionState.PREPARE_COMMIT, client_version=version))
    epoch = 4 if version < 2 else 3
    settle(desk, epoch, has_all_written=True, p0=epoch)
    desk.marked()
    desk.tick(0)
    assert (desk.state, desk.x.producer_epoch, desk.markers) == (TransactionState.COMPLETE_COMMIT, 4, [])
