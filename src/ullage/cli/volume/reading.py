"""What `ullage volume` reads from a cluster: volumes with their engines, and the claims that they are for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ullage.cli.common.session import Missing, NotInstalled, readable
from ullage.cli.volume.chain import Entries
from ullage.engines import api as longhorn
from ullage.engines.handles import DRIVER, NAMESPACE, engine_volume
from ullage.errors import Terminal
from ullage.kube.builtin import core
from ullage.kube.client.client import Client
from ullage.kube.errors import Forbidden, NotFound


class NoEngine(Terminal):
    """What was named is no volume of an engine, or nobody says what its engine has."""


@dataclass(frozen=True, slots=True)
class Named:
    """A volume as a person names it: by a claim, or by its own name where there is no namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"claim {self.namespace}/{self.name}" if self.namespace else f"volume {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundVolume:
    """`claim` is NAMESPACE/NAME, or empty where none is known. A volume that migrates has two engines."""

    volume: longhorn.Volume
    engines: Sequence[longhorn.Engine] = ()
    claim: str = ""

    @property
    def engine(self) -> longhorn.Engine | None:
        return self.engines[0] if len(self.engines) == 1 else None

    @property
    def entries(self) -> Entries:
        found = self.engine.status.snapshots if self.engine is not None else None
        return found or {}

    @property
    def namespace(self) -> str:
        return self.claim.partition("/")[0]

    @property
    def size(self) -> int:
        """In bytes."""
        return longhorn.to_bytes(self.volume.spec.size)


@dataclass(frozen=True, slots=True)
class ListedVolumes:
    found: Sequence[FoundVolume]
    notes: Sequence[str] = ()  # what could not be read


async def list_volumes(client: Client, *, labels: str = "") -> ListedVolumes:
    await _require_served(client)
    volumes = (await client.list(longhorn.VOLUMES, NAMESPACE, labels=labels)).items
    engines = (await client.list(longhorn.ENGINES, NAMESPACE)).items
    claims = await claims_by_volume(client)
    known: Mapping[str, str] = {} if isinstance(claims, Forbidden) else claims
    return ListedVolumes(
        together(volumes, engines, known), [f"claims are not known: {claims}"] if isinstance(claims, Forbidden) else []
    )


def together(
    volumes: Iterable[longhorn.Volume], engines: Iterable[longhorn.Engine], claims: Mapping[str, str]
) -> list[FoundVolume]:
    """Each volume with its engines, and the claim that is known for its name."""
    by_volume: dict[str, list[longhorn.Engine]] = {}
    for engine in engines:
        by_volume.setdefault(engine.spec.volume_name, []).append(engine)
    return [
        FoundVolume(volume=one, engines=by_volume.get(one.metadata.name, ()), claim=claims.get(one.metadata.name, ""))
        for one in volumes
    ]


async def claims_by_volume(client: Client) -> dict[str, str] | Forbidden:
    """By volume."""
    listing = await readable(client.list(core.PERSISTENT_VOLUMES))
    if isinstance(listing, Forbidden):
        return listing
    return claims_of(listing.items)


def claims_of(volumes: Iterable[core.PersistentVolume]) -> dict[str, str]:
    return {
        name: f"{one.spec.claim_ref.namespace}/{one.spec.claim_ref.name}"
        for one in volumes
        if (name := engine_volume(one)) and one.spec.claim_ref is not None
    }


async def find_volume(client: Client, named: Named) -> FoundVolume:
    """The volume that was named, with its engines."""
    return await volume_behind(client, named, await _handle(client, named) if named.namespace else named.name)


async def volume_behind(client: Client, named: Named, name: str) -> FoundVolume:
    """The same where it is known already what Longhorn calls the volume."""
    try:
        volume = await client.find(longhorn.VOLUMES, name, NAMESPACE)
    except NotFound:
        await _require_served(client)
        raise
    if volume is None:
        raise Missing(f"volume {name} does not exist in namespace {NAMESPACE}{_for_whom(named)}")
    serving = [one for one in (await client.list(longhorn.ENGINES, NAMESPACE)).items if one.spec.volume_name == name]
    claim = f"{named.namespace}/{named.name}" if named.namespace else await _claim_of(client, name)
    return FoundVolume(volume=volume, engines=serving, claim=claim)


async def _handle(client: Client, named: Named) -> str:
    claim = await client.find(core.CLAIMS, named.name, named.namespace)
    if claim is None:
        raise Missing(f"{named} does not exist")
    if not claim.spec.volume_name:
        raise NoEngine(f"{named} has no volume yet")
    volume = await readable(client.find(core.PERSISTENT_VOLUMES, claim.spec.volume_name))
    if isinstance(volume, Forbidden):
        return claim.spec.volume_name  # the provisioner gives both the same name
    source = volume.spec.csi if volume is not None else None
    if source is None or source.driver != DRIVER:
        driver = f"a volume of {source.driver}" if source is not None else "a volume of no CSI driver"
        raise NoEngine(f"{named} has {driver}; only those of {DRIVER} have engines")
    return source.volume_handle


async def _claim_of(client: Client, name: str) -> str:
    found = await claims_by_volume(client)
    return "" if isinstance(found, Forbidden) else found.get(name, "")


def require_chain(found: FoundVolume) -> None:
    """Where nobody has ever said what an engine has, there is nothing to show."""
    name = found.volume.metadata.name
    if len(found.engines) != 1:
        why = "it migrates, and has two engines" if found.engines else "it has no engine yet"
        raise NoEngine(f"the snapshots of volume {name} are not known now: {why}")
    if not found.entries:
        problem = found.engines[0].status.snapshots_error
        why = f"the engine cannot be asked: {problem}" if problem else "it has never been attached"
        raise NoEngine(f"the snapshots of volume {name} are not known yet: {why}")


def _for_whom(named: Named) -> str:
    return f"; {named} names it" if named.namespace else ""


async def _require_served(client: Client) -> None:
    if not await client.served(longhorn.VOLUMES):
        raise NotInstalled(f"this cluster does not serve {_NAME}: it has no volumes of engines")


_NAME: Final = longhorn.VOLUMES.name
