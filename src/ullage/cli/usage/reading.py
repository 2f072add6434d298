"""What `ullage usage` reads: ledgers, or quotas for those who may not read ledgers; and, by volume and where there is neither,
what each object is stamped to take.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ullage.cli.common.accounts import FROM_QUOTAS, Counts, SnapshotCount, Standing, Standings, standings
from ullage.cli.common.session import Session
from ullage.cli.usage.compute import Compute, read_compute, shares_in
from ullage.cli.usage.text import GroupBy, UsageRow
from ullage.engines.api import ENGINE_SNAPSHOTS
from ullage.engines.handles import NAMESPACE as ENGINES_NAMESPACE
from ullage.engines.handles import engine_volume
from ullage.errors import BadInput, UllageError
from ullage.kube.builtin import core
from ullage.kube.client.client import Client
from ullage.kube.errors import Forbidden, NotFound
from ullage.kube.kinds import Kind, Meta
from ullage.ledger.charging.plans import read_plan
from ullage.ledger.charging.stamps import CHARGED_NAMESPACE, FREE, STAMP, stamp_of
from ullage.space.accounts import bytes_of
from ullage.space.api import HARVESTER_QUOTAS
from ullage.space.quota import Usage
from ullage.vms.api.backups import VM_BACKUPS

NO_CLAIM: Final = "(no claim)"


@dataclass(slots=True)
class Reading:
    """Rows, and what has to be said beside them."""

    rows: list[UsageRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compute: list[Compute] = field(default_factory=list)  # by namespace alone
    counts: Mapping[str, Counts] = field(default_factory=dict)  # by namespace alone
    selected: bool = True  # whether there is a namespace with the labels that were asked for


async def read_usage(
    session: Session, group: GroupBy, *, everywhere: bool, labels: str = "", again_and_again: bool = False
) -> Reading:
    """Of the session's namespace; of all, or of all that have labels. `again_and_again`: what would take a listing of all
    snapshots in the cluster is left out."""
    namespace = "" if everywhere or labels else session.namespace
    among = await _namespaces(session.client, labels) if labels else None
    if group == "volume":
        found = await _by_volume(session, namespace, among)
    else:
        found = await _by_account(session, namespace, group, among=among)
        if group == "namespace" and (namespace or not again_and_again):
            await _add_unlimited(session, namespace, found, among=among)
    found.selected = among is None or bool(among)
    known = {row.namespace for row in found.rows}
    more = dict.fromkeys((*(one.namespace for one in found.compute), *found.counts))
    found.rows += [UsageRow(namespace=one) for one in more if one not in known]
    found.rows.sort(key=lambda row: (row.namespace, row.name))
    return found


async def _namespaces(client: Client, labels: str) -> frozenset[str]:
    try:
        return frozenset(one.metadata.name for one in (await client.list(core.NAMESPACES, labels=labels)).items)
    except Forbidden:
        unread = "chooses namespaces by their labels, and you may not list them: name one with -n"
        raise BadInput("--selector", labels, unread) from None


# --- accounts --------------------------------------------------------------------------------------------------------


async def _by_account(session: Session, namespace: str, group: GroupBy, *, among: Container[str] | None) -> Reading:
    standing = await standings(session.client, namespace, among=among)
    rows = []
    for one in standing.found:
        accounts = {"": one.usage.namespace} if group == "namespace" else one.usage.vms
        rows += [_row(one, name, usage) for name, usage in accounts.items()]
    notes = [*standing.notes, *await _estimated(session.client, namespace, {one.namespace for one in standing.found})]
    if group != "namespace":
        return Reading(rows, notes)
    compute = await _compute(session.client, namespace, standing, notes)
    return Reading(rows, notes, compute, {place: counts for place, counts in standing.counts.items() if counts})


async def _estimated(client: Client, namespace: str, shown: Container[str]) -> list[str]:
    """By how much limits may be passed, as the quotas say, where snapshots are estimated by the last one of their volume."""
    try:
        quotas = (await client.list(HARVESTER_QUOTAS, namespace)).items
    except (Forbidden, NotFound):
        return []
    said = [one for one in quotas if one.status.shown.may_pass_by and one.metadata.namespace in shown]
    return [f"{one.metadata.namespace}: estimated: may pass by up to {one.status.shown.may_pass_by}" for one in said]


async def _add_unlimited(session: Session, namespace: str, found: Reading, *, among: Container[str] | None) -> None:
    """Namespaces without a ledger: nothing is limited there, and their snapshots take something all the same."""
    known = {row.namespace for row in found.rows}
    if namespace in known:
        return
    objects = await _by_volume(session, namespace, among)
    volumes = [row for row in objects.rows if row.namespace not in known]
    found.notes += objects.notes if volumes else ()
    for place in sorted({row.namespace for row in volumes}):
        here = [row for row in volumes if row.namespace == place]
        found.rows.append(UsageRow(namespace=place, used=sum(row.used for row in here)))
        if place not in found.counts:
            found.counts = {**found.counts, place: [SnapshotCount(used=sum(row.snapshots or 0 for row in here))]}


async def _compute(client: Client, namespace: str, standing: Standings, notes: list[str]) -> list[Compute]:
    """Of one namespace everything; of all, what their ledgers say."""
    found, hidden = standing.found, FROM_QUOTAS in standing.notes
    if not namespace:
        return [shares for one in sorted(found, key=lambda one: one.namespace) if (shares := shares_in(one)) is not None]
    whole = await read_compute(client, namespace, found[0] if found else None, hidden=hidden, notes=notes)
    return [whole] if whole is not None else []


def _row(standing: Standing, name: str, usage: Usage) -> UsageRow:
    return UsageRow(
        namespace=standing.namespace,
        name=name,
        used=usage.used - usage.reserved,
        reserved=usage.reserved if standing.exact else None,
        limit=usage.limit,
    )


# --- volumes ---------------------------------------------------------------------------------------------------------


class _Volumes:
    """What objects take, by claim; of all namespaces that are read, or of some among them."""

    def __init__(self, among: Container[str] | None) -> None:
        self.found: dict[tuple[str, str], tuple[int, int]] = {}  # snapshots and bytes
        self.unreadable = 0
        self._among = among

    def add(self, namespace: str, claim: str, size: int, *, snapshots: int = 1) -> None:
        if self._among is not None and namespace not in self._among:
            return
        count, taken = self.found.get((namespace, claim or NO_CLAIM), (0, 0))
        self.found[namespace, claim or NO_CLAIM] = count + snapshots, taken + size

    def add_stamped(self, namespace: str, claim: str, meta: Meta) -> None:
        try:
            stamp = stamp_of(meta)
        except UllageError:
            self.unreadable += self._among is None or namespace in self._among
            return
        self.add(namespace, claim, bytes_of(stamp) if stamp.cells else 0)


async def _by_volume(session: Session, namespace: str, among: Container[str] | None) -> Reading:
    client, volumes, notes = session.client, _Volumes(among), list[str]()
    for dialect in session.among:
        for obj in await _listed(client, dialect.snapshots, namespace, notes):
            snapshot = dialect.read_snapshot(obj)
            volumes.add_stamped(snapshot.meta.namespace, snapshot.claim, snapshot.meta)
    for backup in await _listed(client, VM_BACKUPS, namespace, notes):
        for claim, size in read_plan(backup.metadata).items():  # its members, which take nothing, were counted as snapshots
            volumes.add(backup.metadata.namespace, claim, size, snapshots=0)
    await _engine_snapshots(client, namespace, volumes, notes)
    if volumes.unreadable:
        notes.append(f"left out are snapshots that say nothing yet about what they take: {volumes.unreadable}")
    rows = [
        UsageRow(namespace=place, name=claim, snapshots=count, used=size)
        for (place, claim), (count, size) in volumes.found.items()
    ]
    return Reading(rows, list(dict.fromkeys(notes)))


async def _engine_snapshots(client: Client, namespace: str, volumes: _Volumes, notes: list[str]) -> None:
    """Those that pay by themselves: no VolumeSnapshot does it for them."""
    found = await _listed(client, ENGINE_SNAPSHOTS, ENGINES_NAMESPACE, notes)
    paying = [one for one in found if _pays(one.metadata, namespace)]
    if not paying:
        return
    claims = {
        name: one.spec.claim_ref
        for one in await _listed(client, core.PERSISTENT_VOLUMES, "", notes)
        if (name := engine_volume(one)) and one.spec.claim_ref is not None
    }
    for one in paying:
        claim = claims.get(one.spec.volume)
        place = one.metadata.annotations[CHARGED_NAMESPACE]
        volumes.add_stamped(place, claim.name if claim is not None else "", one.metadata)


def _pays(meta: Meta, namespace: str) -> bool:
    """Whether it takes anything by itself: behind a VolumeSnapshot, which was counted, it does not."""
    charged = meta.annotations.get(CHARGED_NAMESPACE, "")
    return (charged == namespace if namespace else bool(charged)) and meta.annotations.get(STAMP) != str(FREE)


async def _listed(client: Client, kind: Kind[Any], namespace: str, notes: list[str]) -> Sequence[Any]:
    """All of a kind; none where it is not served, or may not be read, which is noted."""
    try:
        return (await client.list(kind, namespace)).items
    except NotFound:
        return ()
    except Forbidden:
        notes.append(f"{kind.name} may not be read: what they take is not among this")
        return ()
