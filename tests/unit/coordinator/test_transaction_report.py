"""ListTransactions and DescribeTransactions."""

import pytest

from pylog.coordinator.transaction.state import TransactionState
from pylog.errors import InvalidRegularExpression, TransactionalIdNotFound
from pylog.protocol.messages import (
    Session,
)
from pylog.protocol.messages.topics import MetadataRequest
from pylog.protocol.messages.transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
)
from support.messages import init_producer_id
from support.transaction_desk import P0, T0, Desk, known

DESK = Desk(
    *(
        (state.title, known(state, producer_id=state + 10)[1])
        for state in TransactionState
        if state <= TransactionState.COMPLETE_ABORT
    )
)
DESK.wall_ms += 100


def listed(**filters: object) -> list[str]:
    answer = DESK.ask(ListTransactionsRequest(**filters))  # type: ignore[arg-type]
    assert answer.error is None
    assert all(each.transactional_id == each.transaction_state for each in answer.transaction_states)
    return [each.transactional_id for each in answer.transaction_states]


def test_all_transactions_are_listed_with_their_states() -> None:
    assert listed() == ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"]


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"state_filters": ["Empty", "Ongoing", "Asleep"]}, ["Empty", "Ongoing"]),
        ({"producer_id_filters": [10, 12, 99]}, ["Empty", "PrepareCommit"]),
        ({"duration_filter": 100}, ["Empty"]),
        (
            {"duration_filter": 99},
            ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"],
        ),
        ({"transactional_id_pattern": "Prepare"}, []),
        ({"transactional_id_pattern": "Prepare.*"}, ["PrepareCommit", "PrepareAbort"]),
        ({"transactional_id_pattern": ".*Commit", "state_filters": ["PrepareCommit"]}, ["PrepareCommit"]),
    ],
)
def test_transactions_that_fit_every_filter_are_listed(filters: dict[str, object], names: list[str]) -> None:
    assert listed(**filters) == names


def test_an_invalid_pattern_is_an_error() -> None:
    answer = DESK.ask(ListTransactionsRequest(transactional_id_pattern="("))
    assert isinstance(answer.error, InvalidRegularExpression)


def test_a_pattern_that_takes_too_many_steps_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pylog.coordinator.transaction.report.WORK_MAX", 50)
    assert isinstance(
        DESK.ask(ListTransactionsRequest(transactional_id_pattern="Prepare.*")).error, InvalidRegularExpression
    )
    assert DESK.ask(ListTransactionsRequest()).error is None


def test_an_open_transaction_is_described_with_its_start_and_partitions() -> None:
    answer = DESK.ask(DescribeTransactionsRequest(transactional_ids=["Ongoing"]))
    state = DescribeTransactionsResponse.TransactionState
    assert answer.transaction_states == [
        state(
            transactional_id="Ongoing", transaction_state="Ongoing", producer_id=11, producer_epoch=4,
            transaction_timeout_ms=60_000, transaction_start_time_ms=T0,
            topics=[state.TopicData(topic=P0.topic, partitions=[P0.partition])],
        )
    ]  # fmt: skip


def test_a_transaction_that_has_ended_has_no_start() -> None:
    (described,) = DESK.ask(DescribeTransactionsRequest(transactional_ids=["CompleteCommit"])).transaction_states
    assert (described.transaction_start_time_ms, described.topics) == (-1, [])


def test_an_unknown_id_is_an_error_in_its_place() -> None:
    unknown, known = DESK.ask(DescribeTransactionsRequest(transactional_ids=["x", "Empty"])).transaction_states
    assert unknown.transactional_id == "x" and isinstance(unknown.error, TransactionalIdNotFound)
    assert known.error is None


def test_other_messages_are_misuse() -> None:
    with pytest.raises(TypeError, match="Metadata"):
        DESK.machine.handle(MetadataRequest.of(), Session(), 1, DESK.now)


def test_a_transaction_is_known_as_soon_as_it_is_in_the_log() -> None:
    desk = Desk()
    desk.ask(init_producer_id("x"))
    assert [each.producer_id for each in desk.ask(ListTransactionsRequest()).transaction_states] == [1001]
