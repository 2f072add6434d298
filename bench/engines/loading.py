"""What is in the API before anything is measured: kinds, Volumes, Engines that run, and their Snapshots unless those are to
be missing. They are what our controllers would have made of them: a cold start that finds something to write says otherwise.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from bench.apiserver.__main__ import DEFINITIONS
from bench.apiserver.load import MERGE, creates
from bench.apiserver.wire import Connection, Json, Target
from bench.engines.volumes import GIB, LIMITS, NS, PURGES, Scale, engine_name, entries_of
from ullage.engines.api import (
    ENGINE_SNAPSHOTS,
    ENGINES,
    FINALIZER,
    GROUP,
    KINDS,
    RUNNING,
    VERSION,
    VOLUMES,
    Engine,
    EngineSpec,
    EngineStatus,
    Volume,
    VolumeSpec,
)
from ullage.engines.chain import HEAD, PollResult
from ullage.engines.controllers.engine_rules import object_for, polled_status
from ullage.engines.controllers.snapshot_rules import mirrored
from ullage.kube.client import codec
from ullage.kube.crds.definitions import crd_of
from ullage.kube.kinds import Kind, Meta

PATH: Final = f"/apis/{GROUP}/{VERSION}/namespaces/{NS}"
ESTABLISH_SECONDS: Final = 30.0
AT_ONCE: Final = 10_000  # objects whose bodies are held


async def load(target: Target, scale: Scale, *, clients: int, missing: bool) -> None:
    """While they are made the kinds have no status of their own: so each object takes one write, and not two."""
    await _define(target)
    names = scale.names()
    await creates(target, f"{PATH}/volumes", [codec.encode(VOLUMES, _volume(name)) for name in names], clients=clients)
    volumes = await _volumes(target)
    engines = [_engine(volume, 0 if missing else scale.snapshots) for volume in volumes]
    await creates(target, f"{PATH}/engines", [codec.encode(ENGINES, one) for one in engines], clients=clients)
    if not missing:
        bodies = (body for volume, engine in zip(volumes, engines, strict=True) for body in _snapshots(volume, engine))
        while some := [body for _, body in zip(range(AT_ONCE), bodies, strict=False)]:
            await creates(target, f"{PATH}/snapshots", some, clients=clients)
    await _have_status(target)


def _volume(name: str) -> Volume:
    return Volume(metadata=Meta(name=name, namespace=NS, finalizers=(FINALIZER,)), spec=VolumeSpec(size=str(GIB)))


def _engine(volume: Volume, snapshots: int) -> Engine:
    """With no snapshots it was never looked at."""
    name = volume.metadata.name
    status = EngineStatus(current_state=RUNNING)
    if snapshots:
        look = PollResult(entries_of(name, snapshots), PURGES, LIMITS)
        status = polled_status(status, look, volume_size=GIB, since_head=0.0)
    meta = Meta(name=engine_name(name), namespace=NS)
    return Engine(metadata=meta, spec=EngineSpec(volume_name=name, volume_size=str(GIB)), status=status)


def _snapshots(volume: Volume, engine: Engine) -> Iterator[bytes]:
    for name, entry in (engine.status.snapshots or {}).items():
        if name != HEAD:
            plain = object_for(name, volume)
            yield codec.encode(ENGINE_SNAPSHOTS, msgspec.structs.replace(plain, status=mirrored(plain, entry, engine)))


async def _volumes(target: Target) -> list[Volume]:
    """As they are now: what belongs to them carries their uids."""
    connection = await Connection(target).open(target.context())
    body = await connection.call("GET", f"{PATH}/volumes")
    await connection.close()
    return codec.decode_page(VOLUMES, body).items or []


# --- the kinds ---


async def _define(target: Target) -> None:
    admin = await Connection(target).open(target.context())
    await admin.json("POST", "/api/v1/namespaces", {"metadata": {"name": NS}})
    for kind in KINDS:
        definition = crd_of(kind)
        for version in definition["spec"]["versions"]:
            version.pop("subresources")
        await admin.json("POST", DEFINITIONS, definition)
    await admin.close()
    for kind in KINDS:
        await _until_served(target, kind)


async def _have_status(target: Target) -> None:
    admin = await Connection(target).open(target.context())
    for kind in KINDS:
        change: Json = {"spec": {"versions": crd_of(kind)["spec"]["versions"]}}
        await admin.json("PATCH", f"{DEFINITIONS}/{kind.name}", change, content_type=MERGE)
    await admin.close()
    for kind in KINDS:
        await _until_served(target, kind, "/status")


async def _until_served(target: Target, kind: Kind[Any], subresource: str = "") -> None:
    deadline = time.monotonic() + ESTABLISH_SECONDS
    wanted = f"{kind.plural}{subresource}"
    while wanted not in await _served(target):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{wanted} of {GROUP} is not served after {ESTABLISH_SECONDS:.0f} s")
        await asyncio.sleep(0.2)


async def _served(target: Target) -> set[str]:
    connection = await Connection(target).open(target.context())
    try:
        found = await connection.json("GET", f"/apis/{GROUP}/{VERSION}")
    except RuntimeError:  # the group is not there yet
        return set()
    finally:
        await connection.close()
    return {one["name"] for one in found["resources"]}
