"""The paths of our own hooks: what is served, what comes next, and what a Secret may hold."""

from __future__ import annotations

import random

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


class Fleet:
    """Three replicas that look at the Secret now and then, are killed, were away, and have clocks of their own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.stored, self.registered = PathState(KEY), at(0)
        self.served = [self.stored] * 3
        self.since = [((self.stored, self.registered), 0.0)] * 3
        self.burned: list[int | None] = [None] * 3
        self.looked = [0.0] * 3
        self.asked = {0: 0.0}  # until when API servers may ask under a number that is not registered any more

    def kill(self, one: int) -> None:
        """The next process knows nothing, and what is registered may have been printed. It begins at once."""
        self.served[one], self.burned[one] = self.stored, max(self.registered.numbers)
        self.since[one] = ((self.stored, self.registered), self.now)
        for _ in range(3):
            self.look(one)

    def look(self, one: int) -> None:
        self.served[one], self.looked[one] = latest(self.served[one], self.stored), self.now
        if self.since[one][0] != (self.served[one], self.registered):
            self.since[one] = ((self.served[one], self.registered), self.now)
        watched = self.now - self.since[one][1]
        burned = self.burned[one]
        step = next_path_step(self.served[one], self.registered, TERMS, watched=watched, burned=burned, starting=False)
        if step is PathStep.PUBLISH:
            self.asked |= dict.fromkeys(self.registered.numbers, self.now + 60.0)
            self.registered = at(self.served[one].number)
        elif step is not None:
            self.stored = self.served[one] = apply_path_step(step, self.served[one], self.registered, key=KEY)

    def check(self) -> None:
        for number in {*self.registered.numbers, *(number for number, until in self.asked.items() if until > self.now)}:
            for state in self.served:
                assert Paths(["a"], state).is_known("a", PathState(KEY).token("a", number)), (number, state)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_registered_is_served_by_every_replica(seed: int) -> None:
    chance, fleet = random.Random(seed), Fleet()
    for _ in range(600):
        if late := [one for one in range(3) if fleet.looked[one] + 30.0 <= fleet.now]:
            fleet.look(late[0])  # before time goes on: a replica looks every 30 s
        elif chance.random() < 0.3:
            fleet.kill(chance.randrange(3))
        else:
            fleet.look(chance.randrange(3))
            fleet.now += chance.choice((0.1, 1.0, 5.0, 30.0, 90.0, 4000.0))
        fleet.check()
    assert fleet.stored.number > 10
