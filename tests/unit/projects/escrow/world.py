"""A master's record, seeds that admit machines on their own, and masters that are held up, crash and see late. No I/O.

A seed admits what fits into the limits that it has at that moment, and knows nothing of the others. What a master knows of a
seed is a copy that may be old. `check` asks after every event what has been promised: no more is used than the quota in force
allows. A quota that is lowered is in force once everybody keeps to it, and that is said by the record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from ullage.ledger.amounts import Amounts, Cell, Limits, Wanted
from ullage.projects.escrow.seeds import NO_LEDGER, SeedLedger
from ullage.projects.escrow.steps import Carry, Quota, Record, Step, next_steps
from ullage.projects.escrow.terms import Escrow
from ullage.projects.names import ACCOUNT
from ullage.quantity import ZERO, Format, Quantity

BEGIN = datetime(2026, 11, 16, 12, tzinfo=UTC)
WITHOUT_END = 10**9


def amount(resource: str, count: int) -> Quantity:
    return Quantity.of(count, Format.BINARY_SI if resource == "memory" else Format.DECIMAL_SI)


@dataclass
class Seed:
    """A seed cluster with a ledger, once it was told a limit."""

    change: int = 0
    limits: Limits = field(default_factory=dict)
    grants: Limits = field(default_factory=dict)
    noticed: int = -1  # the change that its count is about
    counted: Amounts = field(default_factory=Amounts)
    machines: list[Amounts] = field(default_factory=list)
    demand: dict[str, Wanted] = field(default_factory=dict)
    cut_off: bool = False

    @property
    def taken(self) -> Amounts:
        sum = Amounts()
        for one in self.machines:
            sum = sum + one
        return sum

    def limit(self, resource: str) -> Quantity | None:
        return self.limits.get(Cell(ACCOUNT, resource))

    def takes(self, number: int) -> bool:
        """The rule of the API server: limits change only with a number that rises."""
        return number > self.change

    def set_limits(self, carry: Carry) -> None:
        if self.takes(carry.number):
            self.change, self.limits, self.grants = carry.number, carry.limits, carry.grants
            self._forget_met()

    def create(self, asks: Amounts, now: datetime) -> bool:
        wanted = self.taken + asks
        over = [name for name in wanted if (limit := self.limit(name)) is not None and wanted[name] > limit]
        if not over:
            self.machines.append(asks)
            return True
        for name in over:
            whole = self.grants.get(Cell(ACCOUNT, name))
            if whole is not None and wanted[name] <= whole:
                standing = self.demand.get(name)
                most = max(wanted[name], standing.limit) if standing else wanted[name]
                self.demand[name] = Wanted(most, standing.since if standing else now, now)
        return False

    def forget_old(self, now: datetime) -> None:
        self.demand = {name: one for name, one in self.demand.items() if now - one.asked < timedelta(minutes=1)}

    def _forget_met(self) -> None:
        self.demand = {
            name: one for name, one in self.demand.items() if (limit := self.limit(name)) is not None and limit < one.limit
        }

    def copy_comes(self, quota: Quota) -> None:
        """The hook for the quota's copy makes the ledger where there is none, with grants of 0 and no change."""
        if not self.change and not self.limits:
            self.grants = {Cell(ACCOUNT, resource): whole for resource, whole in quota.items()}
            self.limits = dict.fromkeys(self.grants, ZERO)

    def count(self) -> None:
        """Whoever counts writes the status."""
        self.noticed, self.counted = self.change, self.taken

    def shown(self) -> SeedLedger:
        if not self.change and not self.limits:
            return NO_LEDGER
        taken = self.taken if self.noticed == self.change else self.counted
        within = all(limit >= taken[cell.resource] for cell, limit in self.limits.items())
        return SeedLedger(
            change=self.change,
            limits=self.limits,
            grants=self.grants,
            taken=taken,
            demand=dict(self.demand),
            unreached="nobody has counted" if self.noticed != self.change else "" if within else "more is used",
        )


@dataclass
class Master:
    """One that may be the leader, or was."""

    escrow: Escrow = field(default_factory=Escrow)
    version: int = -1
    quota: Quota = field(default_factory=dict)
    views: dict[str, SeedLedger | None] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)


class World:
    def __init__(self, quota: Mapping[str, int], *, seeds: int = 3, carries_first: bool = False) -> None:
        self.escrow, self.version = Escrow(), 0
        self.quota: Quota = {name: amount(name, count) for name, count in quota.items()}
        self.seeds = {f"seed-{number}": Seed() for number in range(seeds)}
        self.masters = [Master(), Master()]
        self.mail: list[Carry] = []  # on its way
        self.draining: set[str] = set()
        self.now = BEGIN
        self.carries_first = carries_first  # a weakness, for tests of the tests
        self.in_force = dict.fromkeys(("cpu", "memory"), WITHOUT_END)
        self.restored = False
        self.records = self.carried = 0

    # --- masters ---

    def read(self, master: Master) -> None:
        master.escrow, master.version, master.quota, master.steps = self.escrow, self.version, self.quota, []

    def look(self, master: Master, seed: str) -> None:
        master.views[seed] = None if self.seeds[seed].cut_off else self.seeds[seed].shown()

    def decide(self, master: Master) -> None:
        views = {seed: master.views.get(seed) for seed in self.seeds}
        found = next_steps(master.escrow, master.quota, views, now=self.now, draining=self.draining)
        if self.carries_first and found and isinstance(found[0], Record):
            found = (*next_steps(found[0].escrow, master.quota, views, now=self.now), *found)
        master.steps = list(found)

    def act(self, master: Master, *, lost: bool = False, late: bool = False) -> None:
        """Its next step."""
        step = master.steps.pop(0)
        if isinstance(step, Carry):
            self.carried += 1
            if not lost:
                self.mail.append(step)
            if not late and not lost:
                self.deliver(step)
        elif master.version == self.version:
            self.check_raise(step.escrow, master.quota)
            self.escrow, self.version = step.escrow, self.version + 1
            self.records += 1
            if not lost:
                master.escrow, master.version = self.escrow, self.version
        else:
            master.steps = []  # a conflict: somebody else was quicker
        self.note()

    def deliver(self, carry: Carry) -> None:
        if self.seeds[carry.seed].cut_off:
            return
        self.mail.remove(carry)
        self.seeds[carry.seed].set_limits(carry)
        self.note()

    # --- people and time ---

    def set_quota(self, **quota: int) -> None:
        """The record is kept on the quota's own object: whoever decided on the quota of before has a conflict."""
        self.version += 1
        self.quota = {name: amount(name, count) for name, count in quota.items()}
        self.note()

    def add_seed(self, name: str) -> None:
        """It has no limit before it is told one, and may have used anything by then."""
        self.seeds[name] = Seed()
        self.in_force = dict.fromkeys(self.in_force, WITHOUT_END)

    def restore(self, name: str, backup: Seed) -> None:
        """The seed's API is as it was, and what is counted is not exact. Machines are elsewhere, and stay."""
        seed = self.seeds[name]
        seed.change, seed.limits, seed.grants, seed.noticed = backup.change, backup.limits, backup.grants, -1
        self.restored = True
        self.note()

    def create(self, seed: str, **asks: int) -> bool:
        made = self.seeds[seed].create(Amounts({name: amount(name, count) for name, count in asks.items()}), self.now)
        self.check()
        return made

    def delete(self, seed: str) -> None:
        del self.seeds[seed].machines[0]

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        for seed in self.seeds.values():
            seed.forget_old(self.now)

    # --- what must be so ---

    def total(self, resource: str) -> int:
        return sum(seed.taken[resource].value() for seed in self.seeds.values())

    def note(self) -> None:
        for resource in self.in_force:
            whole = self.quota[resource].value() if resource in self.quota else WITHOUT_END
            granted = self.escrow.granted(resource) if set(self.seeds) <= set(self.escrow.shares) else None
            settled = granted is not None and granted.value() <= whole
            if self.restored and not self.explained(resource):
                self.in_force[resource] = WITHOUT_END
            else:
                self.in_force[resource] = whole if settled else max(whole, self.in_force[resource])
                assert self.explained(resource), f"a seed has more {resource} than was ever granted to it"
        self.check()

    def explained(self, resource: str) -> bool:
        """Whether the limits that seeds have are within what the record says that they may have."""
        for name, share in self.escrow.shares.items():
            part, limit = share.parts.get(resource), self.seeds[name].limit(resource)
            if part is not None and part.granted is not None and (limit is None or limit > part.granted):
                return False
        return True

    def check(self) -> None:
        for resource, most in self.in_force.items():
            assert self.total(resource) <= most, f"{resource}: {self.total(resource)} used, {most} allowed"

    def check_raise(self, new: Escrow, quota: Quota) -> None:
        """What is granted to anybody rises only within the quota, unless it is found to be granted already."""
        if self.restored:
            return
        for resource, whole in quota.items():
            granted = new.granted(resource)
            for seed, share in self.escrow.shares.items():
                old, now = share.parts.get(resource), new.shares[seed].parts.get(resource) if seed in new.shares else None
                if old is None or now is None or old.granted is None or now.granted is None or now.granted <= old.granted:
                    continue
                assert granted is not None, f"{seed} got more while somebody may have no limit"
                assert granted <= whole, f"{seed} got more, and {granted} of {whole} are granted"

    # --- rest ---

    def settle(self, *, most: int = 60) -> None:
        """Everything heals, and one master goes on until nothing is left to do."""
        for seed in self.seeds.values():
            seed.cut_off = False
        for carry in list(self.mail):
            self.deliver(carry)
        master = Master()
        for _ in range(most):
            self.read(master)
            for name, seed in self.seeds.items():
                seed.count()
                self.look(master, name)
            self.decide(master)
            if not master.steps:
                return
            while master.steps:
                self.act(master)
        raise AssertionError(f"{most} times there was something left to do: {self.escrow.written()}")

    def check_rest(self) -> None:
        """What is granted adds up to the quota, and seeds have just that. Where more of anything is used than there is, nothing
        comes back of the rest either: no machine fits, and a ledger is within all of its limits or not."""
        if not self.draining and all(self.total(name) <= whole.value() for name, whole in self.quota.items()):
            for resource, whole in self.quota.items():
                assert self.escrow.granted(resource) == whole, self.escrow.written()
        for name, seed in self.seeds.items():
            share = self.escrow.shares.get(name)
            if share is not None:
                assert (seed.change, seed.limits) == (share.change, share.limits)

    def fill(self, choose: Callable[[list[str]], str], **asks: int) -> int:
        """Machines are made wherever `choose` likes, and whoever is refused tries again later, until nothing more fits. Returns
        how often the record was written."""
        before = self.records
        wanted = {name: count for name, count in asks.items() if name in self.quota}
        while all(self.total(name) + count <= self.quota[name].value() for name, count in wanted.items()):
            seed = choose(sorted(set(self.seeds) - self.draining))
            for _ in range(4):
                if self.create(seed, **asks):
                    break
                self.settle()
                if self.create(seed, **asks):
                    break
                self.wait(61)  # somebody else got it first, and is left alone with it
            else:
                raise AssertionError(f"there is room that {seed} cannot get: {self.escrow.written()}")
        return self.records - before

    def storm(self, *, most: int, **asks: int) -> None:
        """Everybody wants machines of one size and tries again every 20 seconds, until nothing more fits. There is never
        a longer pause than `most` tries without anybody getting one."""
        vain = 0
        while all(self.total(name) + asks[name] <= self.quota[name].value() for name in asks if name in self.quota):
            got = [name for name in sorted(self.seeds) if self.create(name, **asks)]
            vain = 0 if got else vain + 1
            assert vain <= most, f"there is room, everybody asks, and nobody gets any: {self.escrow.written()}"
            self.settle()
            self.wait(20)
