"""`ullage uninstall`: takes away what `ullage install` brought, in an order in which nothing gets stuck.

Hooks and policies first: an entry without a server refuses everything that it matches. Then our guard finalizer goes from all
VolumeSnapshots: no other snapshotter would take it off. On a seed the hooks in its user clusters go next: a webhook that still
runs puts them back only as long as the seed has its own. Then data, only when asked for, and while the controllers still run:
their finalizers are what gives back what the objects hold. Then the kinds, and the identities last.
Only what carries our label is ever deleted, and the controllers' lease; of kinds that other snapshotters use too, only what is
of our drivers, and the kind stays as long as there is anything else of it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ullage.app.installer import manifests as ours
from ullage.app.installer.names import EVERY
from ullage.app.installer.outcomes import Outcome, Report, Verb
from ullage.app.installer.user_clusters import HooksElsewhere
from ullage.clock import Clock, SystemClock
from ullage.kube.builtin import core, flowcontrol, rbac
from ullage.kube.builtin.admissionregistration import (
    MUTATING_WEBHOOKS,
    POLICIES,
    POLICY_BINDINGS,
    VALIDATING_WEBHOOKS,
)
from ullage.kube.builtin.apiextensions import DEFINITIONS, CustomResourceDefinition
from ullage.kube.builtin.coordination import LEASES
from ullage.kube.client.client import Client
from ullage.kube.crds.definitions import MANAGED_BY, OURS
from ullage.kube.errors import ApiError, Conflict, NotFound
from ullage.kube.kinds import Kind, Meta, Object
from ullage.ledger.service.charging_leases import CHARGES
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.model import GUARD, Dialect
from ullage.snapshots.settings import HOSTPATH

# Whose the objects of shared kinds are: other snapshotters use the same kinds, and a purge must leave theirs alone.
# Pure. A driver is ours if whoever purges says so, or if one of its records carries a key of ours (`ullage.io/…`):
# records are for administrators. On a snapshot such a key counts only as long as no record tells its driver: users may
# write there what they like, and must not have other tenants' snapshots deleted.


MARK: Final = "ullage.io/"
UNKNOWN: Final = "a driver that is not known"


@dataclass(frozen=True, slots=True)
class Ownership:
    """Of the objects of one API. `by_record` is the driver of each record."""

    dialect: Dialect[Any, Any]
    drivers: frozenset[str]
    by_record: Mapping[str, str]

    @classmethod
    def of(cls, dialect: Dialect[Any, Any], records: Iterable[Object], *, drivers: Iterable[str] = ()) -> Ownership:
        read = [dialect.read_record(one) for one in records]
        marked = (one.driver for one in read if _is_marked(one.meta))
        return cls(dialect, frozenset({HOSTPATH, *drivers, *marked}), {one.meta.name: one.driver for one in read})

    @property
    def kinds(self) -> tuple[Kind[Any], ...]:
        return self.dialect.snapshots, self.dialect.records, self.dialect.classes

    def stranger(self, kind: Kind[Any], obj: Any) -> str:
        """The driver of somebody else that an object belongs to; empty where it is ours."""
        if kind.name == self.dialect.records.name:
            driver = self.dialect.read_record(obj).driver
        elif kind.name == self.dialect.classes.name:
            driver = self.dialect.read_class(obj).driver
        else:
            snapshot = self.dialect.read_snapshot(obj)
            driver = self.by_record.get(snapshot.state.record or snapshot.imported_record, "")
            if not driver and _is_marked(obj.metadata):
                return ""
        return "" if driver in self.drivers else driver or UNKNOWN


def _is_marked(meta: Meta) -> bool:
    return any(key.startswith(MARK) for key in (*meta.labels, *meta.annotations, *meta.finalizers))


SELECTOR: Final = f"{MANAGED_BY}={OURS}"
POLL_SECONDS: Final = 1.0
AT_ONCE: Final = 16
SHOWN: Final = 10  # objects that keep us waiting, by name


HOOKS: Final[tuple[Kind[Any], ...]] = (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS, POLICY_BINDINGS, POLICIES)
_LEFT_BEHIND: Final[tuple[tuple[Kind[Any], str], ...]] = tuple(
    found
    for names in EVERY
    for found in (
        (core.SECRETS, names.certificate),
        (core.SECRETS, names.paths),
        (core.SECRETS, names.api_certificate),
        (core.CONFIG_MAPS, names.condition),
        (core.CONFIG_MAPS, names.api_bundle),
    )
)
# Without our label; their names are ours alone.
_UNMARKED: Final[tuple[tuple[Kind[Any], str], ...]] = tuple(
    dict.fromkeys(found for names in EVERY for found in ((core.SECRETS, names.callers), (LEASES, names.lease)))
)
_CALLERS: Final = frozenset((core.SECRETS, names.callers) for names in EVERY)
_CONTROLLER_LEASES: Final = tuple(dict.fromkeys(names.lease for names in EVERY))
_IDENTITIES: Final = (
    ours.ROLE_TEMPLATES,
    rbac.CLUSTER_ROLE_BINDINGS,
    rbac.ROLE_BINDINGS,
    rbac.CLUSTER_ROLES,
    rbac.ROLES,
    core.SERVICE_ACCOUNTS,
    flowcontrol.FLOW_SCHEMAS,
    flowcontrol.PRIORITY_LEVELS,
)


_IN_ANY_NAMESPACE: Final = (rbac.ROLE_BINDINGS, rbac.ROLES)  # where classes name Secrets


@dataclass(frozen=True, slots=True)
class FoundObject:
    """An object that is to go."""

    kind: Kind[Any]
    meta: Meta

    def __str__(self) -> str:
        place = f"{self.meta.namespace}/" if self.meta.namespace else ""
        return f"{self.kind.name} {place}{self.meta.name}"


class Uninstaller:
    def __init__(
        self,
        client: Client,
        *,
        tell: Report,
        dry_run: bool = False,
        timeout: float = 120.0,
        drivers: Iterable[str] = (),
        clock: Clock | None = None,
        poll: float = POLL_SECONDS,
    ) -> None:
        """`drivers` are ours besides those that can be told to be."""
        self._client = client
        self._tell = tell
        self._dry_run = dry_run
        self._timeout = timeout
        self._drivers = tuple(drivers)
        self._clock = clock or SystemClock()
        self._poll = poll
        self._outcomes: list[Outcome] = []
        self._keep_callers = False

    async def uninstall(self, *, purge: bool) -> list[Outcome]:
        """Everything but kinds and data; with `purge`, these too. Where objects do not go, it ends there and says why."""
        for kind in HOOKS:
            await self._delete_all(await self._labelled(kind))
        await self._guards()
        await self._hooks_elsewhere()
        definitions = (await self._client.list(DEFINITIONS, labels=SELECTOR)).items
        if purge:
            shared = await self._shared([definition.kind() for definition in definitions])
            if not await self._drain([definition.kind() for definition in definitions], shared):
                return self._outcomes
            gone = [one for one in definitions if not await self._others(one, shared)]
            await self._delete_all([FoundObject(DEFINITIONS, definition.metadata) for definition in gone], wait=True)
        else:
            for definition in definitions:
                self._note(
                    "left alone", FoundObject(DEFINITIONS, definition.metadata), "with its objects; --purge deletes both"
                )
        for kind in _IDENTITIES:
            await self._delete_all(await self._labelled(kind))
        await self._guards(again=True)
        await self._delete_all([found async for found in self._left_behind()])
        await self._namespace(purge=purge)
        return self._outcomes

    async def _guards(self, *, again: bool = False) -> None:
        """Takes our guard off all VolumeSnapshots, and no other finalizer. With `again`: also what a controller that
        still ran has put on since. Its last request may still be under way: this ends when nothing was found twice.
        A refusal is told at the end only: API servers hold on to a policy for some seconds after its deletion."""
        deadline, calm = self._clock.monotonic() + self._timeout, 0
        while True:
            found = [
                FoundObject(dialect.snapshots, obj.metadata)
                for dialect in (GA, PROTOTYPE)
                for obj in await self._objects(dialect.snapshots)
                if GUARD in obj.metadata.finalizers
            ]
            refused = [(one, why) for one in found if (why := await self._unguard(one))]
            calm = 0 if found else calm + 1
            if self._dry_run or not again or calm > 1:
                return
            if found and self._clock.monotonic() > deadline:
                for one, why in refused[:SHOWN]:
                    self._note("problem", one, why)
                if refused:
                    return
                why = f"{GUARD} is put on again, for {self._timeout:.0f} s: stop the controllers, and run this again"
                self._note("problem", found[0], why)
                return
            await asyncio.sleep(self._poll)

    async def _unguard(self, one: FoundObject) -> str:
        """Returns why it was refused; empty where it was not."""
        kept = [name for name in one.meta.finalizers if name != GUARD]
        version = one.meta.resource_version
        try:
            if not self._dry_run:
                change = {"metadata": {"finalizers": kept}}
                await self._client.patch(
                    one.kind, one.meta.name, one.meta.namespace, merge=change, uid=one.meta.uid, resource_version=version
                )
        except (NotFound, Conflict):
            return ""
        except ApiError as error:
            return error.message
        self._note("changed", one, f"without {GUARD}")
        return ""

    async def _hooks_elsewhere(self) -> None:
        """Where a cluster could not be asked, the key stays by which the next uninstall knows that there are some."""
        found = await HooksElsewhere(client=self._client, connect=self._client.beside, dry_run=self._dry_run).remove()
        for outcome in found:
            self._say(outcome)
        self._keep_callers = any(outcome.verb == "problem" for outcome in found)

    # --- data --------------------------------------------------------------------------------------------------------

    async def _shared(self, kinds: list[Kind[Object]]) -> dict[str, Ownership]:
        """By kind, whose the objects are of those that others use too."""
        names = {kind.name for kind in kinds}
        found: dict[str, Ownership] = {}
        for dialect in (GA, PROTOTYPE):
            records = await self._objects(dialect.records) if dialect.records.name in names else []
            ownership = Ownership.of(dialect, records, drivers=self._drivers)
            found |= {kind.name: ownership for kind in ownership.kinds if kind.name in names}
        return found

    async def _others(self, definition: CustomResourceDefinition, shared: Mapping[str, Ownership]) -> bool:
        """Whether there are objects of other drivers; then the kind is left, and that is said."""
        kind = definition.kind()
        if kind.name not in shared:
            return False
        ownership = shared[kind.name]
        typed = next(one for one in ownership.kinds if one.name == kind.name)
        strangers = Counter(driver for one in await self._objects(typed) if (driver := ownership.stranger(typed, one)))
        if strangers:
            whose = ", ".join(f"{count} of {driver}" for driver, count in sorted(strangers.items()))
            self._note("left alone", FoundObject(DEFINITIONS, definition.metadata), f"it has objects of others: {whose}")
        return bool(strangers)

    async def _drain(self, kinds: list[Kind[Object]], shared: Mapping[str, Ownership]) -> bool:
        """Deletes all objects of the kinds that are ours, and those that appear meanwhile, until none is left."""
        deadline = self._clock.monotonic() + self._timeout
        asked: set[str] = set()
        told = False
        while True:
            left = [FoundObject(kind, meta) for kind in kinds for meta in await self._metas(kind, shared.get(kind.name))]
            await self._ask([one for one in left if one.meta.uid not in asked and not one.meta.deletion_timestamp], asked)
            if not left or self._dry_run:
                return True
            if self._clock.monotonic() > deadline:
                await self._stuck(left)
                return False
            if not told and all(one.meta.deletion_timestamp for one in left):
                told = True
                self._note("waiting", left[0], f"held by finalizers{_others(len(left), 'as')}")
            await asyncio.sleep(self._poll)

    async def _ask(self, found: list[FoundObject], asked: set[str]) -> None:
        asked.update(one.meta.uid for one in found)
        await self._delete_all(found)

    async def _stuck(self, left: list[FoundObject]) -> None:
        found = [await self._client.find(LEASES, name, ours.NAMESPACE) for name in _CONTROLLER_LEASES]
        holders = ", ".join(lease.spec.holder_identity for lease in found if lease and lease.spec.holder_identity)
        who = f"the controllers run as {holders}" if holders else "no controller runs: start one, it gives back what they hold"
        for one in left[:SHOWN]:
            held = ", ".join(one.meta.finalizers) or "nothing that it says"
            self._note("problem", one, f"not gone after {self._timeout:.0f} s, held by {held}; {who}")
        if len(left) > SHOWN:
            self._note("problem", left[SHOWN], f"not gone either{_others(len(left) - SHOWN, 'nor')}")

    async def _metas(self, kind: Kind[Object], ownership: Ownership | None) -> list[Meta]:
        if ownership is None:
            return [obj.metadata for obj in await self._objects(kind)]
        typed = next(one for one in ownership.kinds if one.name == kind.name)
        return [obj.metadata for obj in await self._objects(typed) if not ownership.stranger(typed, obj)]

    async def _objects(self, kind: Kind[Any]) -> list[Any]:
        try:
            return list((await self._client.list(kind)).items)
        except NotFound:  # the definition is not served, or no longer
            return []

    # --- everything else ---------------------------------------------------------------------------------------------

    async def _labelled(self, kind: Kind[Any]) -> list[FoundObject]:
        try:
            everywhere = not kind.namespaced or kind in _IN_ANY_NAMESPACE
            listing = await self._client.list(kind, "" if everywhere else ours.NAMESPACE, labels=SELECTOR)
        except NotFound:
            return []
        return [FoundObject(kind, obj.metadata) for obj in listing.items]

    async def _left_behind(self) -> AsyncIterator[FoundObject]:
        """What the processes make for themselves."""
        for kind, name in _LEFT_BEHIND:
            found = await self._client.find(kind, name, ours.NAMESPACE)
            if found is not None and found.metadata.labels.get(MANAGED_BY) == OURS:
                yield FoundObject(kind, found.metadata)
        for lease in (await self._client.list(LEASES, ours.NAMESPACE, labels=f"{CHARGES}=true")).items:
            yield FoundObject(LEASES, lease.metadata)
        for kind, name in _UNMARKED:
            found = await self._client.find(kind, name, ours.NAMESPACE)
            if found is None:
                continue
            if self._keep_callers and (kind, name) in _CALLERS:
                why = "user clusters may still have our hooks: run this again when they can be reached"
                self._note("left alone", FoundObject(kind, found.metadata), why)
            else:
                yield FoundObject(kind, found.metadata)

    async def _namespace(self, *, purge: bool) -> None:
        found = await self._client.find(core.NAMESPACES, ours.NAMESPACE)
        if found is None:
            return
        namespace = FoundObject(core.NAMESPACES, found.metadata)
        if found.metadata.labels.get(MANAGED_BY) != OURS:
            self._note("left alone", namespace, "not ours")
        elif purge:
            await self._delete_all([namespace])
        else:
            self._note("left alone", namespace, "it may hold data; --purge deletes it")

    async def _delete_all(self, found: Iterable[FoundObject], *, wait: bool = False) -> None:
        """A few at a time; `wait` until they are gone. What is gone already is as good."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def delete(one: FoundObject) -> None:
            async with gate:
                await self._delete(one)

        async with asyncio.TaskGroup() as group:
            for one in (found := list(found)):
                group.create_task(delete(one))
        deadline = self._clock.monotonic() + self._timeout
        while wait and not self._dry_run:
            left = [one for one in found if await self._client.find(one.kind, one.meta.name, one.meta.namespace)]
            if not left:
                return
            if self._clock.monotonic() > deadline:
                self._note("problem", left[0], f"not gone after {self._timeout:.0f} s")
                return
            await asyncio.sleep(self._poll)

    async def _delete(self, one: FoundObject) -> None:
        try:
            if not self._dry_run:
                await self._client.delete(
                    one.kind, one.meta.name, one.meta.namespace, uid=one.meta.uid, propagation="Background"
                )
        except (NotFound, Conflict):
            return
        except ApiError as error:
            self._note("problem", one, error.message)
            return
        self._note("deleted", one)

    def _note(self, verb: Verb, one: FoundObject, why: str = "") -> None:
        place = f"{one.meta.namespace}/" if one.meta.namespace else ""
        self._say(Outcome(verb, one.kind.kind.lower(), f"{place}{one.meta.name}", why))

    def _say(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        self._tell(outcome)


def _others(count: int, word: str) -> str:
    """The rest of a line about the first of so many."""
    return {1: "", 2: f", {word} is one other"}.get(count, f", {word} are {count - 1} others")
