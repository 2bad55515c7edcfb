"""A future answers once, wakes everybody, and calls each callback once, whoever comes first."""

import asyncio
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

import pytest

from pylog.client.record_append import pure
from pylog.errors import NotLeaderOrFollower
from pylog.record import RecordMetadata
from pylog.runtime.future import Future, completed, failed, gathered

LONG = 30.0

MakeDelivery = Callable[[str, int], pure.Delivery]


@pytest.fixture(params=["pure", "compiled"])
def make_delivery(request: pytest.FixtureRequest) -> MakeDelivery:
    twin = pytest.importorskip(f"pylog.client.record_append.{request.param}", exc_type=ImportError)
    make: MakeDelivery = twin.Delivery
    return make


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


fields = attrgetter("topic", "partition", "offset", "timestamp")
"""Of where a record landed, in either twin: they are equal to their like only."""


def together(*work: Callable[[], object]) -> None:
    """Run each in a thread of its own, all from the same moment on, to the end."""
    barrier = threading.Barrier(len(work))

    def run(one: Callable[[], object]) -> None:
        barrier.wait()
        one()

    threads = [threading.Thread(target=run, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1, None, "text", b"", ()])
def test_an_answer_is_given_as_it_is(value: object) -> None:
    future: Future[object] = Future()
    assert not future.done()
    future.set_result(value)
    for answered in (future, completed(value)):
        assert answered.done()
        assert answered.result() is value
        assert answered.exception() is None
        assert answered.result(timeout=0) is value


def test_an_error_is_raised_each_time_with_its_own_traceback() -> None:
    error = NotLeaderOrFollower("not here")
    future: Future[int] = Future()
    future.set_exception(error)
    lengths = set()
    for answered in [future] * 5 + [failed(error)] * 5:
        assert answered.exception() is error
        with pytest.raises(NotLeaderOrFollower, match="not here") as caught:
            answered.result()
        lengths.add(len(traceback.extract_tb(caught.value.__traceback__)))
    assert max(lengths) < 6


@pytest.mark.parametrize("answer", [lambda f: f.set_result(1), lambda f: f.set_exception(OSError())])
def test_the_second_answer_is_refused(answer: Callable[[Future[int]], None]) -> None:
    future: Future[int] = Future()
    future.set_result(7)
    with pytest.raises(RuntimeError, match="already"):
        answer(future)
    assert future.result() == 7


def test_a_name_of_other_clients_futures_says_what_to_use() -> None:
    future: Any = Future()
    with pytest.raises(AttributeError, match=r"a future of pylog has no 'get': use result\(timeout\)"):
        future.get()


def test_no_answer_in_time_leaves_the_future_as_it_was() -> None:
    future: Future[int] = Future()
    for timeout in (0, 0.001, -1):
        with pytest.raises(TimeoutError):
            future.result(timeout)
        with pytest.raises(TimeoutError):
            future.exception(timeout)
    future.set_result(3)
    assert future.result(0) == 3


def test_repr_says_what_there_is(make_delivery: MakeDelivery) -> None:
    delivery = make_delivery("t", 2)
    assert "waiting" in repr(Future())
    assert "waiting" in repr(delivery.future(0, 5))
    assert "OSError" in repr(failed(OSError("gone")))
    delivery.complete(7)
    assert "offset=7" in repr(delivery.future(0, 5))


# --- waiting ----------------------------------------------------------------------------------------------------------


def test_an_answer_wakes_all_who_wait() -> None:
    future: Future[str] = Future()
    got: list[str] = []
    together(*[lambda: got.append(future.result(LONG))] * 8, lambda: future.set_result("here"))
    assert got == ["here"] * 8


def test_an_error_wakes_all_who_wait(make_delivery: MakeDelivery) -> None:
    delivery = make_delivery("t", 0)
    error = NotLeaderOrFollower("moved")
    got: list[object] = []
    waits = [lambda n=n: got.append(delivery.future(n, 0).exception(LONG)) for n in range(8)]
    together(*waits, lambda: delivery.fail(error))
    assert got == [error] * 8


def test_waiting_can_be_interrupted() -> None:
    future: Future[int] = Future()
    main = threading.main_thread().ident
    if threading.get_ident() != main:
        pytest.skip("signals reach the main thread only, and this test does not run there")
    assert main is not None
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT))
    try:
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            future.result(LONG)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    future.set_result(4)
    assert future.result() == 4


# --- callbacks --------------------------------------------------------------------------------------------------------


def test_callbacks_run_in_order_in_the_thread_that_answers() -> None:
    future: Future[int] = Future()
    seen: list[tuple[int, int, bool]] = []
    for n in range(5):
        future.add_done_callback(lambda f, n=n: seen.append((n, threading.get_ident(), f is future and f.done())))
    answering: list[int] = []

    def answer() -> None:
        answering.append(threading.get_ident())
        future.set_result(1)

    together(answer)
    assert seen == [(n, answering[0], True) for n in range(5)]


def test_a_late_callback_is_called_at_once() -> None:
    seen: list[object] = []
    future = completed(1)
    future.add_done_callback(seen.append)
    assert seen == [future]
    refused: Future[int] = failed(OSError())
    refused.add_done_callback(seen.append)
    assert seen == [future, refused]


def test_a_callback_that_raises_does_not_keep_the_others_from_running() -> None:
    future: Future[int] = Future()
    seen: list[object] = []

    def bad(_: Future[int]) -> None:
        raise ZeroDivisionError

    future.add_done_callback(seen.append)
    future.add_done_callback(bad)
    future.add_done_callback(seen.append)
    with pytest.raises(ZeroDivisionError):
        future.set_result(1)
    assert seen == [future, future]
    assert future.result() == 1


def test_a_callback_may_add_another() -> None:
    future: Future[int] = Future()
    seen: list[str] = []

    def first(f: Future[int]) -> None:
        f.add_done_callback(lambda _: seen.append("second"))
        seen.append("first")

    future.add_done_callback(first)
    future.set_result(1)
    assert sorted(seen) == ["first", "second"]


def test_each_callback_is_called_once_in_a_race_with_the_answer(hasty: None) -> None:
    for _ in range(60):
        future: Future[int] = Future()
        calls: Counter[int] = Counter()

        def add(first: int, future: Future[int] = future, calls: Counter[int] = calls) -> None:
            for n in range(first, first + 10):
                future.add_done_callback(lambda _, n=n: calls.update([n]))

        together(lambda: add(0), lambda: add(10), lambda future=future: future.set_result(1))
        assert calls == Counter(range(20))


# --- asyncio ----------------------------------------------------------------------------------------------------------


def test_await_wakes_the_loop_from_another_thread(make_delivery: MakeDelivery) -> None:
    delivery = make_delivery("t", 3)

    async def main() -> list[RecordMetadata]:
        waiting = asyncio.gather(*(wait(delivery.future(n, 100 + n)) for n in range(5)))
        await asyncio.sleep(0)
        thread = threading.Thread(target=delivery.complete, args=(40,))
        thread.start()
        answers = await waiting
        thread.join()
        return answers

    async def wait(future: Future[RecordMetadata]) -> RecordMetadata:
        return await future

    assert [fields(landed) for landed in asyncio.run(main())] == [("t", 3, 40 + n, 100 + n) for n in range(5)]


def test_await_of_a_complete_future_returns_or_raises() -> None:
    async def main() -> int:
        with pytest.raises(OSError, match="gone"):
            await failed(OSError("gone"))
        return await completed(5)

    assert asyncio.run(main()) == 5


def test_an_await_that_was_cancelled_does_not_hurt_the_answer() -> None:
    future: Future[int] = Future()

    async def main() -> None:
        async def wait() -> int:
            return await future

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not future.done()

    asyncio.run(main())
    future.set_result(1)  # the loop is closed by now
    assert future.result() == 1


# --- deliveries -------------------------------------------------------------------------------------------------------


def test_futures_of_a_batch_answer_with_their_own_offset_and_time(make_delivery: MakeDelivery) -> None:
    delivery = make_delivery("clicks", 4)
    futures = [delivery.future(n, 1000 + n) for n in range(3)]
    assert not any(future.done() for future in futures)
    delivery.complete(70, None)
    assert [fields(future.result(0)) for future in futures] == [("clicks", 4, 70 + n, 1000 + n) for n in range(3)]


def test_the_time_of_the_append_stands_for_all(make_delivery: MakeDelivery) -> None:
    delivery = make_delivery("clicks", 4)
    futures = [delivery.future(n, 1000 + n) for n in range(3)]
    delivery.complete(0, 5555)
    assert [future.result().timestamp for future in futures] == [5555] * 3
    assert [future.result().offset for future in futures] == [0, 1, 2]


def test_a_future_without_acknowledgement_has_no_offset(make_delivery: MakeDelivery) -> None:
    delivery = make_delivery("clicks", 4)
    delivery.complete(-1)
    assert fields(delivery.future(2, 10).result()) == ("clicks", 4, -1, 10)


def test_a_failed_batch_fails_its_records(make_delivery: MakeDelivery) -> None:
    delivery = make_delivery("clicks", 4)
    early = delivery.future(0, 10)
    error = NotLeaderOrFollower("moved")
    delivery.fail(error)
    for future in (early, delivery.future(1, 11)):
        assert future.done()
        assert future.exception() is error
        with pytest.raises(NotLeaderOrFollower):
            future.result()
    with pytest.raises(RuntimeError, match="already"):
        delivery.complete(1)


def test_a_callback_of_a_record_gets_the_records_future(make_delivery: MakeDelivery) -> None:
    delivery = make_delivery("clicks", 4)
    future = delivery.future(2, 10)
    seen: list[Future[RecordMetadata]] = []
    future.add_done_callback(seen.append)
    with pytest.raises(TimeoutError):
        future.result(0)
    delivery.complete(5)
    assert seen == [future]
    assert seen[0].result().offset == 7


def test_a_record_is_answered_by_its_batch_only(make_delivery: MakeDelivery) -> None:
    future = make_delivery("clicks", 4).future(0, 10)
    with pytest.raises(RuntimeError, match="delivery"):
        future.set_result(RecordMetadata("clicks", 4, 0, 10))
    assert not future.done()


def test_a_future_is_small(make_delivery: MakeDelivery) -> None:
    for future in (Future[int](), make_delivery("clicks", 4).future(0, 10)):
        assert not hasattr(future, "__dict__")
        assert sys.getsizeof(future) <= 120


def test_a_thread_that_waits_for_a_record_brings_the_answer_of_its_batch(make_delivery: MakeDelivery) -> None:
    asked: list[float | None] = []

    def bring(delivery: Any, timeout: float | None) -> None:
        asked.append(timeout)
        delivery.complete(7)

    delivery = make_delivery("t", 0, bring)
    assert delivery.future(1, 5).result(3).offset == 8
    assert asked == [3] and delivery.bring is None, "futures that are kept would keep the producer"


def test_an_answer_that_could_not_be_brought_is_waited_for(make_delivery: MakeDelivery) -> None:
    delivery = make_delivery("t", 0, lambda *_: None)
    with pytest.raises(TimeoutError, match="no answer within"):
        delivery.future(0, 5).result(0)
    delivery.fail(ValueError("no"))
    assert isinstance(delivery.future(0, 5).exception(0), ValueError)


def test_driving_an_answer_that_comes_by_itself_does_nothing(make_delivery: MakeDelivery) -> None:
    for future in (Future[int](), make_delivery("t", 0).future(0, 1)):
        future.drive(0)
        assert not future.done()


def test_several_answers_complete_with_the_last_or_the_first_error() -> None:
    first, second = Future[int](), Future[int]()
    both = gathered([first, completed(2), second], sum)
    second.set_result(4)
    assert not both.done()
    first.set_result(1)
    assert both.result() == 7
    assert gathered([], sum).result() == 0
    broken = gathered([completed(1), failed(KeyError("a")), failed(ValueError("b"))], sum)
    assert isinstance(broken.exception(), KeyError)
