"""`ullage quota set|delete project/ID`: what the options stand for, and what is written.

Each write is about the limits that were named and leaves all else as others set it: the record of what seeds may have stands on
the same object, and whoever keeps it may write at the same moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ullage.cli.common.project_quotas import project_name, quota_of
from ullage.errors import BadInput, Terminal
from ullage.kube.backoff import Backoff
from ullage.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from ullage.kube.kinds import Meta
from ullage.kube.objects import Json, is_deleting
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.kkp import SETTINGS
from ullage.projects.api.quotas import PROJECT_QUOTAS, ResourceQuota, ResourceQuotaSpec, Subject
from ullage.projects.controllers.quota_default_rules import default_in
from ullage.projects.names import (
    CPU,
    DEFAULT_MARKS,
    MEMORY,
    PROJECT,
    RESOURCES,
    SETTING,
    STORAGE,
    SUBJECT_KIND,
    SUBJECT_NAME,
    is_default,
    quota_name,
)
from ullage.projects.quota import MOST_DIGITS, limits_of
from ullage.quantity import Quantity, QuantityError

if TYPE_CHECKING:
    from ullage.kube.client.client import Client

TRIES: Final = 8
PAUSE: Final = Backoff(first=0.05, cap=1.0)
NO_LIMIT: Final = "none"
MOST: Final = 2**63 - 1
_EXAMPLES: Final = {CPU: "4 or 1500m", MEMORY: "16Gi or 16G", STORAGE: "100Gi or 1T"}
Change = Mapping[str, str | None]  # by resource, as it is written; None takes the limit away


class QuotaGoing(Terminal):
    """A quota that is being deleted cannot be set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`quota` is the quota as it is then; None: there is none, and none is needed."""

    quota: ResourceQuota | None
    was_default: bool = False
    project_exists: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """`quota` is what there was; None: nothing. `default` takes its place; None: nothing does."""

    quota: ResourceQuota | None
    default: ResourceDetails | None = None


# --- what the options stand for --------------------------------------------------------------------------------------


def change_of(given: Mapping[str, str | None]) -> Change:
    """By resource, what was given for it. Raises BadInput, which names the option."""
    return {resource: _written(resource, text) for resource, text in given.items() if text is not None}


def _written(resource: str, given: str) -> str | None:
    if given == NO_LIMIT:
        return None
    option, shown = f"--{resource}", given if len(given) <= MOST_DIGITS else f"{given[:MOST_DIGITS]}…"
    allowed = f"a quantity such as {_EXAMPLES[resource]} is allowed, or {NO_LIMIT}"
    try:
        found = Quantity.parse(given)
    except QuantityError:
        raise BadInput(option, shown or "(empty)", f"not a quantity; {allowed}") from None
    if found.sign < 0:
        raise BadInput(option, shown, f"negative; {allowed}")
    if found.value() > MOST:
        raise BadInput(option, shown, f"more than {MOST}; {allowed}")
    return str(found)


# --- pure: what is written -------------------------------------------------------------------------------------------


def new_quota(project: str, change: Change) -> ResourceQuota:
    limits = {resource: text for resource, text in change.items() if text is not None}
    return ResourceQuota(
        metadata=Meta(name=quota_name(project), labels={SUBJECT_NAME: project, SUBJECT_KIND: PROJECT}),
        spec=ResourceQuotaSpec(subject=Subject(name=project), quota=ResourceDetails(**limits)),
    )


def patch_for(quota: ResourceQuota, change: Change) -> Json | None:
    """The merge patch; None: the quota is so already. One that somebody sets is his own: it has no mark of a default."""
    before, named = limits_of(quota.spec.quota), set(_named(quota.spec.quota))
    limits = {
        resource: text
        for resource, text in change.items()
        if (resource in named if text is None else before.get(resource) != Quantity.parse(text))
    }
    marks = {mark: None for mark in DEFAULT_MARKS if quota.metadata.labels.get(mark) == "true"}
    patch: Json = {"metadata": {"labels": marks}} if marks else {}
    return {**patch, "spec": {"quota": limits}} if limits else patch or None


def _named(details: ResourceDetails) -> list[str]:
    """What is said of, rightly or not: what cannot be read is taken away, too."""
    nothing = ResourceDetails()
    return [resource for resource in RESOURCES if getattr(details, resource) != getattr(nothing, resource)]


# --- acting ----------------------------------------------------------------------------------------------------------


async def set_quota(client: Client, project: str, change: Change, *, manager: str, dry_run: bool) -> Outcome:
    """Raises Conflict where others write all the time."""
    for attempt in range(1, TRIES + 1):
        found = await quota_of(client, project)
        try:
            if found is not None:
                written = await _changed(client, found, change, manager=manager, dry_run=dry_run)
                return Outcome(quota=written, was_default=is_default(found.metadata))
            exists = await project_name(client, project) is not None
            if not any(change.values()):
                return Outcome(quota=None, project_exists=exists)
            made = await client.create(PROJECT_QUOTAS, new_quota(project, change), dry_run=dry_run)
            return Outcome(quota=made, project_exists=exists)
        except (AlreadyExists, Conflict):  # somebody was quicker
            await asyncio.sleep(PAUSE.delay(attempt))
        except NotFound as error:
            if found is None or not error.names(PROJECT_QUOTAS.group, PROJECT_QUOTAS.plural, found.metadata.name):
                raise
            await asyncio.sleep(PAUSE.delay(attempt))  # it was deleted meanwhile
    raise Conflict(
        f"the quota of project {project} is changed by others all the time: {TRIES} tries were in vain",
        code=409,
        reason="Conflict",
    )


async def _changed(client: Client, found: ResourceQuota, change: Change, *, manager: str, dry_run: bool) -> ResourceQuota:
    meta = found.metadata
    if is_deleting(meta):
        raise QuotaGoing(
            f"{PROJECT_QUOTAS.name} {meta.name} is being deleted: it goes when no seed has a copy of it; set it again then. "
            f"Next: kubectl get {PROJECT_QUOTAS.name} {meta.name} -o yaml"
        )
    patch = patch_for(found, change)
    if patch is None:
        return found
    return await client.patch(PROJECT_QUOTAS, meta.name, merge=patch, field_manager=manager, dry_run=dry_run, uid=meta.uid)


async def delete_quota(client: Client, project: str, *, dry_run: bool) -> Removed:
    """That there is none is no error."""
    found = await quota_of(client, project)
    if found is None:
        return Removed(quota=None)
    try:
        await client.delete(PROJECT_QUOTAS, found.metadata.name, uid=found.metadata.uid, dry_run=dry_run)
    except NotFound as error:
        if not error.names(PROJECT_QUOTAS.group, PROJECT_QUOTAS.plural, found.metadata.name):
            raise
        return Removed(quota=None)
    return Removed(quota=found, default=await _default(client))


async def _default(client: Client) -> ResourceDetails | None:
    try:
        found = default_in(await client.find(SETTINGS, SETTING))
    except (Forbidden, NotFound):
        return None
    return found.limits if found is not None else None
