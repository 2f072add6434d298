"""The paths of our own hooks: what is served, what comes next, and what a Secret may hold."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ullage.admission.paths import (
    AHEAD,
    KEY_BYTES,
    BadPaths,
    Paths,
    PathState,
    PathStep,
    PathTerms,
    RegisteredPaths,
    apply_path_step,
    find_registered,
    from_secret,
    latest,
    next_path_step,
    to_secret,
)

KEY = b"k" * KEY_BYTES
TERMS = PathTerms(settle=120.0, keep=90.0, every=3600.0)
NOTHING = RegisteredPaths()


def at(*numbers: int, plain: bool = False, unknown: bool = False) -> RegisteredPaths:
    return RegisteredPaths(frozenset(numbers), plain, unknown)


@pytest.mark.parametrize(
    ("state", "registered", "watched", "burned", "starting", "step"),
    [
        pytest.param(PathState(KEY), NOTHING, 1e6, None, True, PathStep.ROTATE, id="unregistered for an hour"),
        pytest.param(PathState(KEY), NOTHING, 0, None, True, None, id="a first start has nothing to do"),
        pytest.param(PathState(KEY), at(0), 3599, None, False, None, id="steady"),
        pytest.param(PathState(KEY), at(0), 3600, None, False, PathStep.ROTATE, id="steady for an hour"),
        pytest.param(PathState(KEY), at(0), 0, 0, True, PathStep.ROTATE, id="registered when we start"),
        pytest.param(PathState(KEY, 1), at(0), 0, 0, False, PathStep.PUBLISH, id="rotated, not registered yet"),
        pytest.param(PathState(KEY, 1), at(0, 1), 0, 0, False, PathStep.PUBLISH, id="half registered"),
        pytest.param(PathState(KEY, 1), at(1, unknown=True), 0, None, False, PathStep.PUBLISH, id="an entry was changed"),
        pytest.param(PathState(KEY, 1), at(1), 89, 0, False, None, id="a request under the former path may be under way"),
        pytest.param(PathState(KEY, 1), at(1), 90, 0, False, PathStep.RETIRE, id="the former path is old"),
        pytest.param(PathState(KEY, 1), NOTHING, 1e6, None, False, None, id="taken out: nothing is put back"),
        pytest.param(PathState(KEY, 3, 0), at(3), 0, 3, False, PathStep.ROTATE, id="away again before the former is retired"),
        pytest.param(PathState(KEY, AHEAD, 0), at(AHEAD), 0, AHEAD, False, None, id="no further than replicas know ahead"),
        pytest.param(PathState(KEY), at(7), 0, None, False, PathStep.CATCH_UP, id="the Secret is older than the registration"),
        pytest.param(PathState(KEY), at(unknown=True), 0, None, True, PathStep.RENEW, id="of another key, at a start"),
        pytest.param(PathState(KEY), at(unknown=True), 0, None, False, PathStep.PUBLISH, id="changed while we run: put back"),
        pytest.param(PathState(KEY), at(plain=True), 1e6, None, True, PathStep.ADOPT, id="of an earlier release"),
        pytest.param(PathState(KEY, plain=True), at(plain=True), 119, None, False, None, id="its replicas may run still"),
        pytest.param(PathState(KEY, plain=True), at(plain=True), 120, None, False, PathStep.PUBLISH, id="they are gone"),
        pytest.param(PathState(KEY, plain=True), at(0), 89, None, False, None, id="plain ones may be under way"),
        pytest.param(PathState(KEY, plain=True), at(0), 90, None, False, PathStep.RETIRE, id="plain ones are retired"),
    ],
)
def test_the_next_step(
    state: PathState, registered: RegisteredPaths, watched: float, burned: int | None, starting: bool, step: PathStep | None
) -> None:
    assert next_path_step(state, registered, TERMS, watched=watched, burned=burned, starting=starting) is step


def test_what_is_registered_is_found_by_its_number() -> None:
    state = PathState(KEY, 5, 4)
    entries = [("a", state.token("a", 5)), ("b", state.token("b", 4)), ("c", state.token("c", 9000)), ("d", "")]
    assert find_registered(state, entries) == at(4, 5, 9000, plain=True)
    for other in ("x", state.token("b", 5), state.token("a", 50_000), None):
        assert find_registered(state, [("a", other)]) == at(unknown=True)


def test_a_retired_path_is_not_served_and_the_next_ones_are() -> None:
    paths = Paths(["a"], PathState(KEY, 3, 2))
    known = [number for number in range(20) if paths.is_known("a", PathState(KEY).token("a", number))]
    assert known == [2, 3, *range(4, 4 + AHEAD)]
    assert not paths.is_known("a", "")
    assert not paths.is_known("a", "\udc80é")
    assert not paths.is_known("b", PathState(KEY).token("b", 3))
    assert not paths.is_known("a", PathState(KEY).token("b", 3)), "the path of one hook is not that of another"
    assert not paths.is_known("a", PathState(b"o" * KEY_BYTES).token("a", 3))
    paths.serve()
    assert not paths.is_known("a", PathState(KEY).token("a", 3))
    assert not Paths(["a"]).is_known("a", ""), "without a state nothing is served"


def test_a_rolled_back_secret_brings_no_number_back() -> None:
    now, before, other = PathState(KEY, 9, 9), PathState(KEY, 5, 4), PathState(b"o" * KEY_BYTES, 1)
    assert latest(now, before) == now
    assert latest(before, now) == now
    assert latest(None, before) == before
    assert latest(now, other) == other
    assert apply_path_step(PathStep.CATCH_UP, before, at(9), key=b"") == now


def test_a_state_survives_its_secret_and_shows_no_key() -> None:
    state = PathState(KEY, 12, 9, plain=True)
    assert from_secret(to_secret(state)) == state
    assert "kkk" not in repr(state)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"key": b"short"}, "key has 5 bytes, and needs 32"),
        ({"number": b"-1"}, "number is no number"),
        ({"number": "²".encode()}, "number is no number"),
        ({"oldest": b""}, "oldest is no number"),
        ({"oldest": b"9"}, "oldest is 9, and has to be between 0 and number, 3"),
        ({"number": b"99"}, "oldest is 0, and has to be between 95 and number, 99"),
        ({"plain": b"maybe"}, "plain is neither true nor false"),
    ],
)
def test_a_spoilt_secret_is_refused_with_the_member(change: dict[str, bytes], problem: str) -> None:
    with pytest.raises(BadPaths, match=problem):
        from_secret(to_secret(PathState(KEY, 3, 0)) | change)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_is_registered_is_served_by_every_replica(seed: int) -> None:
    """Replicas that look at the Secret now and then, are killed, were away, and have clocks of their own."""
    chance, now, look = random.Random(seed), 0.0, 30.0
    stored, registered = PathState(KEY), at(0)
    served: list[PathState] = [stored] * 3
    since: list[tuple[tuple[PathState, RegisteredPaths], float]] = [((stored, registered), 0.0)] * 3
    burned: list[int | None] = [None] * 3
    looked = [0.0] * 3
    shown: dict[int, float] = {0: 0.0}  # until when an API server may ask under a number
    for _ in range(2000):
        now += chance.choice((0.1, 1.0, 5.0, 60.0, 4000.0)) if min(looked) + look > now else 0.0
        # A replica that did not look for `look` seconds does so now, before time goes on.
        late = [one for one in range(3) if looked[one] + look <= now]
        one = late[0] if late else chance.randrange(3)
        if not late and chance.random() < 0.2:  # killed: the new process knows nothing, and what is registered may be printed
            since[one], burned[one] = ((stored, registered), now), max(registered.numbers)
        served[one] = latest(served[one], stored)
        looked[one] = now
        if since[one][0] != (served[one], registered):
            since[one] = ((served[one], registered), now)
        watched = now - since[one][1]
        step = next_path_step(served[one], registered, TERMS, watched=watched, burned=burned[one], starting=False)
        if step is PathStep.PUBLISH:
            shown |= dict.fromkeys(registered.numbers, now + 60.0)
            registered = at(served[one].number)
        elif step is not None:
            stored = served[one] = apply_path_step(step, served[one], registered, key=KEY)
        for number in {*registered.numbers, *(number for number, until in shown.items() if until > now)}:
            for replica in range(3):
                assert Paths(["a"], served[replica]).is_known("a", PathState(KEY).token("a", number)), (number, served[replica])
    assert stored.number > 20
    assert replace(stored, oldest=stored.number) == PathState(KEY, stored.number, stored.number)
