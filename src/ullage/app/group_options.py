"""Whether groups of snapshots are ours, as options say it, and the drivers that may cut all volumes of one in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ullage.app.drivers import Chosen
    from ullage.kube.slices import Wiring
    from ullage.policies.groups.slice import GroupOptions
    from ullage.snapshots.backends.base import GroupBackend

ObserveGroups = Annotated[
    bool,
    typer.Option(
        "--observe-groups",
        help="Another snapshotter answers for VolumeGroupSnapshots (snapshot-controller with CSIVolumeGroupSnapshot=true): "
        "they are left alone.",
    ),
]


def options_of(what: Chosen) -> GroupOptions:
    """For the slice of groups. Which drivers are ours is what is said of single snapshots."""
    from ullage.app import drivers
    from ullage.policies.cut_hooks.slice import WATCHES, hooks_of_process
    from ullage.policies.groups.slice import GroupOptions

    return GroupOptions(
        settings=drivers.options_of(what).settings,
        backends=lambda wiring: backends_of(what, wiring),
        hooks=lambda wiring: wiring.shared(hooks_of_process),
        more=WATCHES,
        manage=not what.observe_groups,
    )


def backends_of(what: Chosen, wiring: Wiring) -> dict[str, GroupBackend]:
    """Drivers with a socket. Each has a channel of its own: calls for groups do not wait behind those for single snapshots."""
    from ullage.snapshots.backends.csi.groups import CsiGroupBackend

    made: dict[str, GroupBackend] = {}
    for name, socket in what.sockets.items():
        if socket is not None:
            backend = CsiGroupBackend.at(socket, driver=name)
            wiring.hold(backend)
            made[name] = backend
    return made
