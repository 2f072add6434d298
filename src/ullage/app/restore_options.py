"""How claims are restored in place here, as the chosen drivers say it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ullage.app.drivers import Chosen

if TYPE_CHECKING:
    from ullage.kube.slices import Wiring
    from ullage.policies.restores.methods.revert import RevertMethod
    from ullage.policies.restores.slice import RestoreOptions
    from ullage.snapshots.backends.hostpath.in_place import HostPathInPlace


def options_of(what: Chosen) -> RestoreOptions:
    from ullage.policies.restores.slice import RestoreOptions

    return RestoreOptions(
        in_place=lambda wiring: _in_place(what, wiring),
        revert=lambda wiring: _revert(what, wiring),
        longhorn=what.longhorn and what.manage_engines,
    )


def _in_place(what: Chosen, wiring: Wiring) -> HostPathInPlace | None:
    if what.hostpath is None:
        return None
    from ullage.app.backends import hostpath_settings
    from ullage.snapshots.backends.hostpath.in_place import HostPathInPlace

    made = HostPathInPlace(hostpath_settings(what.hostpath), clock=wiring.clock)
    wiring.hold(_closed(made))
    return made


def _revert(what: Chosen, wiring: Wiring) -> RevertMethod | None:
    """Where Longhorn itself runs its engines are its own: there claims are made again."""
    from ullage.app.backends import engine_clients

    found = engine_clients(what) if what.longhorn else None
    if found is None:
        return None
    from ullage.policies.restores.methods.revert import RevertMethod
    from ullage.snapshots.backends.longhorn.backend import LonghornBackend

    engines = wiring.shared(found)
    backend = LonghornBackend(wiring.client)
    return RevertMethod(wiring.client, backend, engines, clock=wiring.clock)


@asynccontextmanager
async def _closed(in_place: HostPathInPlace) -> AsyncIterator[None]:
    """What is being copied at the end is called off."""
    try:
        yield
    finally:
        await in_place.close()
