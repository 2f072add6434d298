"""Large objects are worked out in a thread, small ones at once."""

from __future__ import annotations

import threading

import pytest

from ullage.standalone.apiserver.limits.threads import INLINE, offload


@pytest.mark.parametrize(("size", "beside"), [(0, False), (INLINE, False), (INLINE + 1, True)])
async def test_only_what_is_large_is_worked_out_beside_the_loop(size: int, beside: bool) -> None:
    assert (await offload(size, threading.get_ident) != threading.get_ident()) is beside


async def test_what_is_worked_out_beside_the_loop_may_fail() -> None:
    with pytest.raises(ZeroDivisionError):
        await offload(INLINE + 1, lambda: 1 // 0)
