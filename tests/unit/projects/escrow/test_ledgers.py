"""The steps of the escrow on real ledgers: limits by the patch that is sent, bookings and demands by the book, and the status
that a folder writes. Only the API servers are missing."""

from __future__ import annotations

from datetime import timedelta

from msgspec import convert
from msgspec.structs import replace

from tests.unit.ledger.simulated import merged
from tests.unit.projects.escrow.world import BEGIN
from ullage.kube.kinds import Meta
from ullage.ledger.amounts import Cell, Takings
from ullage.ledger.api import Ledger, LedgerSpec
from ullage.ledger.book import Book, Charge, Observed, Refusal, book
from ullage.ledger.codec import book_of, status_of
from ullage.ledger.demand import may_be_granted, wanted_by, with_demand
from ullage.ledger.limits import limits_patch
from ullage.projects.escrow.seeds import seed_ledger
from ullage.projects.escrow.steps import Carry, Record, next_steps
from ullage.projects.escrow.terms import Escrow
from ullage.projects.names import ACCOUNT
from ullage.quantity import Quantity

SOURCE = "machines.cluster.k8s.io/user-1"
CPU = Cell(ACCOUNT, "cpu")
QUOTA = {"cpu": Quantity.of(10)}


class SeedCluster:
    """A ledger, and whoever books in it and counts."""

    def __init__(self) -> None:
        self.ledger: Ledger | None = None
        self.machines = 0

    def carry(self, step: Carry) -> None:
        old = self.ledger or Ledger(metadata=Meta(name="project-lab", namespace="ullage-system", generation=1))
        assert step.number > old.spec.change
        patch = limits_patch(old.spec, step.limits, number=step.number, about=ACCOUNT, grants=step.grants)
        spec = {"limits": dict(old.spec.limits), "grants": dict(old.spec.grants), "change": old.spec.change}
        meta = replace(old.metadata, generation=old.metadata.generation + 1)
        self.ledger = replace(old, metadata=meta, spec=convert(merged(spec, patch["spec"]), LedgerSpec))

    def book(self) -> Book:
        assert self.ledger is not None
        return book_of(self.ledger, now=BEGIN)

    def write(self, known: Book) -> None:
        assert self.ledger is not None
        self.ledger = replace(self.ledger, status=status_of(known, self.ledger, sources={SOURCE}, now=BEGIN))

    def create(self) -> bool:
        """A machine of one CPU."""
        known, name = self.book(), f"{SOURCE}/kube-system/machine-{self.machines}"
        charge = Charge(key=name, uid=name, now=Takings({CPU: Quantity.of(1)}))
        after, said = book(known, charge, BEGIN)
        if isinstance(said, Refusal):
            if may_be_granted(known, said):
                self.write(with_demand(known, wanted_by(known, [charge]), BEGIN))
            return False
        self.write(after)
        self.machines += 1
        return True

    def fold(self) -> None:
        """Everything that was booked is there, and is counted."""
        known = self.book()
        view = max((one.view for one in known.observed.values()), default=0) + 1
        counted = {SOURCE: Observed(view, BEGIN, Takings({CPU: Quantity.of(self.machines)}))}
        self.write(
            Book.of(
                limits=known.limits,
                grants=known.grants,
                demand=known.demand,
                observed=counted,
                limited=known.limited,
                since=known.since,
                exact_from={SOURCE: 1},
                last=known.last,
            )
        )


def settle(escrow: Escrow, seeds: dict[str, SeedCluster], quota: dict[str, Quantity]) -> Escrow:
    for round in range(20):
        for seed in seeds.values():
            if seed.ledger is not None:
                seed.fold()
        seen = {name: seed_ledger(seed.ledger) for name, seed in seeds.items()}
        steps = next_steps(escrow, quota, seen, now=BEGIN + timedelta(seconds=round))
        if not steps:
            return escrow
        for step in steps:
            if isinstance(step, Record):
                escrow = Escrow.parse(step.escrow.written())
            else:
                seeds[step.seed].carry(step)
    raise AssertionError(f"there is always something left to do: {escrow.written()}")


def limits(seeds: dict[str, SeedCluster]) -> dict[str, str]:
    return {name: str(seed.book().limits[CPU]) for name, seed in seeds.items()}


def test_real_ledgers_get_a_quota_ask_for_more_and_never_admit_more_than_it() -> None:
    seeds = {"eu": SeedCluster(), "us": SeedCluster()}
    escrow = settle(Escrow(), seeds, QUOTA)
    assert limits(seeds) == {"eu": "5", "us": "5"}
    assert escrow.granted("cpu") == Quantity.of(10)
    made = 0
    while made < 10:
        made += seeds["eu"].create()
        escrow = settle(escrow, seeds, QUOTA)
        assert sum(seed.machines for seed in seeds.values()) == made
    assert limits(seeds) == {"eu": "10", "us": "0"}
    assert not seeds["eu"].create()
    assert not seeds["us"].create()
    assert settle(escrow, seeds, QUOTA) == escrow, "what is used is taken from nobody"


def test_a_quota_below_use_only_stops_growth_and_one_that_is_gone_limits_nothing() -> None:
    seeds = {"eu": SeedCluster(), "us": SeedCluster()}
    escrow = settle(Escrow(), seeds, QUOTA)
    for seed in seeds.values():
        assert all(seed.create() for _ in range(4))
    escrow = settle(escrow, seeds, {"cpu": Quantity.of(6)})
    assert limits(seeds) == {"eu": "3", "us": "3"}
    assert not any(seed.create() for seed in seeds.values())
    assert str(escrow.granted("cpu")) == "10", "nothing is given away while more is used"
    escrow = settle(escrow, seeds, {})
    assert [seed.book().limits for seed in seeds.values()] == [{}, {}]
    assert all(seed.create() for seed in seeds.values())
