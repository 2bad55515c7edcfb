"""Tests of coroutines: each runs in a loop of its own, within a time."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

from support.patience import HANG_SECONDS

P = ParamSpec("P")


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test that is a coroutine; TimeoutError where it hangs."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def within() -> None:
            async with asyncio.timeout(HANG_SECONDS):
                await test(*args, **kwargs)

        asyncio.run(within())

    return run


async def turns(count: int = 3) -> None:
    """Let the loop go round: what is ready runs."""
    for _ in range(count):
        await asyncio.sleep(0)
