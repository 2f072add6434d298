"""Lets members of a group go: the only way past the finalizer that keeps a member as long as its group stands. And sees to it
that what a class says is to be retained stays.

The record of a member says `Delete` until its group is complete: of one that fails nothing is kept, whatever its class says.
"""

from __future__ import annotations

import contextlib

from ullage.kube.client.client import Client
from ullage.kube.client.conditional import let_go, patch_seen
from ullage.kube.errors import Conflict, NotFound
from ullage.kube.objects import is_deleting
from ullage.snapshots.api.ga.types import CONTENTS, VOLUME_SNAPSHOTS
from ullage.snapshots.cut.members import delete_member, find_member
from ullage.snapshots.model import IN_GROUP


async def drop_member(client: Client, name: str, namespace: str, *, group: str) -> bool:
    """Deletes a member of the group with this uid, and lets it go. False: it is gone, or is not that group's. The API itself is
    asked, since caches may be behind."""
    found = await find_member(client, name, namespace, owner=group)
    if found is None:
        return False
    if not is_deleting(found.metadata) and not await delete_member(client, found):
        return True
    with contextlib.suppress(NotFound, Conflict):
        if not is_deleting(found.metadata):
            found = await client.find(VOLUME_SNAPSHOTS, name, namespace)
        if found is None:
            return False
        await let_go(client, VOLUME_SNAPSHOTS, found, IN_GROUP)
    return True


async def keep_data(client: Client, record: str) -> None:
    """Writes on the record of a member that its data stays, where that is not said yet. The API itself is asked: the record may
    be as new as the group's being complete."""
    found = await client.find(CONTENTS, record) if record else None
    if found is not None and found.spec.deletion_policy != "Retain":
        await patch_seen(client, CONTENTS, found, {"spec": {"deletionPolicy": "Retain"}})
