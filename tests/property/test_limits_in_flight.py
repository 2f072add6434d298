"""A limit holds from the moment that the request which sets it was answered, on any interleaving; at rest it is what the API
has.

The world is that of `tests/unit/ledger/limit_world.py`. `ULLAGE_WALKS=20000` makes as many walks as that, and needs
`--timeout=0`; `tests/unit/ledger/test_limits_weakened.py` has an interleaving for each rule.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.ledger.limit_world import LimitWorld
from tests.unit.ledger.world import EXPIRY, JARS, KIND

NAMES = st.sampled_from(["ax", "ay", "b", "jar"])
OBJECTS = st.sampled_from(["one", "two"])
SIZES = st.dictionaries(st.sampled_from(["all", "a", "each"]), st.integers(0, 8))
AGO = st.sampled_from([0, 0, 1, 2, 4])
LOST = st.sampled_from([False, False, False, True])
DECIDERS = st.integers(0, 1)


class LimitsMachine(RuleBasedStateMachine):
    @initialize(there=st.none() | st.lists(NAMES, unique=True), size=st.integers(1, 4))
    def begin(self, there: list[str] | None, size: int) -> None:
        """With a ledger that was counted, or with a new one and some things that are there already."""
        self.world = LimitWorld()
        if there is not None:
            self.world.make_ledger(*there, size=size)

    # --- objects with limits ---

    @rule(name=OBJECTS, sizes=SIZES, ago=AGO, lost=LOST)
    def set_limit(self, name: str, sizes: dict[str, int], ago: int, lost: bool) -> None:
        copies = len(self.world.limit_copies.get(name, ()))
        self.world.set_limit(name, copy=-min(1 + ago, max(copies, 1)), lost=lost, sizes=sizes)

    @precondition(lambda self: self.world.limits_flying)
    @rule(data=st.data(), again=st.booleans())
    def commit_limit(self, data: st.DataObject, again: bool) -> None:
        self.world.commit_limit(data.draw(st.sampled_from(self.world.limits_flying)), again=again)

    @precondition(lambda self: self.world.limits_flying)
    @rule(data=st.data())
    def drop_limit(self, data: st.DataObject) -> None:
        self.world.drop_limit(data.draw(st.sampled_from(self.world.limits_flying)))

    @precondition(lambda self: self.world.limit_objects)
    @rule(data=st.data())
    def delete_limit(self, data: st.DataObject) -> None:
        self.world.delete_limit(data.draw(st.sampled_from(sorted(self.world.limit_objects))))

    # --- what is limited ---

    @rule(name=NAMES, size=st.integers(1, 4), decider=DECIDERS)
    def ask(self, name: str, size: int, decider: int) -> None:
        self.world.ask(name, size, self.world.deciders[decider])

    @precondition(lambda self: self.world.flying)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        self.world.commit(data.draw(st.sampled_from(self.world.flying)))

    @precondition(lambda self: self.world.things)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.world.delete(data.draw(st.sampled_from(sorted(self.world.things))))

    # --- processes ---

    @rule(decider=DECIDERS, ago=AGO)
    def follow(self, decider: int, ago: int) -> None:
        self.world.follow(self.world.deciders[decider], ago=ago)

    @rule(decider=DECIDERS)
    def restart(self, decider: int) -> None:
        self.world.restart(self.world.deciders[decider])

    @rule(decider=DECIDERS)
    def fold_limits(self, decider: int) -> None:
        self.world.fold_limits(self.world.deciders[decider])

    @rule(decider=DECIDERS, kind=st.sampled_from([KIND, JARS]), ago=AGO)
    def fold(self, decider: int, kind: str, ago: int) -> None:
        self.world.fold(max(self.world.revision - ago, 0), by=self.world.deciders[decider], kind=kind)

    @rule(ago=AGO)
    def carry(self, ago: int) -> None:
        """A controller that was stalled has an old cache."""
        self.world.carry(at=-min(1 + ago, len(self.world.limit_states)))

    @rule(decider=DECIDERS, reads=st.booleans())
    def look(self, decider: int, reads: bool) -> None:
        if reads:
            self.world.look(self.world.deciders[decider])
        else:
            self.world.see(self.world.deciders[decider])

    @rule(seconds=st.sampled_from([1, 30, EXPIRY + 1]))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)

    # --- what must be so ---

    @invariant()
    def nothing_is_left_out(self) -> None:
        if hasattr(self, "world"):
            self.world.check_sums()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.settle_limits()
            self.world.check_limits_rest()


TestLimitsInFlight = LimitsMachine.TestCase
TestLimitsInFlight.settings = settings(
    max_examples=int(os.environ.get("ULLAGE_WALKS", "150")),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
