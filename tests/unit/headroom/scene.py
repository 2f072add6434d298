"""A namespace with machines on the simulated API, and requests that pass through the hooks as an API server has them pass:
mutating, then what the subresource may not change is put back, validating, stored."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

import jsonpatch
import msgspec

from tests.unit.headroom.builders import TEAM, Json, made
from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.ledger.simulated import Server
from tests.unit.ledger.slices import running, wired
from ullage.headroom.namespaces import EXCEEDS
from ullage.headroom.settings import Settings
from ullage.headroom.slice import headroom
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Kind, Meta
from ullage.kube.review import Decision, GroupVersionKind, GroupVersionResource, Hook, Request, Review, UserInfo
from ullage.ledger.amounts import Takings
from ullage.ledger.api import LEDGERS, NAMESPACE, Ledger, LedgerSpec
from ullage.ledger.charging.registry import registry_of
from ullage.ledger.slice import LEDGER
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.pricing import PricingChoice

PERSON, OURS = "jane", "system:serviceaccount:ullage-system:controller"
KUBEVIRT = "system:serviceaccount:kubevirt:kubevirt-controller"
VIRT_API = "system:serviceaccount:harvester-system:kubevirt-apiserver"
COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"


DESIGNED = Settings(pricing=PricingChoice(version="seed"))


class Scene:
    def __init__(self, settings: Settings | None = None) -> None:
        self.server = Server()
        self.settings = settings or DESIGNED
        self.stamped_by: Settings | None = None
        self._hooks: list[Hook] = []
        self._bodies: dict[tuple[str, Key], Json] = {}
        self._uids = itertools.count(1)
        self.warned: list[str] = []  # in answer to the last request
        self._counted: Callable[[str], Takings] = lambda ledger: Takings()

    # --- what there is ---

    def limits(self, *, vms: Mapping[str, str] | None = None, maintenance: Mapping[str, str] | None = None) -> None:
        """As the namespace's controller sets them on its ledger."""
        cells = {
            account: dict(share) for account, share in (("compute/vms", vms), ("compute/maintenance", maintenance)) if share
        }
        meta = Meta(name=f"ns-{TEAM}", namespace=NAMESPACE)
        self.server.put(LEDGERS, Ledger(metadata=meta, spec=LedgerSpec(limits=cells)))

    def exceeds(self, value: str | None = "true") -> None:
        annotations = {EXCEEDS: value} if value is not None else {}
        self.server.put(NAMESPACES, made(NAMESPACES, {"metadata": {"name": TEAM, "annotations": annotations}}))

    # --- requests ---

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        wiring = wired(self.server)
        self._hooks = wiring.hooks((LEDGER, headroom(self.settings)))
        if self.stamped_by is not None:  # of two replicas another one has the mutating hooks
            stamping = wiring_of_another(self.server, self.stamped_by)
            mutating = [hook for hook in stamping if hook.phase == "mutate"]
            self._hooks = [*mutating, *(hook for hook in self._hooks if hook.phase == "validate")]
        self._counted = registry_of(wiring).counted
        async with running(wiring):
            yield

    @property
    def hooks(self) -> list[Hook]:
        return self._hooks

    async def seen(self) -> None:
        """Until what was written has come to the caches."""
        await asyncio.sleep(3)

    def counted(self) -> Any:
        """What the objects that are there take."""
        return self._counted(f"ns-{TEAM}").written()

    async def submit(
        self,
        kind: Kind[Any],
        body: Json,
        *,
        user: str = PERSON,
        subresource: str = "",
        dry_run: bool = False,
        behind: Mapping[str, str] | None = None,
        apart: bool = True,
    ) -> Decision:
        """Creates or replaces an object. `behind`: annotations that another webhook writes behind ours. `apart`: its kind has
        the status subresource."""
        new = deepcopy(body)
        key = Key(new["metadata"].get("namespace", ""), new["metadata"]["name"])
        old = self._bodies.get((kind.name, key))
        self.warned = []
        if old is not None:
            new["metadata"].update({name: old["metadata"][name] for name in ("uid", "resourceVersion")})
        for hook in self._asked(kind, "mutate", subresource):
            decided = await hook.answer(self._review(kind, new, old, user=user, subresource=subresource, dry_run=dry_run))
            if not decided.allowed:
                return decided
            self.warned += decided.warnings
            new = jsonpatch.apply_patch(new, list(decided.patch))
        new = _settled(new, old, subresource) if apart else new
        new["metadata"].setdefault("uid", f"00000000-{next(self._uids):04d}")
        new["metadata"].setdefault("annotations", {}).update(behind or {})
        for hook in self._asked(kind, "validate", subresource):
            decided = await hook.answer(self._review(kind, new, old, user=user, subresource=subresource, dry_run=dry_run))
            if not decided.allowed:
                return decided
        if not dry_run:
            self.store(kind, new)
        return Decision.allow()

    async def change(self, kind: Kind[Any], name: str, *, user: str = PERSON, **parts: Any) -> Decision:
        """A merge patch: `spec=…`, `metadata=…` or `status=…`, the last of which goes to the subresource."""
        body = merged(self.body(kind, name), parts)
        return await self.submit(kind, body, user=user, subresource="status" if "status" in parts else "")

    def store(self, kind: Kind[Any], body: Json) -> Json:
        """As it is, past the hooks."""
        body["metadata"].setdefault("uid", f"00000000-{next(self._uids):04d}")
        stored = self.server.put(kind, made(kind, body))
        body["metadata"]["resourceVersion"] = stored.metadata.resource_version
        self._bodies[kind.name, Key(stored.metadata.namespace, stored.metadata.name)] = body
        return body

    def remove(self, kind: Kind[Any], name: str) -> None:
        del self._bodies[kind.name, Key(TEAM, name)]
        self.server.drop(kind, Key(TEAM, name))

    def body(self, kind: Kind[Any], name: str) -> Json:
        return self._bodies[kind.name, Key(TEAM, name)]

    def uid(self, name: str) -> str:
        return str(self.body(VIRTUAL_MACHINES, name)["metadata"]["uid"])

    def marks(self, kind: Kind[Any], name: str) -> Json:
        """The annotations that are ours, without their prefix, decoded."""
        found = self.body(kind, name)["metadata"].get("annotations", {})
        return {
            key.removeprefix("ullage.io/"): msgspec.json.decode(value)
            for key, value in found.items()
            if key.startswith("ullage.io/")
        }

    def review(self, kind: Kind[Any], body: Json) -> Review:
        """A creation by a person."""
        return self._review(kind, body, None, user=PERSON, subresource="", dry_run=False)

    def _asked(self, kind: Kind[Any], phase: str, subresource: str) -> Iterable[Hook]:
        resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
        return [
            hook
            for hook in self._hooks
            if hook.phase == phase and any(resource in one.resources and kind.group in one.groups for one in hook.targets)
        ]

    def _review(self, kind: Kind[Any], new: Json, old: Json | None, *, user: str, subresource: str, dry_run: bool) -> Review:
        return Review(
            Request(
                uid="review",
                operation="CREATE" if old is None else "UPDATE",
                kind=GroupVersionKind(group=kind.group, version=kind.version, kind=kind.kind),
                resource=GroupVersionResource(group=kind.group, version=kind.version, resource=kind.plural),
                sub_resource=subresource,
                namespace=new["metadata"].get("namespace", ""),
                name=new["metadata"]["name"],
                user_info=UserInfo(username=user),
                dry_run=dry_run,
                object=msgspec.Raw(msgspec.json.encode(new)),
                old_object=msgspec.Raw(b"null" if old is None else msgspec.json.encode(old)),
            )
        )


def wiring_of_another(server: Server, settings: Settings) -> list[Hook]:
    """The hooks of another replica. Those that stamp machines ask the API, and no cache."""
    return wired(server).hooks((LEDGER, headroom(settings)))


def _settled(new: Json, old: Json | None, subresource: str) -> Json:
    """What the API server makes of it between the phases: a status changes through its subresource, and nothing else there."""
    if subresource:
        return {**deepcopy(old or {}), "status": new.get("status", {})}
    status = {"status": deepcopy(old["status"])} if old is not None and "status" in old else {}
    return {**{key: value for key, value in new.items() if key != "status"}, **status}


def merged(body: Json, patch: Json) -> Json:
    made = deepcopy(body)
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        elif isinstance(value, dict) and isinstance(made.get(key), dict):
            made[key] = merged(made[key], value)
        else:
            made[key] = deepcopy(value)
    return made


def simulated(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs a test in virtual time; what it is given beside the scene is pytest's."""

    def wrapped(**given: Any) -> None:
        async def run() -> None:
            await test(Scene(), **given)

        in_virtual_time(run())

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    _, *others = inspect.signature(test).parameters.values()
    wrapped.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]  # what pytest reads
    return wrapped


__all__ = [
    "COLLECTOR",
    "INSTANCES",
    "KUBEVIRT",
    "OURS",
    "PERSON",
    "VIRTUAL_MACHINES",
    "VIRT_API",
    "Scene",
    "merged",
    "simulated",
]
