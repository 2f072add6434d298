"""`ullage quota set ns/NAME --snapshot-count …`: the SnapshotLimit that the command writes, and what is said afterwards.

There may be others in the namespace, written by hand: those are left alone, and the smallest number of each counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from msgspec import UNSET, UnsetType

from ullage.cli.common.session import NotInstalled
from ullage.errors import BadInput
from ullage.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from ullage.kube.kinds import Kind, Meta
from ullage.policies.counts.accounts import in_words, pieces, together
from ullage.policies.counts.api import MOST_SNAPSHOTS, SNAPSHOT_LIMITS, SnapshotLimit, SnapshotLimitSpec
from ullage.policies.counts.roles import ADMIN
from ullage.space.limit_setting import PAUSE, TRIES

NAME: Final = "default-snapshot-limit"  # of what this command writes
NO_LIMIT: Final = "none"
WHOLE: Final = "--snapshot-count"
EACH: Final = "--snapshots-per-claim"
FIELDS: Final[Mapping[str, str]] = {WHOLE: "snapshots", EACH: "snapshotsPerClaim"}
ALLOWED: Final = f"a whole number from 0 to {MOST_SNAPSHOTS} is allowed, or {NO_LIMIT}"
_NAMED: Final = 5  # other SnapshotLimits, in a sentence


@dataclass(frozen=True, slots=True)
class CountChange:
    """What was said, by the field of the SnapshotLimit; None takes a limit away."""

    spec: Mapping[str, int | None]

    @property
    def sets(self) -> bool:
        """Whether it sets a number."""
        return any(self.spec.get(field) is not None for field in FIELDS.values())

    def leaves_none(self, old: SnapshotLimitSpec | None) -> bool:
        """Whether there is no number any more afterwards."""
        kept = {
            "snapshots": old.snapshots if old is not None else UNSET,
            "snapshotsPerClaim": old.snapshots_per_claim if old is not None else UNSET,
        }
        return not any(isinstance(self.spec.get(field, kept[field]), int) for field in kept)


def change_of(numbers: Mapping[str, str | None], *, delete_oldest: bool | None) -> CountChange | None:
    """By option, what was given for each; None where nothing was. Raises BadInput, which names the option."""
    spec = {field: _number(option, given) for option, field in FIELDS.items() if (given := numbers.get(option)) is not None}
    if delete_oldest is not None:
        spec["deleteOldest"] = delete_oldest
    return CountChange(spec) if spec else None


def _number(option: str, given: str) -> int | None:
    if given == NO_LIMIT:
        return None
    digits = given.isascii() and given.isdigit() and len(given) <= len(str(MOST_SNAPSHOTS))
    if not digits or int(given) > MOST_SNAPSHOTS:
        raise BadInput(option, given[:40] or "(empty)", f"not a number of snapshots; {ALLOWED}")
    return int(given)


# --- writing ---------------------------------------------------------------------------------------------------------


class CountClient(Protocol):
    """What is needed of a client."""

    async def find(self, kind: Kind[Any], name: str, namespace: str = "") -> Any: ...

    async def list(self, kind: Kind[Any], namespace: str = "") -> Any: ...

    async def create(self, kind: Kind[Any], obj: Any) -> Any: ...

    async def patch(self, kind: Kind[Any], name: str, namespace: str = "", **given: Any) -> Any: ...

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "", **given: Any) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CountOutcome:
    """What is there then: None where no number is limited by this command. `others`: SnapshotLimits that are there, too."""

    written: SnapshotLimit | None
    had: bool
    others: Sequence[str] = ()


async def set_counts(client: CountClient, namespace: str, change: CountChange, *, manager: str) -> CountOutcome:
    """Only what was said changes. Without any number the object goes."""
    for attempt in range(1, TRIES + 1):
        found = await _find(client, namespace)
        if found is None and "deleteOldest" in change.spec and not change.sets:
            raise BadInput("--delete-oldest", f"ns/{namespace}", f"no number is limited there yet; {WHOLE} or {EACH} is needed")
        try:
            written = await _write(client, namespace, found, change, manager=manager)
        except (AlreadyExists, Conflict):  # somebody was quicker
            await asyncio.sleep(PAUSE.delay(attempt))
        except Forbidden as error:
            told = f"only an administrator, or who is bound to the role {ADMIN}, may limit the number of snapshots: ask one"
            raise Forbidden(f"{told}. {error.message}", code=error.code, reason=error.reason, details=error.details) from error
        except NotFound as error:
            if not error.names(SNAPSHOT_LIMITS.group, SNAPSHOT_LIMITS.plural, NAME):
                raise
            await asyncio.sleep(PAUSE.delay(attempt))  # it was deleted meanwhile
        else:
            return CountOutcome(written=written, had=found is not None, others=await _others(client, namespace))
    place = f"{SNAPSHOT_LIMITS.name} {NAME} in namespace {namespace}"
    raise Conflict(f"{place} was changed by others each of {TRIES} times", code=409, reason="Conflict")


async def remove_counts(client: CountClient, namespace: str, *, manager: str) -> CountOutcome:
    """That there is none is no error."""
    return await set_counts(client, namespace, CountChange(dict.fromkeys(FIELDS.values())), manager=manager)


async def _write(
    client: CountClient, namespace: str, found: SnapshotLimit | None, change: CountChange, *, manager: str
) -> SnapshotLimit | None:
    if change.leaves_none(found.spec if found is not None else None):
        if found is not None:
            meta = found.metadata
            await client.delete(SNAPSHOT_LIMITS, NAME, namespace, uid=meta.uid, resource_version=meta.resource_version)
        return None
    if found is not None:
        merge = {"spec": dict(change.spec)}
        written: SnapshotLimit = await client.patch(
            SNAPSHOT_LIMITS, NAME, namespace, merge=merge, uid=found.metadata.uid, field_manager=manager
        )
        return written
    new = SnapshotLimit(metadata=Meta(name=NAME, namespace=namespace), spec=_spec(change))
    created: SnapshotLimit = await client.create(SNAPSHOT_LIMITS, new)
    return created


def _spec(change: CountChange) -> SnapshotLimitSpec:
    def number(field: str) -> int | UnsetType:
        found = change.spec.get(field)
        return UNSET if found is None else found

    return SnapshotLimitSpec(
        snapshots=number("snapshots"),
        snapshots_per_claim=number("snapshotsPerClaim"),
        delete_oldest=bool(change.spec.get("deleteOldest")),
    )


async def _find(client: CountClient, namespace: str) -> SnapshotLimit | None:
    try:
        found: SnapshotLimit | None = await client.find(SNAPSHOT_LIMITS, NAME, namespace)
    except NotFound as error:
        raise NotInstalled(f"the cluster has no SnapshotLimits ({error.message}). Next: ullage install") from error
    return found


async def _others(client: CountClient, namespace: str) -> list[str]:
    try:
        listed = await client.list(SNAPSHOT_LIMITS, namespace)
    except Forbidden:
        return []
    return sorted(one.metadata.name for one in listed.items if one.metadata.name != NAME)


# --- words -----------------------------------------------------------------------------------------------------------


def was_set(namespace: str, outcome: CountOutcome, *, dry_run: bool) -> Iterator[str]:
    whose, is_now = f"the number of snapshots of namespace {namespace}", "would be" if dry_run else "is"
    if outcome.written is None:
        yield f"{whose} {is_now} without a limit{' by this command' if outcome.others else ''}"
    else:
        limits = together([outcome.written])
        refused = "" if limits.delete_oldest else "; one more is refused"
        yield f"{whose} {is_now} limited to {in_words(limits)}{refused}"
        yield from _below_use(outcome.written)
    yield from _beside(namespace, outcome.others)


def was_removed(namespace: str, outcome: CountOutcome, *, dry_run: bool) -> Iterator[str]:
    if outcome.had:
        yield from was_set(namespace, outcome, dry_run=dry_run)
        return
    by = " by this command" if outcome.others else ""
    yield f"the number of snapshots of namespace {namespace} has no limit{by}: nothing to remove"
    yield from _beside(namespace, outcome.others)


def _below_use(limit: SnapshotLimit) -> Iterator[str]:
    used, whole = limit.status.used, limit.spec.snapshots
    if used is not None and isinstance(whole, int) and used > whole:
        yield f"there are {pieces(used)} now: none is deleted for that, and no new one is admitted until there are fewer"


def _beside(namespace: str, others: Sequence[str]) -> Iterator[str]:
    if others:
        named = ", ".join(others[:_NAMED]) + (f" and {len(others) - _NAMED} more" if len(others) > _NAMED else "")
        yield (
            f"other SnapshotLimits are there, too ({named}): the smallest number of each counts, and the oldest is deleted only"
            f" where all of them say so; see: kubectl get snapshotlimits -n {namespace}"
        )
