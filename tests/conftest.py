"""What every test counts on."""

from __future__ import annotations

import gc
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# A shell that runs us in the background without job control, or under nohup, hands these down as ignored, and every process
# that a test starts would inherit that: Ctrl-C and a hang-up could not be tried.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

# The machine is shared: how long an example takes, or takes to be made up, says nothing about the code.
settings.register_profile("ullage", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ullage")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keeps the garbage collector away from modules and tests: none of them goes before the process does."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
