"""Places for commands in pods: a tenant leaves some to others, in one namespace or in several."""

from __future__ import annotations

import contextlib
from collections import Counter

import pytest

from ullage.standalone.world.kubelet.server import KEPT, MOST_AT_ONCE, MOST_OF_ONE, RunningCommands


def fill(running: RunningCommands, stack: contextlib.ExitStack, *namespaces: str) -> Counter[str]:
    """Begins commands in turn until no namespace finds a place; how many run in each."""
    begun: Counter[str] = Counter()
    left = list(namespaces)
    while left:
        for namespace in list(left):
            if running.full(namespace) is not None:
                left.remove(namespace)
                continue
            stack.enter_context(running.one(namespace))
            begun[namespace] += 1
    return begun


@pytest.mark.parametrize(
    ("namespaces", "most"),
    [
        pytest.param(1, MOST_OF_ONE, id="one namespace has its share"),
        pytest.param(3, 3 * MOST_OF_ONE, id="three have three"),
        pytest.param(10, MOST_AT_ONCE - KEPT, id="ten leave the places that are kept for others"),
    ],
)
def test_commands_of_some_namespaces_leave_places_to_those_that_have_none(namespaces: int, most: int) -> None:
    running = RunningCommands()
    with contextlib.ExitStack() as stack:
        begun = fill(running, stack, *(f"attacker-{number}" for number in range(namespaces)))
        assert begun.total() == most
        assert max(begun.values()) <= MOST_OF_ONE
        for number in range(KEPT):
            assert running.full(f"victim-{number}") is None
            stack.enter_context(running.one(f"victim-{number}"))


def test_there_is_an_end_to_all_and_a_place_is_free_again_when_its_command_has_ended() -> None:
    running = RunningCommands()
    with contextlib.ExitStack() as stack:
        begun = fill(running, stack, *(f"n{number}" for number in range(MOST_AT_ONCE + 1)))
        assert begun.total() == MOST_AT_ONCE
        assert running.full("late") == f"{MOST_AT_ONCE} commands are running already, 0 of them in namespace late"
    assert running.full("late") is None
    with pytest.raises(ConnectionError), running.one("late"):
        raise ConnectionError
    with contextlib.ExitStack() as stack:
        assert fill(running, stack, "late") == {"late": MOST_OF_ONE}, "one that failed gives its place back, too"
