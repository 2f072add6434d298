"""A seed with user clusters on simulated APIs: ledgers, Clusters, kubeconfigs and Machines, and requests that pass through the
hooks as an API server has them pass: mutating, named, validating, stored."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from copy import deepcopy
from functools import partial
from typing import Any, cast

import jsonpatch
import msgspec

from tests.unit.kube.client.test_foreign import kubeconfig
from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.ledger.simulated import Server
from tests.unit.projects.builders import cluster as cluster_object
from tests.unit.projects.builders import registered_hook
from tests.unit.projects.machines.builders import BY_FLAVOUR
from ullage.errors import BadInput
from ullage.kube.builtin.admissionregistration import (
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    WebhookConfiguration,
)
from ullage.kube.builtin.core import SECRETS, Secret, secret_data
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client, Listing, WatchEvent
from ullage.kube.client.config import Config
from ullage.kube.controller.controller import Controller
from ullage.kube.errors import Conflict, Forbidden, NotFound, TooManyRequests
from ullage.kube.kinds import Kind, Meta
from ullage.kube.review import Decision, GroupVersionKind, GroupVersionResource, Hook, Request, Review, UserInfo
from ullage.kube.slices import Part, Slice, Wiring
from ullage.ledger.amounts import Amounts
from ullage.ledger.api import LEDGERS, NAMESPACE, Ledger, LedgerSpec
from ullage.ledger.slice import LEDGER
from ullage.projects.api.kkp import CLUSTERS
from ullage.projects.api.machines import MACHINE_DEPLOYMENTS, MACHINE_SETS, MACHINES
from ullage.projects.api.records import MACHINE_RECORDS
from ullage.projects.api.templates import DeploymentTemplate, SetTemplate
from ullage.projects.charging.keys import stamp_keys
from ullage.projects.charging.machines import charged_clusters, charging
from ullage.projects.charging.presence import recorded_machines
from ullage.projects.controllers import machine_record as record
from ullage.projects.controllers import machine_stamp as stamp
from ullage.projects.machines.signatures import SigningKeys
from ullage.projects.settings import Settings
from ullage.projects.sizes.catalogue import FlavourKey, Place
from ullage.projects.sizes.lookups import Unknown
from ullage.projects.webhook import machine_hooks
from ullage.times import timestamp

Json = dict[str, Any]
SYSTEM = "kube-system"


class Sizes:
    """What is known of flavours, and what was asked for."""

    def __init__(self) -> None:
        self.known: dict[str, Amounts] = dict(BY_FLAVOUR)
        self.wanted: list[FlavourKey] = []

    def size_of(self, cluster: str, provider_spec: Any) -> Amounts | Unknown:
        try:
            name = provider_spec["cloudProviderSpec"]["flavour"]
        except (KeyError, TypeError) as error:
            raise BadInput("spec.providerSpec.value", provider_spec, "a flavour is needed") from error
        found = self.known.get(name)
        return found if found is not None else Unknown(f"nobody knows {name}", FlavourKey(Place("aws"), name))

    def want(self, lookup: FlavourKey) -> None:
        self.wanted.append(lookup)


class UserCluster(Server):
    """The API of a user cluster."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []
        self.admitted: Callable[[Json], Awaitable[Decision]] | None = None  # what becomes of a Machine that is changed
        self._made = itertools.count(1)

    async def __aenter__(self) -> UserCluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        return

    async def create(self, kind: Kind[Any], obj: Any) -> Any:
        if kind.kind == "Event":
            self.events.append(obj)
        made = {"uid": f"uid-{next(self._made)}", "creation_timestamp": timestamp(VirtualClock().now())}
        return await super().create(kind, msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, **made)))

    async def patch(self, kind: Kind[Any], name: str, namespace: str = "", *, merge: Mapping[str, Any], **given: Any) -> Any:
        """A merge patch, on condition. Of a Machine it passes the hooks."""
        if kind is LEDGERS:
            return await super().patch(kind, name, namespace, merge=merge)
        await asyncio.sleep(self.latency())
        self.calls.append(f"PATCH {kind.plural} {name}")
        self.fault("before")
        live = self.get(kind, Key(namespace, name))
        if live is None:
            raise NotFound("there is none", code=404)
        version = given.get("resource_version") or live.metadata.resource_version
        if (given.get("uid") or live.metadata.uid, version) != (live.metadata.uid, live.metadata.resource_version):
            raise Conflict("somebody else wrote first", code=409)
        if kind is MACHINES and self.admitted is not None:
            decided = await self.admitted(merge_patched(msgspec.to_builtins(live), merge))
            if not decided.allowed:
                raise (TooManyRequests if decided.code == 429 else Forbidden)(decided.message, code=decided.code)
            return self.get(kind, Key(namespace, name))
        return self.put(kind, msgspec.convert(merge_patched(msgspec.to_builtins(live), merge), kind.type))

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "", *, uid: str = "") -> None:
        await asyncio.sleep(self.latency())
        if self.get(kind, Key(namespace, name)) is None:
            raise NotFound("there is none", code=404)
        self.drop(kind, Key(namespace, name))


class Seed(UserCluster):
    """The API of the seed. Kubeconfigs name user clusters by their hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.others: dict[str, UserCluster] = {}

    async def list(self, kind: Kind[Any], namespace: str = "", *, fields: str = "", **rest: Any) -> Listing[Any]:
        found = await super().list(kind, namespace, **rest)
        return Listing([one for one in found.items if _selected(one, fields)], found.resource_version)

    async def watch(
        self, kind: Kind[Any], namespace: str = "", *, fields: str = "", **rest: Any
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        async with aclosing(super().watch(kind, namespace, **rest)) as events:
            async for event in events:
                if event.type == "BOOKMARK" or _selected(event.object, fields):
                    yield event

    def beside(self, config: Config) -> Client:
        return cast(Client, self.others[config.server.removeprefix("https://")])


class SeedScene:
    budget = math.inf  # seconds that a review has

    def __init__(self, settings: Settings | None = None) -> None:
        self.seed = Seed()
        self.settings = settings or Settings()
        self.sizes = Sizes()
        self.clock = VirtualClock()
        self.wiring = Wiring(cast(Client, self.seed), instance="us", clock=self.clock)
        self._hooks: list[Hook] = []
        self._bodies: dict[tuple[str, str, Key], Json] = {}
        self._uids = itertools.count(1)

    def restarted(self) -> SeedScene:
        """Another process on the same servers. That of before is over."""
        made = SeedScene(self.settings)
        made.seed, made.sizes = self.seed, self.sizes
        made._bodies, made._uids = self._bodies, self._uids
        made.wiring = Wiring(cast(Client, self.seed), instance="us-again", clock=made.clock)
        for name, host in self.seed.others.items():
            host.admitted = partial(made.submit, MACHINES, cluster=name)
        return made

    # --- what there is ---

    def cluster(self, name: str = "c-1", *, of: str = "abc", asks: bool = True, **more: Any) -> UserCluster:
        host = self.seed.others.setdefault(name, UserCluster())
        if asks:
            self.register(name)
        host.admitted = partial(self.submit, MACHINES, cluster=name)
        text = kubeconfig(cluster={"server": f"https://{name}"})
        meta = Meta(name="admin-kubeconfig", namespace=f"cluster-{name}", uid=f"kubeconfig-{name}")
        self.seed.put(SECRETS, Secret(metadata=meta, data=secret_data({"kubeconfig": text})))
        self.seed.put(CLUSTERS, cluster_object(name, of=of, **more))
        return host

    def register(self, cluster: str = "c-1") -> None:
        """Has the API server of a user cluster told to ask."""
        for kind, hook in ((MUTATING_WEBHOOKS, "project-machine-stamp"), (VALIDATING_WEBHOOKS, "project-machine")):
            entry = registered_hook(hook)
            self.seed.others[cluster].put(kind, WebhookConfiguration(metadata=Meta(name="ullage-elsewhere"), webhooks=(entry,)))

    def limits(self, project: str = "abc", *, grants: Mapping[str, str] | None = None, **limits: str) -> None:
        spec = LedgerSpec(limits={"machines": limits}, grants={"machines": dict(grants)} if grants else {})
        self.seed.put(LEDGERS, Ledger(metadata=Meta(name=f"project-{project}", namespace=NAMESPACE), spec=spec))

    def ledger(self, project: str = "abc") -> Ledger:
        found = self.seed.get(LEDGERS, Key(NAMESPACE, f"project-{project}"))
        assert isinstance(found, Ledger)
        return found

    @property
    def keys(self) -> SigningKeys:
        return self.wiring.shared(stamp_keys).current

    def slice(self) -> Slice:
        def hooks(wiring: Wiring) -> Any:
            return machine_hooks.make_hooks(wiring, self.settings, sizes=self.sizes)

        def controllers(wiring: Wiring) -> Any:
            return machine_controllers(wiring, self.settings, sizes=self.sizes)

        return Slice(
            name="projects",
            shared=charging(),
            hooks=Part(make=hooks, watches=machine_hooks.WATCHES, elsewhere=machine_hooks.ELSEWHERE),
            controllers=Part(make=controllers, watches=(CLUSTERS, MACHINE_RECORDS), elsewhere=(MACHINES,)),
        )

    # --- the process ---

    @asynccontextmanager
    async def served(self, *, controllers: bool = False) -> AsyncIterator[None]:
        """The webhook; with `controllers` these too, in the same process."""
        slices = (LEDGER, self.slice())
        made: list[Controller[Any]] = []
        if controllers:
            made = self.wiring.controllers(slices)
            assert slices[1].hooks is not None
            self._hooks = self.wiring.made(slices[1].hooks)
        else:
            self._hooks = self.wiring.hooks(slices)
        async with process(self.wiring, made):
            await self.seen()
            yield

    async def seen(self) -> None:
        """Until what was written has come to the caches."""
        await asyncio.sleep(3)

    # --- requests ---

    async def create(self, flavour: str = "m", *, cluster: str = "c-1", **more: Any) -> Decision:
        return await self.submit(MACHINES, machine_body(flavour, **more), cluster=cluster, dry_run=more.get("dry_run", False))

    async def submit(
        self, kind: Kind[Any], body: Json, *, cluster: str = "c-1", dry_run: bool = False, behind: Json | None = None
    ) -> Decision:
        """Creates or replaces an object. `behind`: annotations that another webhook writes behind ours."""
        new = deepcopy(body)
        meta = new["metadata"]
        old = self._bodies.get((cluster, kind.name, Key(SYSTEM, meta["name"]))) if "name" in meta else None
        if old is not None:
            meta.update({name: old["metadata"][name] for name in ("uid", "resourceVersion", "creationTimestamp")})
        warnings: tuple[str, ...] = ()
        for phase in ("mutate", "validate"):
            for hook in self._asked(kind, phase, old):
                decided = await hook.answer(self._review(kind, new, old, cluster=cluster, dry_run=dry_run))
                if not decided.allowed:
                    return decided
                warnings += decided.warnings
                new = jsonpatch.apply_patch(new, list(decided.patch))
            number = next(self._uids)
            meta = new["metadata"]
            meta.setdefault("name", f"{meta.get('generateName', '')}{number:05d}")
            meta.setdefault("uid", f"u-{number:04d}")
            meta.setdefault("creationTimestamp", timestamp(self.clock.now()))
            if phase == "mutate":
                meta["annotations"] = {**meta.get("annotations", {}), **(behind or {})}
        if not dry_run:
            self.store(kind, new, cluster=cluster)
        return Decision.allow(warnings=warnings)

    def store(self, kind: Kind[Any], body: Json, *, cluster: str = "c-1") -> Json:
        """As it is, past the hooks."""
        meta = body["metadata"]
        meta.setdefault("uid", f"u-{next(self._uids):04d}")
        meta.setdefault("creationTimestamp", timestamp(self.clock.now()))
        whole = {MACHINE_SETS: SetTemplate, MACHINE_DEPLOYMENTS: DeploymentTemplate}.get(kind, kind.type)
        stored = self.seed.others[cluster].put(kind, msgspec.convert(body, whole))
        meta["resourceVersion"] = stored.metadata.resource_version
        self._bodies[cluster, kind.name, Key(SYSTEM, meta["name"])] = body
        return body

    def bodies(self, cluster: str = "c-1", kind: Kind[Any] = MACHINES) -> list[Json]:
        return [body for (where, name, _), body in self._bodies.items() if (where, name) == (cluster, kind.name)]

    def body(self, name: str, *, cluster: str = "c-1", kind: Kind[Any] = MACHINES) -> Json:
        return deepcopy(self._bodies[cluster, kind.name, Key(SYSTEM, name)])

    def remove(self, name: str, *, cluster: str = "c-1") -> None:
        del self._bodies[cluster, MACHINES.name, Key(SYSTEM, name)]
        self.seed.others[cluster].drop(MACHINES, Key(SYSTEM, name))

    def hook(self, name: str) -> Hook:
        return next(hook for hook in self._hooks if hook.name == name)

    def _asked(self, kind: Kind[Any], phase: str, old: Json | None) -> list[Hook]:
        operation = "CREATE" if old is None else "UPDATE"
        return [
            hook
            for hook in self._hooks
            if hook.phase == phase and any(kind.plural in one.resources and operation in one.operations for one in hook.targets)
        ]

    def _review(self, kind: Kind[Any], new: Json, old: Json | None, *, cluster: str, dry_run: bool) -> Review:
        deadline = self.clock.monotonic() + self.budget
        return review_of(kind, new, old, cluster=cluster, dry_run=dry_run, deadline=deadline)


@asynccontextmanager
async def process(wiring: Wiring, controllers: Iterable[Controller[Any]] = ()) -> AsyncIterator[None]:
    """As a process runs it: what is held is entered before anything is read."""
    async with wiring.holding(asyncio.Event()):
        tasks = [
            asyncio.create_task(work) for work in (*(one.run() for one in wiring.caches), *(one.run() for one in controllers))
        ]
        try:
            await asyncio.gather(*(cache.synced.wait() for cache in wiring.caches))
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def machine_controllers(wiring: Wiring, settings: Settings, *, sizes: Sizes) -> list[Controller[Any]]:
    charged, keys, recorded = wiring.shared(charged_clusters), wiring.shared(stamp_keys), wiring.shared(recorded_machines)
    records = record.MachineRecords(
        wiring.client,
        wiring.clusters,
        record.RecordCaches(records=recorded.records, charged=charged),
        keys=keys,
        sizes=sizes,
        recorder=wiring.recorder("projects"),
        keep=settings.keep_vanished,
        clock=wiring.clock,
    )
    stamps = stamp.MachineStamps(
        wiring.clusters,
        charged,
        keys=keys,
        recorded=recorded,
        sizes=sizes,
        recorder=wiring.recorder("projects"),
        metrics=stamp.StampMetrics(wiring.metrics.registry),
        clock=wiring.clock,
    )
    return [records.controller(metrics=wiring.metrics), stamps.controller(metrics=wiring.metrics)]


def merge_patched(body: Json, merge: Mapping[str, Any]) -> Json:
    made = dict(body)
    for key, value in merge.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = merge_patched(made.get(key) or {}, value) if isinstance(value, Mapping) else value
    return made


def _selected(obj: Any, fields: str) -> bool:
    return not fields or fields == f"metadata.name={obj.metadata.name}"


def review_of(
    kind: Kind[Any],
    new: Json,
    old: Json | None = None,
    *,
    cluster: str = "c-1",
    dry_run: bool = False,
    subresource: str = "",
    deadline: float = math.inf,
) -> Review:
    request = Request(
        uid="review",
        operation="CREATE" if old is None else "UPDATE",
        kind=GroupVersionKind(group=kind.group, version=kind.version, kind=kind.kind),
        resource=GroupVersionResource(group=kind.group, version=kind.version, resource=kind.plural),
        sub_resource=subresource,
        namespace=SYSTEM,
        name=new["metadata"].get("name", ""),
        user_info=UserInfo(username="system:serviceaccount:kube-system:machine-controller"),
        dry_run=dry_run,
        object=msgspec.Raw(msgspec.json.encode(new)),
        old_object=msgspec.Raw(b"null" if old is None else msgspec.json.encode(old)),
    )
    return Review(request, deadline, cluster)


def machine_body(flavour: str = "m", *, name: str = "", owner: str = "", **more: Any) -> Json:
    """One that is about to be made; `owner` is the uid of its MachineSet."""
    meta: Json = {"namespace": SYSTEM, **({"name": name} if name else {"generateName": "web-"})}
    if owner:
        meta["ownerReferences"] = [owner_reference("MachineSet", owner)]
    if "annotations" in more:
        meta["annotations"] = more["annotations"]
    return {"metadata": meta, "spec": {"providerSpec": {"value": provider_spec(flavour, **more.get("spec", {}))}}}


def provider_spec(flavour: str, **more: Any) -> Json:
    return {"cloudProvider": "aws", "cloudProviderSpec": {"flavour": flavour, **more}}


def owner_reference(kind: str, uid: str) -> Json:
    return {"apiVersion": "cluster.k8s.io/v1alpha1", "kind": kind, "name": uid, "uid": uid, "controller": True}


def simulated(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs a test in virtual time; what it is given beside the scene is pytest's."""

    def wrapped(**given: Any) -> None:
        async def run() -> None:
            await test(SeedScene(), **given)

        in_virtual_time(run())

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    _, *others = inspect.signature(test).parameters.values()
    wrapped.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]  # what pytest reads
    return wrapped
