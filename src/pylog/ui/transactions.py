"""The pages of transactions: all, one with its partitions, those that hang, and aborting one."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from pylog.handles import open_transactions
from pylog.record import TopicPartition
from pylog.runtime.clock import SystemClock
from pylog.ui.pages import after, form, page, seen
from pylog.ui.parameters import needed, needed_number, needed_partition
from pylog.ui.topic_changes import changing

__all__ = ["abort", "abort_hanging", "hanging", "transaction", "transactions"]


def transactions(request: Request) -> Response:
    """All transactional ids and their states."""
    return page(request, "transactions.html", lines=seen(request).log.admin.list_transactions(), hanging=None)


def transaction(request: Request) -> Response:
    """The transaction of a transactional id."""
    found = seen(request).log.admin.describe_transaction(needed(request.query_params, "id"))
    age_ms = max(0, SystemClock().wall_ms() - found.start_time_ms) if found.start_time_ms >= 0 else None
    return page(request, "transaction.html", found=found, age_ms=age_ms, partitions=sorted(found.partitions))


def hanging(request: Request) -> Response:
    """The transactions that no coordinator will end. This asks the producers of all partitions, so it is a form."""
    with changing(request) as log:
        found = log.admin.find_hanging_transactions()
    return page(request, "transactions.html", lines=seen(request).log.admin.list_transactions(), hanging=found)


def abort(request: Request) -> Response:
    """Abort the open transaction of a transactional id; its producer is fenced."""
    name = needed(form(request), "id")
    with changing(request) as log:
        found = log.admin.describe_transaction(name)
        if found.state != open_transactions.ONGOING:
            raise HTTPException(409, f"{name} has no transaction open: {found.state}. Nothing was done.")
        open_transactions.abort(log, found)
    return after("aborted", "transaction", id=name)


def abort_hanging(request: Request) -> Response:
    """Abort a transaction that hangs, in its partition."""
    words = form(request)
    key = TopicPartition(needed(words, "topic"), needed_partition(words))
    start = needed_number(words, "start")
    with changing(request) as log:
        found = open_transactions.hanging_at(log, key, start)
        if found is None:
            raise HTTPException(409, f"No transaction hangs in {key.topic}-{key.partition} since offset {start:,}.")
        log.admin.abort_transaction(found)
    return after("aborted", "transactions")
