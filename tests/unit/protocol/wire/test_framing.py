import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.errors import InvalidRequest
from pylog.protocol.wire.framing import GROWTH_BYTES, Framer

LIMIT = 8 << 20


def framed(*frames: bytes) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


def received(framer: Framer, data: bytes, sizes: list[int]) -> list[bytes]:
    """The frames that come out of bytes in pieces of these sizes, received as by the loop."""
    frames, position, turn = [], 0, 0
    while position < len(data):
        size = sizes[turn % len(sizes)]
        turn += 1
        target = framer.target()
        if target is None:
            piece = data[position : position + size]
            frames += framer.feed(memoryview(piece))
        else:
            piece = data[position : position + min(size, len(target))]
            target[: len(piece)] = piece
            target.release()
            whole = framer.filled(len(piece))
            frames += [whole] if whole is not None else []
        position += len(piece)
    return [bytes(frame) for frame in frames]


@given(st.lists(st.binary(max_size=300), max_size=8), st.lists(st.integers(1, 50), min_size=1, max_size=5))
def test_frames_come_out_as_they_went_in_however_they_are_cut(frames: list[bytes], sizes: list[int]) -> None:
    framer = Framer(LIMIT)

    assert received(framer, framed(*frames), sizes) == frames
    assert not framer.is_inside


def test_a_large_frame_is_received_into_memory_of_its_own() -> None:
    framer, frame = Framer(LIMIT), bytes(range(256)) * (20 << 10)

    assert received(framer, framed(frame, b"next"), [100_000]) == [frame, b"next"]


def test_an_announcement_costs_no_memory_before_the_bytes_come() -> None:
    framer = Framer(LIMIT)

    assert framer.feed(memoryview(LIMIT.to_bytes(4, "big") + b"x")) == []
    target = framer.target()

    assert target is not None
    assert len(target) <= GROWTH_BYTES
    assert framer.held <= GROWTH_BYTES + 1


@pytest.mark.parametrize("size", [-1, LIMIT + 1, (1 << 31) - 1])
def test_a_length_outside_the_limit_is_refused(size: int) -> None:
    with pytest.raises(InvalidRequest, match="0 to"):
        Framer(LIMIT).feed(memoryview(size.to_bytes(4, "big", signed=True)))


def test_the_limit_may_change_between_frames() -> None:
    framer = Framer(4)
    assert framer.feed(memoryview(framed(b"abcd"))) == [b"abcd"]

    framer.limit = 5

    assert framer.feed(memoryview(framed(b"abcde"))) == [b"abcde"]


def test_feed_ends_a_frame_that_has_begun() -> None:
    framer = Framer(LIMIT)
    data = framed(b"abcdef", b"gh")

    assert framer.feed(memoryview(data[:7])) == []
    assert framer.feed(memoryview(data[7:8])) == []
    assert framer.feed(memoryview(data[8:])) == [b"abcdef", b"gh"]


def test_a_small_limit_is_taken_in_small_steps() -> None:
    framer = Framer(512 << 10)
    framer.feed(memoryview((512 << 10).to_bytes(4, "big") + b"x"))
    steps = []
    while (target := framer.target()) is not None:
        steps.append(len(target))
        count = len(target)
        target.release()
        framer.filled(count)

    assert steps[0] == 16 << 10
    assert sum(steps) == (512 << 10) - 1
    assert all(later <= sum(steps[:index]) + 1 for index, later in enumerate(steps[1:], 1))


def test_the_memory_of_a_frame_is_used_again_when_nothing_looks_at_it() -> None:
    framer = Framer(LIMIT, keeps=True)
    first = whole(framer, b"1" * 200_000)
    view = memoryview(first)[:10]
    second = whole(framer, b"2" * 300_000)
    assert second is not first
    assert view == b"1" * 10
    view.release()
    for content in (b"3" * 100_000, b"4" * 400_000):
        frame = whole(framer, content)
        assert frame is first or frame is second
        assert frame == content


def test_the_memory_of_a_frame_is_its_callers_unless_told_otherwise() -> None:
    framer = Framer(LIMIT)
    first = whole(framer, b"1" * 200_000)
    assert whole(framer, b"2" * 200_000) is not first
    assert first == b"1" * 200_000


def whole(framer: Framer, content: bytes) -> bytearray:
    """A large frame, received in two pieces."""
    assert framer.feed(memoryview(framed(content)[:1000])) == []
    while True:
        target = framer.target()
        assert target is not None
        have = framer._have
        count = min(len(target), len(content) - have)
        target[:count] = content[have : have + count]
        target.release()
        frame = framer.filled(count)
        if frame is not None:
            return frame
