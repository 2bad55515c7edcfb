"""Frames: four bytes with the length of what follows, big-endian, then a request or a response.

    [ i32 size ][ size bytes ] [ i32 size ][ size bytes ] ...

Small frames are cut out of the buffer that all connections share. The rest of a frame that does not fit there goes into
a bytearray of its own, which `target` gives: the caller receives into it, and nothing is copied twice.

New memory is filled with zeros, page by page, which takes longer than a checksum. So a client, which gets one large
frame after the other, uses the memory of the last two again, once nothing looks at it any more.

Invariant: a length is checked against the limit before anything of that size is made.
"""

from pylog.errors import InvalidRequest

SIZE_BYTES = 4
GROWTH_BYTES = 1 << 20
"""A frame that is announced gets memory in steps as it comes: an announcement alone costs no more than one step."""
STEPS_MIN = 32
"""A small limit is taken in this many steps at least: where it is small, the client is not known yet."""
KEPT_MAX = 2
KEPT_BYTES_MAX = 8 << 20
"""How many frames are kept for the next ones, and the size of the largest."""


class Framer:
    """The frames of one connection. `limit` is the size of the largest frame that is taken.

    `keeps`: whether memory is used again. A caller has looked at a frame by the next call, and holds views of it alone.
    """

    __slots__ = ("_done", "_frame", "_have", "_head", "_keeps", "_kept", "_size", "limit")

    def __init__(self, limit: int, *, keeps: bool = False) -> None:
        self.limit = limit
        self._keeps = keeps
        self._kept: list[bytearray] = []
        self._done: bytearray | None = None
        """The frame that the last call has given."""
        self._head = b""
        self._frame: bytearray | None = None
        self._have = 0
        self._size = 0

    @property
    def is_inside(self) -> bool:
        """Whether a frame has begun and not ended."""
        return self._frame is not None or bool(self._head)

    @property
    def held(self) -> int:
        """The bytes of memory that an unfinished frame takes."""
        return 0 if self._frame is None else len(self._frame)

    def target(self) -> memoryview | None:
        """Where to receive the next bytes of an unfinished frame; None: into the shared buffer, for `feed`."""
        if self._frame is None:
            return None
        if self._have == len(self._frame):
            self._grow(self._frame, self._size)
        return memoryview(self._frame)[self._have :]

    def _grow(self, frame: bytearray, size: int) -> None:
        step = max(len(frame), min(GROWTH_BYTES, self.limit // STEPS_MIN), 1)
        frame.extend(bytes(min(step, size - len(frame))))

    def filled(self, count: int) -> bytearray | None:
        """`count` bytes were received into `target`; gives the frame if it is whole now."""
        assert self._frame is not None, "only an unfinished frame has a target"
        self._have += count
        if self._have < self._size:
            return None
        frame, self._frame = self._frame, None
        if self._keeps and self._size <= KEPT_BYTES_MAX:
            self._done = frame
        return frame

    def _begun(self, there: memoryview, size: int) -> bytearray:
        """The memory of a frame that begins with `there`: that of an earlier one, if nothing looks at it any more."""
        for kept in self._kept:
            try:
                # Refused as long as there is a view of it.
                del kept[min(size, len(kept) - 1) :]
            except BufferError:
                continue
            self._kept = [other for other in self._kept if other is not kept]
            kept[: len(there)] = there
            self._grow(kept, size)
            return kept
        return bytearray(there)

    def clear(self) -> None:
        """Release the memory of an unfinished frame: no more of it comes."""
        self._frame = None

    def feed(self, data: memoryview) -> list[bytearray]:
        """Take bytes of the shared buffer; gives the frames that are whole, each in memory of its own.

        Raises InvalidRequest (a length that is negative or above the limit): the connection cannot go on.
        """
        if self._done is not None:
            self._kept = [*self._kept, self._done][-KEPT_MAX:]
            self._done = None
        frames: list[bytearray] = []
        position, end = 0, len(data)
        if self._frame is not None:
            position = min(self._size - self._have, end)
            target = self._frame
            target[self._have :] = data[:position]
            whole = self.filled(position)
            if whole is None:
                return frames
            frames.append(whole)
        while position < end:
            needed = SIZE_BYTES - len(self._head)
            if needed > end - position or self._head:
                taken = data[position : position + needed]
                self._head += bytes(taken)
                position += len(taken)
                if len(self._head) < SIZE_BYTES:
                    break
                size, self._head = int.from_bytes(self._head, "big", signed=True), b""
            else:
                size = int.from_bytes(data[position : position + SIZE_BYTES], "big", signed=True)
                position += SIZE_BYTES
            if not 0 <= size <= self.limit:
                raise InvalidRequest(f"a frame of {size} bytes was announced: 0 to {self.limit} are taken")
            there = data[position : position + size]
            position += len(there)
            if len(there) == size:
                frames.append(bytearray(there))
            else:
                self._frame, self._have, self._size = self._begun(there, size), len(there), size
        return frames
