"""`ullage projects drain-seed`: what a seed holds, what would be given back, and the mark that says that it is gone for good.

The mark is all that is written here. Whoever divides quotas on the master reads it: the seed keeps what it used when it was
last seen, or nothing where its machines are said to be gone, and the rest is free for the others at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ullage.cli.common.project_quotas import SeedPart, escrow_in, in_force, listed, not_served, seed_parts
from ullage.cli.common.session import Missing
from ullage.cli.common.text import age, aligned, plain
from ullage.errors import BadInput, Terminal
from ullage.kube.client.client import Client
from ullage.kube.errors import NotFound
from ullage.ledger.amounts import Amounts, spell
from ullage.projects.api.kkp import SEEDS, Seed
from ullage.projects.api.quotas import PROJECT_QUOTAS, ResourceQuota
from ullage.projects.cluster_count.ledger import RESOURCE as CLUSTERS
from ullage.projects.escrow.divisions import DIVISIONS
from ullage.projects.escrow.terms import Escrow, Part, Share
from ullage.projects.names import DRAINED, RESOURCES
from ullage.projects.seed_marks import GONE, YES
from ullage.quantity import Quantity

MANAGER: Final = "ullage-cli"
NAMED: Final = 5  # projects that a sentence spells out
HEAD: Final = ("PROJECT", "RESOURCE", "GRANTED", "USED WHEN LAST SEEN", "GIVEN BACK")


class SeedInReach(Terminal):
    """A seed that can be asked is not gone."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a seed has of the quota of one project: of what machines take, and of the number of clusters."""

    project: str
    part: SeedPart
    clusters: Share | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedHoldings:
    """`unreadable` names quotas of which nobody can tell what the seed has."""

    seed: Seed
    held: tuple[Held, ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.seed.metadata.name

    @property
    def mark(self) -> str:
        """What is said of it: empty, `true`, or `gone` with its machines."""
        return self.seed.metadata.annotations.get(DRAINED, "")

    @property
    def in_reach(self) -> list[str]:
        """The projects about which the master could ask the seed when it last looked."""
        return [one.project for one in self.held if one.part.in_reach]


# --- read, and written -----------------------------------------------------------------------------------------------


async def find_seed(client: Client, name: str, namespace: str) -> Seed:
    try:
        found = await client.find(SEEDS, name, namespace)
    except NotFound as error:
        raise not_served(SEEDS) from error
    if found is None:
        there = sorted(one.metadata.name for one in await listed(client, SEEDS, namespace))
        has = f"there are these: {', '.join(there)}" if there else "there is none"
        where = "Seeds are on the master, in the namespace that --seed-namespace names"
        raise Missing(f"there is no seed {name} in namespace {namespace}: {has}. {where}")
    return found


async def read_holdings(client: Client, seed: Seed) -> SeedHoldings:
    return holdings(seed, await listed(client, PROJECT_QUOTAS))


def holdings(seed: Seed, quotas: Iterable[ResourceQuota]) -> SeedHoldings:
    name, held, unreadable = seed.metadata.name, [], []
    for project, quota in in_force(quotas).items():
        records: list[Escrow | None] = []
        for division in DIVISIONS:
            try:
                records.append(escrow_in(quota, division.annotation))
            except BadInput as error:
                records.append(None)
                unreadable.append(f"what seeds have of {quota.metadata.name} cannot be read: {plain(str(error))}")
        machines, clusters = records
        parts = {one.seed: one for one in seed_parts(quota, machines)}
        counted = clusters.shares.get(name) if clusters is not None else None
        if name in parts or counted is not None:
            held.append(Held(project, parts.get(name) or SeedPart(seed=name, used=None), counted))
    return SeedHoldings(seed=seed, held=tuple(held), unreadable=tuple(unreadable))


def wanted_mark(*, undo: bool, machines_gone: bool) -> str:
    return "" if undo else GONE if machines_gone else YES


def is_marked(found: SeedHoldings, wanted: str) -> bool:
    """Whether nothing is to be written: one that is gone with its machines is gone."""
    return found.mark == wanted or (wanted == YES and found.mark == GONE)


async def write_mark(client: Client, seed: Seed, mark: str, *, dry_run: bool) -> None:
    """Empty takes it off."""
    await client.patch(
        SEEDS,
        seed.metadata.name,
        seed.metadata.namespace,
        merge={"metadata": {"annotations": {DRAINED: mark or None}}},
        field_manager=MANAGER,
        dry_run=dry_run,
        uid=seed.metadata.uid,
    )


# --- pure: what is said ----------------------------------------------------------------------------------------------


def refuse_reachable(found: SeedHoldings, mark: str, *, force: bool) -> None:
    """A seed that can be asked is told to keep to what it uses: that is meant for one that leaves, and is said on purpose."""
    if not found.in_reach:
        return
    if mark == GONE:
        raise SeedInReach(
            f"seed {found.name} is in reach, and says itself what its machines use: --machines-gone is for one that cannot be"
            " asked. When they are gone it uses nothing, and --force is enough"
        )
    if force:
        return
    few = ", ".join(found.in_reach[:NAMED])
    more = f" and {len(found.in_reach) - NAMED} more" if len(found.in_reach) > NAMED else ""
    raise SeedInReach(
        f"seed {found.name} is in reach: it can be asked what projects use there ({few}{more}), and is not dead. Given up, it"
        " is told to keep to that, and no project gets another machine on it. If that is meant, say --force; if it is going"
        " down, wait until `ullage usage --group-by seed` shows it as STALE"
    )


def summary(found: SeedHoldings, mark: str, *, now: datetime) -> Iterator[str]:
    """What the seed has, and what would be free."""
    since = min((one.part.stale_since for one in found.held if one.part.stale_since), default="")
    if found.in_reach:
        yield f"seed {found.name} is in reach: it is told to keep to what it uses, and the rest is free when it does"
    elif since:
        yield f"seed {found.name} has been out of reach for {age(since, now)} (since {since})"
    else:
        yield f"seed {found.name} has said nothing about any project"
    rows = [row for one in found.held for row in _rows(one, mark)]
    if rows:
        yield aligned([HEAD, *rows])
    elif not found.unreadable:
        yield f"seed {found.name} has nothing of any quota: there is nothing to give back"


def _rows(one: Held, mark: str) -> Iterator[tuple[str, ...]]:
    yield from _rows_of(one.project, one.part.share, one.part.used, mark)
    counted = one.clusters
    yield from _rows_of(one.project, counted, Amounts(counted.taken) if counted is not None and counted.taken else None, mark)


def _rows_of(project: str, share: Share | None, used: Amounts | None, mark: str) -> Iterator[tuple[str, ...]]:
    parts = share.parts if share is not None else {}
    for resource in (*RESOURCES, CLUSTERS):
        if share is None or resource not in parts:
            continue
        part = parts[resource]
        keeps = Amounts() if mark == GONE else used
        if share.drained and mark != GONE and part.granted is not None:
            keeps = Amounts({resource: part.granted})  # it has given back what it did not take, and is not asked twice
        taken = spell(resource, used[resource]) if used is not None else "unknown"
        yield project, resource, _granted(resource, part), taken, _given_back(resource, part, keeps)


def _granted(resource: str, part: Part) -> str:
    return "no limit yet" if part.granted is None else spell(resource, part.granted, down=True)


def _given_back(resource: str, part: Part, keeps: Amounts | None) -> str:
    """What is free then: all but what it keeps. Where nobody knows what it used it keeps all."""
    if keeps is None:
        return "nothing"
    if part.granted is None:
        return "all but what it used" if keeps[resource].nanos else "all"
    left = part.granted - keeps[resource]
    return spell(resource, left if left.sign > 0 else Quantity.of(0), down=True)


def question(found: SeedHoldings, mark: str) -> str:
    gone = "Is it gone for good, and all of its machines too?" if mark == GONE else "Is it gone for good?"
    return f"Should seed {found.name} run on, more may be used than the quotas allow. {gone}"


def already(name: str, mark: str) -> str:
    if mark:
        return f"seed {name} is given up already: nothing to do; `ullage projects drain-seed {name} --undo` takes that back"
    return f"seed {name} is not given up: nothing to undo"


def was_marked(name: str, mark: str, *, dry_run: bool) -> str:
    is_now = "would be" if dry_run else "is"
    if not mark:
        return f"seed {name} {is_now} counted on again: when it is seen, it gets a part of each quota like the others"
    keeps = "nothing, and all of it" if mark == GONE else "what it used when it was last seen, and the rest"
    return f"seed {name} {is_now} given up: it keeps {keeps} is free for other seeds"
