"""Rolling replacement beyond the limit, with an administrator who forges all that he can write: sets, revisions, owners,
templates, replicas and maxSurge, in any order. Only stamps and uids are out of his reach."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from ullage.ledger.amounts import Amounts
from ullage.projects.machines.facts import Room
from ullage.projects.machines.surge import (
    DeploymentFacts,
    OwnedMachine,
    SetFacts,
    SurgeAllowance,
    allowance,
    max_surge_of,
    within,
)
from ullage.quantity import ZERO, Quantity

LIMIT = Quantity.of(20)
NAMES = st.sampled_from(["a", "b", "c"])
SURGES = st.one_of(st.integers(-1, 1000), st.sampled_from(["0%", "25%", "100%", "1000%", "x"]))
DEPLOYMENTS = st.builds(
    DeploymentFacts,
    uid=st.sampled_from(["d-1", "d-2"]),
    name=st.just("web"),
    replicas=st.integers(0, 30),
    template=NAMES,
    max_surge=SURGES,
    paused=st.sampled_from([False, False, False, True]),
)
SETS = st.builds(
    SetFacts,
    uid=st.sampled_from(["s-1", "s-2", "s-3"]),
    owner=st.sampled_from(["d-1", "d-2", ""]),
    template=NAMES,
    revision=st.sampled_from(["1", "2", "3", ""]),
)


@dataclass(frozen=True)
class Create:
    """So many machines, one after the other, each as it is admitted."""

    deployment: str
    creator: str
    cpu: int
    number: int = 1


@dataclass(frozen=True)
class Delete:
    place: int


@dataclass(frozen=True)
class Disown:
    """The owner reference of a machine is exchanged."""

    place: int
    owner: str


@dataclass(frozen=True)
class Roll:
    """A set becomes the newest of a deployment, in every respect; and it creates what it may."""

    deployment: DeploymentFacts
    newest: str
    cpu: int


IDS = st.sampled_from(["s-1", "s-2", "s-3"])
CREATES = st.builds(Create, st.sampled_from(["d-1", "d-2"]), IDS, st.integers(1, 4), st.integers(1, 30))
ROLLS = st.builds(
    lambda deployment, replicas, surge, newest, cpu: Roll(
        replace(deployment, replicas=replicas, max_surge=surge, paused=False), newest, cpu
    ),
    DEPLOYMENTS,
    st.sampled_from([5, 10, 20, 40]),
    st.sampled_from([1, 1000, "25%", "100%"]),
    IDS,
    st.sampled_from([1, 2, 4]),
)
STEPS = st.one_of(
    CREATES,
    ROLLS,
    st.builds(Delete, st.integers(0, 99)),
    st.builds(Disown, st.integers(0, 99), IDS),
    DEPLOYMENTS,
    SETS,
)
Step = Create | Roll | Delete | Disown | DeploymentFacts | SetFacts


def cores(number: int) -> Amounts:
    return Amounts({"cpu": Quantity.of(number)})


@dataclass
class World:
    """A project with a quota of twenty cores, and an exact ledger."""

    deployments: dict[str, DeploymentFacts] = field(default_factory=dict)
    sets: dict[str, SetFacts] = field(default_factory=dict)
    machines: list[OwnedMachine] = field(default_factory=list)
    uids: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def used(self) -> Quantity:
        return sum((one.amounts["cpu"] for one in self.machines), ZERO)

    def allowed(self, step: Create) -> SurgeAllowance | None:
        deployment = self.deployments.get(step.deployment)
        if deployment is None:
            return None
        rooms = {"cpu": Room(self.used, ZERO, LIMIT)}
        return allowance(
            deployment,
            self.sets.values(),
            self.machines,
            setting="replace",
            creator=step.creator,
            size=cores(step.cpu),
            room=rooms,
        )

    def create(self, step: Create) -> None:
        """Admitted where it fits, or where it is within the allowance."""
        over = self.used + Quantity.of(step.cpu) - LIMIT
        if over.sign > 0:
            found = self.allowed(step)
            if found is None or not within(found, {"cpu": over}):
                return
            self.check(step, over)
        self.machines.append(OwnedMachine(uid=f"u-{next(self.uids)}", owner=step.creator, amounts=cores(step.cpu)))

    def check(self, step: Create, over: Quantity) -> None:
        """What must hold whenever the limit is passed."""
        event("the limit was passed")
        deployment = self.deployments[step.deployment]
        own = {one.uid for one in self.sets.values() if one.owner == deployment.uid}
        held = [one for one in self.machines if one.owner in own]
        old = [one.amounts["cpu"] for one in held if one.owner != step.creator]
        surge = min(max_surge_of(deployment.max_surge, deployment.replicas), len(old))
        assert over <= sum(old, ZERO)
        assert over.nanos <= surge * Quantity.of(step.cpu).nanos
        assert len(held) + 1 <= deployment.replicas + surge
        # Whatever he forges: as much again as the quota, which is a replacement of all, is the most that there ever is.
        assert over <= LIMIT

    def take(self, step: Step) -> None:
        match step:
            case Create():
                for _ in range(step.number):
                    self.create(step)
            case Roll():
                self.roll(step)
            case DeploymentFacts():
                self.deployments[step.uid] = step
            case SetFacts():
                self.sets[step.uid] = step
            case Delete() if self.machines:
                self.machines.pop(step.place % len(self.machines))
            case Disown() if self.machines:
                place = step.place % len(self.machines)
                self.machines[place] = replace(self.machines[place], owner=step.owner)

    def roll(self, step: Roll) -> None:
        for number, one in enumerate(("s-1", "s-2", "s-3")):
            self.sets[one] = SetFacts(uid=one, owner=step.deployment.uid, template=f"of-{one}", revision=f"{number + 1}")
        self.sets[step.newest] = replace(self.sets[step.newest], template=step.deployment.template, revision="9")
        self.deployments[step.deployment.uid] = step.deployment
        self.take(Create(step.deployment.uid, step.newest, step.cpu, 60))


def world_at_the_limit(owner: str, size: int) -> World:
    """One deployment that has used its quota up, and whose template has just been changed."""
    world = World()
    replicas = 20 // size
    world.take(DeploymentFacts(uid="d-1", name="web", replicas=replicas, template="b", max_surge="100%"))
    world.take(SetFacts(uid="s-1", owner="d-1", template="a", revision="1"))
    world.take(SetFacts(uid="s-2", owner="d-1", template="b", revision="2"))
    for _ in range(replicas):
        world.take(Create("d-1", owner, size))
    return world


@settings(max_examples=200)
@given(st.sampled_from([1, 2, 4]), st.lists(STEPS, min_size=5, max_size=40))
def test_what_is_over_the_limit_is_never_more_than_what_is_being_replaced(size: int, steps: list[Step]) -> None:
    world = world_at_the_limit("s-1", size)
    for step in steps:
        world.take(step)
        assert world.used <= LIMIT + LIMIT


@given(st.sampled_from([1, 2, 4]), st.integers(0, 12))
def test_a_rolling_replacement_at_the_limit_comes_to_its_end(size: int, surge: int) -> None:
    """As machine-controller does it: as many new ones as it may, then an old one goes."""
    world = world_at_the_limit("s-1", size)
    world.take(replace(world.deployments["d-1"], max_surge=surge))
    replicas = world.deployments["d-1"].replicas
    most = ZERO
    for _ in range(replicas):
        while sum(one.owner == "s-2" for one in world.machines) < replicas and len(world.machines) < replicas + surge:
            count = len(world.machines)
            world.take(Create("d-1", "s-2", size))
            if len(world.machines) == count:
                break
        most = max(most, world.used)
        world.machines.remove(next(one for one in world.machines if one.owner == "s-1"))
    world.take(Create("d-1", "s-2", size))
    assert [one.owner for one in world.machines] == ["s-2"] * replicas
    assert most == LIMIT + Quantity.of(min(surge, replicas) * size)


@settings(max_examples=40)
@given(st.lists(CREATES, min_size=5, max_size=10))
def test_many_deployments_do_not_add_up(creates: list[Create]) -> None:
    """Two deployments that each replace all that they have, at once: together they pass the limit by what one of them may."""
    world = World()
    for number in ("1", "2"):
        world.take(DeploymentFacts(uid=f"d-{number}", name="web", replicas=10, template="b", max_surge="100%"))
        world.take(SetFacts(uid=f"s-{number}", owner=f"d-{number}", template="a", revision="1"))
        world.take(SetFacts(uid=f"t-{number}", owner=f"d-{number}", template="b", revision="2"))
        world.take(Create(f"d-{number}", f"s-{number}", 1, 10))
    for one in creates:
        world.take(replace(one, creator=one.deployment.replace("d", "t"), cpu=1))
    assert LIMIT < world.used <= LIMIT + Quantity.of(10)
