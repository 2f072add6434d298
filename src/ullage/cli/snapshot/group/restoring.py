"""New claims with the data of all members of a group: under a prefix, or under the names that a StatefulSet's claims have."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ullage.cli.common.session import Session
from ullage.cli.common.waiting import Failed
from ullage.cli.snapshot import restoring
from ullage.cli.snapshot.found import Found
from ullage.cli.snapshot.group.actions import found, members_of
from ullage.cli.snapshot.group.choosing import STATEFUL_SET
from ullage.cli.snapshot.group.text import error_of
from ullage.cli.snapshot.reading import record_of
from ullage.errors import BadInput
from ullage.kube.builtin import core
from ullage.kube.builtin.core import CLAIMS
from ullage.kube.errors import Forbidden
from ullage.names import is_subdomain
from ullage.policies.groups.api import VolumeGroupSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRestoreOptions:
    """Exactly one of `prefix` and `stateful_set` is given. `source` is the StatefulSet whose claims the group is of."""

    prefix: str = ""
    stateful_set: str = ""
    source: str = ""
    class_name: str | None = None


def new_names(claims: list[str], given: GroupRestoreOptions, *, known: str = "") -> dict[str, str]:
    """The new name for each claim. `known` is the StatefulSet that the group was taken of, if it says so."""
    if given.prefix:
        names = {claim: f"{given.prefix}-{claim}" for claim in claims}
    else:
        source = given.source or known
        if not source:
            raise BadInput(
                "--from-statefulset", "(absent)", "the group does not say whose claims it is of: name the StatefulSet"
            )
        names = {claim: _of_stateful_set(claim, source, given.stateful_set) for claim in claims}
    wrong = next((name for name in names.values() if not is_subdomain(name)), "")
    if wrong:
        raise BadInput("--to-claims" if given.prefix else "--to-statefulset", wrong, "no claim may have that name")
    return names


def _of_stateful_set(claim: str, source: str, target: str) -> str:
    match = re.fullmatch(rf"(.+)-{re.escape(source)}-([0-9]+)", claim)
    if match is None:
        raise BadInput(
            "--to-statefulset",
            target,
            f"claim {claim} is none of StatefulSet {source}'s (TEMPLATE-{source}-NUMBER); use --to-claims",
        )
    return f"{match[1]}-{target}-{match[2]}"


async def restore(
    session: Session,
    name: str,
    given: GroupRestoreOptions,
    *,
    dry_run: bool,
    timeout: float | None,
    tell: Callable[[str, str], None],
) -> None:
    """All new claims, or none: the server is asked about each before the first is made. Each is told as it is made, with the
    claim that its data is of."""
    group = await found(session, name)
    members = await members_of(session, group)
    _require_ready(group, members)
    claims = [one.snapshot.claim for one in members]
    names = new_names(claims, given, known=group.metadata.annotations.get(STATEFUL_SET, ""))
    wanted = [(one, await _new_claim(session, one, names[one.snapshot.claim], given)) for one in members]
    for _, claim in wanted:
        if await session.client.find(CLAIMS, claim.metadata.name, session.namespace) is not None:
            raise Failed(f"claim {claim.metadata.name} exists already in namespace {session.namespace}; nothing was created")
        await session.client.create(CLAIMS, claim, dry_run=True)
    made = []
    for one, claim in wanted:
        made.append((one, claim if dry_run else await session.client.create(CLAIMS, claim)))
        tell(claim.metadata.name, one.snapshot.claim)
    if timeout is not None and not dry_run:
        for one, claim in made:
            await restoring.ClaimWaiter(session.client, claim, one).run(timeout)


def _require_ready(group: VolumeGroupSnapshot, members: list[Found]) -> None:
    if group.status.ready_to_use is not True:
        raise Failed(f"group {group.metadata.name} is not ready: {error_of(group) or 'it is being taken'}; nothing was created")
    if not members:
        raise Failed(f"group {group.metadata.name} has no members in this namespace; nothing was created")


async def _new_claim(session: Session, member: Found, name: str, given: GroupRestoreOptions) -> core.PersistentVolumeClaim:
    record = await record_of(session.client, member)
    claim = await session.client.find(CLAIMS, member.snapshot.claim, session.namespace) if member.snapshot.claim else None
    source = restoring.source_of(member, None if isinstance(record, Forbidden) else record, claim)
    wanted = restoring.RestoreOptions(to=name, class_name=given.class_name)
    await restoring.require_class(session.client, wanted)
    return restoring.new_claim(member, source, wanted)
