"""A process to which the system gives no thread."""

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

STACK_BYTES, SPARE_BYTES = 1 << 36, 1 << 30


@contextmanager
def no_threads() -> Iterator[None]:
    """Threads have stacks of 64 GiB, and RLIMIT_AS leaves room for a gibibyte."""
    stack_bytes = threading.stack_size(STACK_BYTES)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    try:
        resource.setrlimit(resource.RLIMIT_AS, (mapped + SPARE_BYTES, hard))
        with pytest.raises(RuntimeError, match="can't start new thread"):
            threading.Thread(target=int).start()
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        threading.stack_size(stack_bytes)
