"""What users of a namespace may do with backups and restores of VMs, through the roles that administrators give out anyway."""

from __future__ import annotations

from typing import Any

from ullage.kube.kinds import Kind
from ullage.kube.slices import Grant


def aggregated_roles(kinds: tuple[Kind[Any], ...]) -> tuple[Grant, ...]:
    """`edit` becomes part of the roles edit and admin, `view` part of view, which those two gather as a whole."""
    if not kinds:
        return ()
    return (
        Grant(
            name="edit",
            roles=("edit", "admin"),
            kinds=kinds,
            verbs=("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
        ),
        Grant(name="view", roles=("view",), kinds=kinds, verbs=("get", "list", "watch")),
    )
