"""Which VolumeGroupSnapshotClass a group is taken with, and the Secret that it names. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ullage.kube.kinds import Meta
from ullage.policies.groups.api import VolumeGroupSnapshotClass
from ullage.policies.groups.model import DEFAULT_CLASS
from ullage.snapshots.backends.base import Parameters
from ullage.snapshots.class_parameters import Variables, driver_parameters, secret_of
from ullage.snapshots.model import Problem, Ref

SNAPSHOTTER: Final = "group-snapshotter"
GETTER: Final = "group-snapshotter-get"
ROLES: Final = (SNAPSHOTTER, GETTER)  # whose Secrets a class may name


def choose_class(name: str, driver: str, classes: Sequence[VolumeGroupSnapshotClass]) -> VolumeGroupSnapshotClass | Problem:
    """The class that a group names, or the only one marked as the default of its volumes' driver."""
    if name:
        found = next((one for one in classes if one.metadata.name == name), None)
        if found is None:
            return Problem("ClassNotFound", f"VolumeGroupSnapshotClass {name} does not exist")
        if found.driver != driver:
            return Problem("DriverMismatch", f"class {name} is for {found.driver}, but the volumes belong to {driver}")
        return found
    marked = sorted(one.metadata.name for one in classes if one.driver == driver and _is_default(one.metadata))
    if len(marked) == 1:
        return next(one for one in classes if one.metadata.name == marked[0])
    if marked:
        return Problem(
            "SeveralDefaultClasses",
            f"{len(marked)} group classes are marked as the default of driver {driver}: {', '.join(marked)}; leave the mark on "
            "one of them, or name a class in spec.volumeGroupSnapshotClassName",
        )
    return Problem(
        "NoDefaultClass",
        f"no VolumeGroupSnapshotClass is marked as the default of driver {driver}; name one in "
        f"spec.volumeGroupSnapshotClassName, or mark one with the annotation {DEFAULT_CLASS}: true",
    )


def _is_default(meta: Meta) -> bool:
    return meta.annotations.get(DEFAULT_CLASS) == "true"


def secret_for(found: VolumeGroupSnapshotClass, group: Meta, *, content: str) -> Ref | None:
    """The Secret that the driver is given for creation and deletion. Raises BadInput."""
    parameters_of(found)
    common = {"volumegroupsnapshot.namespace": group.namespace, "volumegroupsnapshotcontent.name": content}
    variables = Variables(name={**common, "volumegroupsnapshot.name": group.name}, namespace=common)
    return secret_of(found.parameters, SNAPSHOTTER, variables=variables)


def getter_secret_for(found: VolumeGroupSnapshotClass, *, content: str) -> Ref | None:
    """The Secret for looking at a group snapshot. Raises BadInput."""
    common = {"volumegroupsnapshotcontent.name": content}
    return secret_of(found.parameters, GETTER, variables=Variables(name=common, namespace=common))


def parameters_of(found: VolumeGroupSnapshotClass) -> Parameters:
    """Those that are meant for the driver. Raises BadInput."""
    return driver_parameters(found.parameters, roles=ROLES)
