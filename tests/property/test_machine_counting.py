"""An administrator of a user cluster against what his Machines count.

He has removed the webhook from his cluster, and asks it himself, with requests that he makes up; he keeps every stamp that he
ever saw and writes any of them on any Machine; he exchanges provider specs. Flavours grow and shrink meanwhile. The controller
on the seed looks at each Machine after each step. A server keeps the size that it was made with: what its Machine counts is
never less than that, nor less than it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from ullage.ledger.amounts import Amounts
from ullage.ledger.charging.stamps import STAMP, Marks
from ullage.projects.machines.counting import Counted, Remembered, count, remember, sized_anew
from ullage.projects.machines.facts import MachineFacts
from ullage.projects.machines.signatures import SIGNATURE, SigningKeys, Valid, sign_bound, verify
from ullage.projects.machines.updates import marks_fault, marks_on_create, marks_on_update, update_fault
from ullage.quantity import Quantity

KEYS = SigningKeys(b"k" * 32)
START = datetime(2026, 1, 1, tzinfo=UTC)
FLAVOURS = st.sampled_from(["a", "b", "c"])
PLACES = st.one_of(st.just(-1), st.integers(0, 99))  # the latest, or any


@dataclass(frozen=True)
class Grow:
    """A flavour is another size from now on; some time passes."""

    flavour: str
    cpu: int
    seconds: int


@dataclass(frozen=True)
class Ask:
    """The mutating hook is asked about the creation of a Machine that he makes up."""

    flavour: str


@dataclass(frozen=True)
class AskUpdate:
    """The mutating hook is asked about an update that he makes up: a Machine with any stamp, as if it was stored."""

    machine: int
    stamp: int
    flavour: str
    remark: str


@dataclass(frozen=True)
class Make:
    """A Machine comes into being, with any of the stamps that he has, or none."""

    flavour: str
    stamp: int | None


@dataclass(frozen=True)
class Write:
    """A Machine gets another stamp or spec, or both."""

    machine: int
    stamp: int | None
    flavour: str
    remark: str


Step = Grow | Ask | AskUpdate | Make | Write
REMARKS = st.sampled_from(["", "x"])
STEPS = st.one_of(
    st.builds(Make, FLAVOURS, st.one_of(st.none(), PLACES)),
    st.builds(Write, PLACES, st.one_of(st.none(), PLACES), FLAVOURS, REMARKS),
    st.builds(Grow, FLAVOURS, st.integers(1, 4), st.sampled_from([1, 20, 100, 1000])),
    st.builds(Ask, FLAVOURS),
    st.builds(AskUpdate, PLACES, PLACES, FLAVOURS, REMARKS),
)


def spec(flavour: str, remark: str = "") -> dict[str, Any]:
    return {"flavour": flavour, "remark": remark}


@dataclass
class Project:
    now: datetime = START
    sizes: dict[str, int] = field(default_factory=lambda: {"a": 1, "b": 2, "c": 4})
    machines: list[MachineFacts] = field(default_factory=list)
    servers: dict[str, Amounts] = field(default_factory=dict)  # by uid: as they were made
    remembered: dict[str, Remembered] = field(default_factory=dict)
    signed: dict[str, set[Amounts]] = field(default_factory=dict)  # by uid: what the controller has signed
    stamps: list[tuple[str | None, str | None]] = field(default_factory=list)  # all that he ever saw

    def size_of(self, provider_spec: Any) -> Amounts:
        return Amounts({"cpu": Quantity.of(self.sizes[provider_spec["flavour"]])})

    def keep(self, marks: Marks) -> None:
        self.stamps.append((marks[STAMP], marks[SIGNATURE]))

    def stamped(self, facts: MachineFacts, place: int | None) -> MachineFacts:
        takes, signature = (None, None) if place is None or not self.stamps else self.stamps[place % len(self.stamps)]
        return replace(facts, takes=takes, signature=signature)

    def take(self, step: Step) -> None:
        coming = MachineFacts(cluster="c", namespace="kube-system", generate_name="w-")
        match step:
            case Grow():
                self.sizes[step.flavour] = step.cpu
                self.now += timedelta(seconds=step.seconds)
            case Ask():
                made_up = replace(coming, provider_spec=spec(step.flavour))
                self.keep(marks_on_create(made_up, self.size_of(made_up.provider_spec), KEYS, now=self.now))
            case AskUpdate() if self.machines:
                old = self.stamped(self.machines[step.machine % len(self.machines)], step.stamp)
                new = replace(old, provider_spec=spec(step.flavour, step.remark))
                marks = marks_on_update(old, new, KEYS, now=self.now, size_of=self.size_of)
                self.check_given(old, new, marks)
                self.keep(marks)
            case Make():
                uid = f"u-{len(self.machines)}"
                there = replace(coming, uid=uid, name=f"w-{uid}", created=self.now, provider_spec=spec(step.flavour))
                self.machines.append(self.stamped(there, step.stamp))
                self.servers[uid] = self.size_of(there.provider_spec)
            case Write() if self.machines:
                place = step.machine % len(self.machines)
                changed = replace(self.machines[place], provider_spec=spec(step.flavour, step.remark))
                self.machines[place] = self.stamped(changed, step.stamp)
        self.machines = [self.looked_at(one) for one in self.machines]

    def check_given(self, old: MachineFacts, new: MachineFacts, marks: Marks) -> None:
        """What the hook signs for an update that is made up: only what the controller has signed for that uid, and only for a
        spec that costs as much, or as much as the one that it was signed for costs by now."""
        if (marks[STAMP], marks[SIGNATURE]) == (old.takes, old.signature):
            return
        verdict = verify(replace(new, takes=marks[STAMP], signature=marks[SIGNATURE]), KEYS)
        assert isinstance(verdict, Valid)
        event("bound by the hook")
        assert verdict.amounts in self.signed[old.uid]
        assert self.size_of(new.provider_spec) in (verdict.amounts, self.size_of(old.provider_spec))

    def looked_at(self, machine: MachineFacts) -> MachineFacts:
        """What the controller does about a Machine: it remembers what it counts, and signs it where that is needed."""
        verdict = verify(machine, KEYS)
        found = count(machine, verdict, remembered=self.remembered.get(machine.uid))
        if isinstance(found, Counted) and not found.bind:
            self.remembered[machine.uid] = remember(machine, found)
            return machine
        event(type(found).__name__)
        amounts = sized_anew(found, self.size_of(machine.provider_spec))
        assert amounts is not None
        signed = sign_bound(machine, amounts, KEYS, now=self.now)
        self.keep(signed.marks())
        self.signed.setdefault(machine.uid, set()).add(amounts)
        return self.looked_at(replace(machine, takes=signed.takes, signature=signed.signature))


@settings(max_examples=200)
@given(st.lists(STEPS, min_size=8, max_size=30))
def test_a_machine_never_counts_less_than_its_server_takes_nor_than_it_did(steps: list[Step]) -> None:
    project, most = Project(), dict[str, Amounts]()
    for step in steps:
        project.take(step)
        for machine in project.machines:
            verdict = verify(machine, KEYS)
            assert isinstance(verdict, Valid)
            assert project.servers[machine.uid] <= verdict.amounts
            assert most.get(machine.uid, Amounts()) <= verdict.amounts
            most[machine.uid] = verdict.amounts


@settings(max_examples=200)
@given(st.lists(STEPS, min_size=8, max_size=30), PLACES, st.one_of(st.none(), PLACES), FLAVOURS, REMARKS)
def test_with_the_webhook_in_place_no_update_lowers_what_is_counted(
    steps: list[Step], place: int, stamp: int | None, flavour: str, remark: str
) -> None:
    """Whatever he has collected without it, and without the memory of the seed."""
    project = Project()
    # One Machine that was sized anew when its flavour had grown, so that an earlier stamp of it says less.
    for step in (Make("b", None), Grow("b", 4, 1), Write(0, None, "b", ""), *steps):
        project.take(step)
    old = project.machines[place % len(project.machines)]
    sent = replace(project.stamped(old, stamp), provider_spec=spec(flavour, remark))
    if update_fault(old, sent, KEYS, size_of=project.size_of, limited=True) is not None:
        event("refused")
        return
    marks = marks_on_update(old, sent, KEYS, now=project.now, size_of=project.size_of)
    new = replace(sent, takes=marks[STAMP], signature=marks[SIGNATURE])
    assert marks_fault(old, new, KEYS) is None
    had, has = verify(old, KEYS), verify(new, KEYS)
    assert isinstance(had, Valid)
    assert isinstance(has, Valid)
    assert had.amounts <= has.amounts
