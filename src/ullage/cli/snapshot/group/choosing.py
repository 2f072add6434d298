"""Which claims a new group is of, and the selector that chooses them.

The API chooses claims by labels alone. Those of a pod or a StatefulSet need have none in common, so they get one that names the
group. A label of that name which another claim has, since an earlier group of the name had it, is taken off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ullage.cli.common.session import Missing, Session
from ullage.cli.common.waiting import Failed
from ullage.cli.snapshot.selection import of_pod
from ullage.errors import BadInput
from ullage.kube.builtin import core
from ullage.kube.builtin.apps import STATEFUL_SETS, StatefulSet
from ullage.kube.builtin.core import CLAIMS, PODS
from ullage.kube.objects import Json
from ullage.names import LABEL_LIMIT
from ullage.selectors import LabelSelector, SelectorError

LABEL_PREFIX: Final = "group.ullage.io/"  # and the name of the group
MEMBER: Final = "member"
_OPERATORS: Final = {
    "=": "In",
    "==": "In",
    "in": "In",
    "!=": "NotIn",
    "notin": "NotIn",
    "exists": "Exists",
    "!": "DoesNotExist",
}
STATEFUL_SET: Final = "ullage.io/statefulset"  # on a group: whose claims it is of


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChoice:
    """Exactly one is given."""

    pod: str = ""
    stateful_set: str = ""
    selector: str = ""


def label_of(group: str) -> str:
    if len(group) > LABEL_LIMIT:
        raise BadInput("NAME", group, f"with --pod and --statefulset it becomes a label: {LABEL_LIMIT} characters at most")
    return f"{LABEL_PREFIX}{group}"


def selector_of(text: str) -> Json:
    """The selector of the API from one as `kubectl -l` takes it."""
    try:
        found = LabelSelector.parse(text)
    except SelectorError as error:
        raise BadInput("--selector", text, str(error)) from error
    labels: dict[str, str] = {}
    terms: list[Json] = []
    for one in found.requirements:
        if one.operator in ("=", "==") and one.key not in labels:
            labels[one.key] = next(iter(one.values))
        elif one.operator not in _OPERATORS:
            raise BadInput("--selector", text, "a group's selector has =, !=, in, notin, KEY and !KEY, and nothing else")
        else:
            values = {"values": sorted(one.values)} if one.values else {}
            terms.append({"key": one.key, "operator": _OPERATORS[one.operator], **values})
    return {**({"matchLabels": labels} if labels else {}), **({"matchExpressions": terms} if terms else {})}


async def chosen_claims(session: Session, choice: GroupChoice) -> list[core.PersistentVolumeClaim]:
    """Of a pod or a StatefulSet; all must exist."""
    what = f"pod {choice.pod}" if choice.pod else f"StatefulSet {choice.stateful_set}"
    names = await _claim_names(session, choice)
    if names is None:
        raise Missing(f"{what} does not exist in namespace {session.namespace}")
    if not names:
        raise Failed(f"{what} uses no claims: there is nothing to take a snapshot of")
    claims = [await session.client.find(CLAIMS, name, session.namespace) for name in names]
    missing = [name for name, claim in zip(names, claims, strict=True) if claim is None]
    if missing:
        raise Failed(f"{what}: claim {', '.join(missing)} does not exist yet; nothing was created")
    return [one for one in claims if one is not None]


async def _claim_names(session: Session, choice: GroupChoice) -> list[str] | None:
    """None: there is no such pod or StatefulSet."""
    if choice.pod:
        pod = await session.client.find(PODS, choice.pod, session.namespace)
        return None if pod is None else sorted(of_pod(pod).names)
    owner = await session.client.find(STATEFUL_SETS, choice.stateful_set, session.namespace)
    return None if owner is None else claim_names(owner)


def claim_names(owner: StatefulSet) -> list[str]:
    """Those of the pods that it has now, by its templates."""
    first, count = owner.spec.ordinals.start, owner.spec.replicas
    numbers = range(first, first + count)
    return [f"{template}-{owner.metadata.name}-{number}" for template in owner.claim_templates for number in numbers]


async def put_labels(
    session: Session, label: str, claims: Sequence[core.PersistentVolumeClaim], *, dry_run: bool = False
) -> None:
    """These have the label then, and no other claim of the namespace has."""
    wanted = {one.metadata.name for one in claims}
    for one in (await session.client.list(CLAIMS, session.namespace, labels=label)).items:
        if one.metadata.name not in wanted:
            await _label(session, one, label, None, dry_run=dry_run)
    for one in claims:
        if one.metadata.labels.get(label) != MEMBER:
            await _label(session, one, label, MEMBER, dry_run=dry_run)


async def _label(session: Session, claim: core.PersistentVolumeClaim, label: str, value: str | None, *, dry_run: bool) -> None:
    meta = claim.metadata
    merge = {"metadata": {"labels": {label: value}}}
    await session.client.patch(CLAIMS, meta.name, meta.namespace, merge=merge, uid=meta.uid, dry_run=dry_run)
