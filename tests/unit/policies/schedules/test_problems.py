"""Why claims got no snapshot, as one message."""

from __future__ import annotations

import pytest

from ullage.policies.schedules.api import MOST_PROBLEMS, RunProblem
from ullage.policies.schedules.controllers.run_rules import MESSAGE_LIMIT, counted, gravest, told

Reason = tuple[str, str, bool]
FULL = ("a", "claim a: VolumeSnapshot s-a-1: the limit is full, used 5 of 5", True)
FULL_TOO = ("b", "claim b: VolumeSnapshot s-b-1: the limit is full, used 6 of 6", True)
SPACE = ("c", "claim c: no space", True)
UNDONE = ("d", "claim d: its last snapshot is not done yet", False)


def after(*reasons: Reason) -> tuple[RunProblem, ...]:
    found: tuple[RunProblem, ...] = ()
    for claim, message, refused in reasons:
        found = counted(found, message, claim=claim, refused=refused)
    return found


@pytest.mark.parametrize(
    ("reasons", "waiting", "message", "claim"),
    [
        pytest.param([], [], "", "", id="nothing went wrong"),
        pytest.param([UNDONE, FULL], [], f"{FULL[1]}; {UNDONE[1]}", "a", id="a refusal comes before one that came earlier"),
        pytest.param([FULL, UNDONE], [], f"{FULL[1]}; {UNDONE[1]}", "a", id="and before one that came later"),
        pytest.param(
            [FULL, FULL_TOO], [], f"{FULL[1]} (and other claims)", "a", id="names and numbers make no reason of their own"
        ),
        pytest.param([FULL, SPACE], [], f"{FULL[1]}; {SPACE[1]}", "a", id="two refusals for two reasons"),
        pytest.param(
            [FULL, UNDONE],
            [("e", "claim e: wait")],
            f"{FULL[1]}; tried again: claim e: wait; {UNDONE[1]}",
            "a",
            id="a request to wait stands between",
        ),
        pytest.param([UNDONE], [("e", "claim e: wait")], f"tried again: claim e: wait; {UNDONE[1]}", "", id="or first"),
        pytest.param(
            [],
            [("e", "claim e: wait"), ("f", "claim f: wait"), ("g", "claim g: measured")],
            "tried again: claim e: wait; claim g: measured; 1 more claim is asked to wait",
            "",
            id="requests to wait, for two reasons",
        ),
    ],
)
def test_one_message_has_every_reason(reasons: list[Reason], waiting: list[tuple[str, str]], message: str, claim: str) -> None:
    problems = after(*reasons)
    assert (told(problems, waiting), gravest(problems, waiting)) == (message, claim)


def test_long_reasons_do_not_hide_each_other() -> None:
    problems = after(("a", f"claim a: {'x' * 2000}", True), SPACE, UNDONE)
    message = told(problems)
    assert len(message) <= MESSAGE_LIMIT
    assert message.endswith(f"; {SPACE[1]}; {UNDONE[1]}")


def test_of_more_reasons_than_are_kept_the_least_grave_is_left_out() -> None:
    words = [f"claim a: {'x' * number}" for number in range(1, MOST_PROBLEMS + 1)]
    problems = after(UNDONE, *(("a", word, True) for word in words))
    assert [one.message for one in problems] == words
