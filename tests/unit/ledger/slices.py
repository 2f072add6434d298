"""Slices that charge for cups and plates, on the simulated API: composed as the product's are."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import msgspec

from tests.unit.kube.virtual_time import VirtualClock
from tests.unit.ledger.simulated import BY_TEAM, CUPS, Cup, Server
from ullage.kube.client.client import Client
from ullage.kube.controller.controller import Controller
from ullage.kube.kinds import Kind
from ullage.kube.review import Decision, GroupVersionKind, GroupVersionResource, Hook, Request, Review, Target, UserInfo
from ullage.kube.slices import Part, Slice, Wiring
from ullage.ledger.charging.registry import Charged, registry_of
from ullage.ledger.charging.stamps import STAMP
from ullage.ledger.service.views import Evaluator

PLATES = Kind(CUPS.group, "v1", "Plate", "plates", Cup)


def slice_of(kind: Kind[Cup], evaluator: Evaluator[Cup] = BY_TEAM, **rest: Any) -> Slice:
    """A slice that charges for a kind, as they all do."""

    def shared(wiring: Wiring) -> Iterable[Charged[Cup]]:
        yield registry_of(wiring).register(kind, evaluator)

    def hooks(wiring: Wiring) -> Iterable[Hook]:
        charged = registry_of(wiring).registered(kind)

        async def answer(review: Review) -> Decision:
            return await charged.decide(review, next_step=f"delete a {kind.kind.lower()}", **rest)

        yield Hook(name=kind.plural, phase="validate", targets=(Target.of(kind, "CREATE"),), answer=answer)

    return Slice(name=kind.plural, kinds=(kind,), shared=Part(make=shared, watches=(kind,)), hooks=Part(make=hooks))


def wired(server: Server) -> Wiring:
    return Wiring(cast("Client", server), clock=VirtualClock())


@asynccontextmanager
async def running(wiring: Wiring, controllers: Iterable[Controller[Any]] = ()) -> AsyncIterator[None]:
    runs = [*(cache.run() for cache in wiring.caches), *(one.run() for one in controllers)]
    tasks = [asyncio.create_task(work) for work in runs]
    async with AsyncExitStack() as stack:
        for held in wiring.held:
            await stack.enter_async_context(held)
        await asyncio.gather(*(cache.synced.wait() for cache in wiring.caches))
        yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def review(
    kind: Kind[Cup],
    name: str,
    size: int = 1,
    *,
    uid: str = "",
    user: str = "person",
    stamp: str | None = None,
    old: int | None = None,
    deadline: float = math.inf,
) -> Review:
    annotations = {} if stamp is None else {STAMP: stamp}
    identity = uid or f"uid-{name}"

    def body(size: int) -> msgspec.Raw:
        meta = {"name": name, "namespace": "team", "uid": identity, "resourceVersion": "7", "annotations": annotations}
        return msgspec.Raw(msgspec.json.encode({"metadata": meta, "spec": {"size": size}}))

    return Review(
        Request(
            uid="review",
            operation="CREATE" if old is None else "UPDATE",
            kind=GroupVersionKind(group=kind.group, version=kind.version, kind=kind.kind),
            resource=GroupVersionResource(group=kind.group, version=kind.version, resource=kind.plural),
            namespace="team",
            name=name,
            user_info=UserInfo(username=user),
            object=body(size),
            old_object=msgspec.Raw(b"null") if old is None else body(old),
        ),
        deadline,
    )
