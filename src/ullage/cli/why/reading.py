"""Gathers the answer to `ullage why`: the object, its accounts, and what was told about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ullage.cli.common.accounts import SnapshotCount, Standing, standings
from ullage.cli.common.events import events_of
from ullage.cli.common.session import Session
from ullage.cli.why import subjects, text
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.builtin.events import Event
from ullage.ledger.charging.stamps import CHARGED_NAMESPACE
from ullage.policies.counts.accounts import NAMESPACE_CELL, claim_cell, claim_of
from ullage.space.accounts import NAMESPACE_ACCOUNT, vm_account
from ullage.space.quota import NOTHING_USED
from ullage.vms.api.machines import VIRTUAL_MACHINES


@dataclass(frozen=True, slots=True)
class Explained:
    head: Sequence[tuple[str, str]]
    accounts: Sequence[text.AccountRow]
    events: Sequence[Event]
    notes: Sequence[str]


async def explain(session: Session, word: str, name: str) -> Explained:
    subject = await subjects.find(session, word, name)
    namespace = _pays(subject)
    standing = await standings(session.client, namespace) if namespace else None
    usage = next(iter(standing.found), Standing(namespace, NOTHING_USED)) if standing else Standing("", NOTHING_USED)
    head = [("Object", str(subject))]
    if subject.state:
        head.append(("State", subject.state))
    if subject.charged:
        head.append(("Takes", text.takes_line(subject.obj.metadata) if namespace else "nothing: no namespace pays for it"))
    events = await events_of(session.client, subject.obj, type="Warning") if subject.charged else []
    if standing is None:
        return Explained(head, [], events[-5:], ())
    rows = text.rows(_accounts(subject), usage.usage, exact=usage.exact, known=bool(standing.found))
    rows += _counts(subject, {one.claim: one for one in standing.counts.get(namespace, ())})
    notes = list(standing.notes)
    if not standing.found and not notes:
        notes.append(
            f"nothing is limited in namespace {namespace}, so no ledger counts there; see: ullage usage -n {namespace}"
        )
    return Explained(head, rows, events[-5:], notes)


def _counts(subject: subjects.Subject, counts: Mapping[str, SnapshotCount]) -> list[text.AccountRow]:
    """Places among the snapshots of the claim and of the namespace, where somebody counts them."""
    takes = 1 if subject.is_volume_snapshot else None
    cells = [claim_cell(subject.claim)] if subject.claim else []
    if takes or subject.kind is NAMESPACES:
        cells.append(NAMESPACE_CELL)
    found = [(cell.account, counts.get(claim_of(cell))) for cell in cells]
    return [text.count_row(account, takes, count) for account, count in found if count is not None]


def _pays(subject: subjects.Subject) -> str:
    """The namespace whose accounts it is about; empty: none is."""
    meta = subject.obj.metadata
    if subject.kind is NAMESPACES:
        return meta.name
    if subject.kind.group == "longhorn.io":
        return meta.annotations.get(CHARGED_NAMESPACE, "")
    return meta.namespace


def _accounts(subject: subjects.Subject) -> dict[str, int | None]:
    """Those that it takes from; of what takes nothing itself, those that it is about."""
    if subject.kind is VIRTUAL_MACHINES:
        return {vm_account(subject.obj.metadata.name): None, NAMESPACE_ACCOUNT: None}
    if subject.kind is NAMESPACES:
        return {NAMESPACE_ACCOUNT: None}
    taken = text.takings(subject.obj.metadata)
    return {**taken} if taken else {NAMESPACE_ACCOUNT: None}
