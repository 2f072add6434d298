"""What `ullage vm migration-config` reads and writes: the migration settings of the KubeVirt object."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

from ullage.cli.common.session import Missing, NotInstalled, Session
from ullage.cli.common.text import NONE, aligned, plain, structured
from ullage.errors import Terminal
from ullage.kube.errors import NotFound
from ullage.vms.api.kubevirts import KUBEVIRTS, KubeVirt
from ullage.vms.migration_settings import SETTINGS, WHERE, Given, given_in, values_of

HEAD: Final = ("SETTING", "VALUE", "DEFAULT", "MEANING")


async def show(session: Session, output: str) -> None:
    kubevirt = await _kubevirt(session)
    given = given_in(kubevirt)
    if output != "table":
        values, _ = values_of(given)
        print(structured(values, output))
        return
    print(table(given))
    _warn(given)


async def change(session: Session, wanted: Mapping[str, Any], *, dry_run: bool) -> None:
    """None takes a setting out. Merged, so that whatever else the object says stays."""
    kubevirt = await _kubevirt(session)
    meta = kubevirt.metadata
    patch: Any = dict(wanted)
    for key in reversed(WHERE.split(".")):
        patch = {key: patch}
    changed = await session.client.patch(
        KUBEVIRTS, meta.name, meta.namespace, merge=patch, dry_run=dry_run, uid=meta.uid, resource_version=""
    )
    shown = f"{KUBEVIRTS.kind.lower()}.{KUBEVIRTS.group}/{meta.name}"
    print(f"{shown} {'would be configured (dry run)' if dry_run else 'configured'}")
    given = given_in(changed)
    values, _ = values_of(given)
    for setting in SETTINGS:
        if setting.field in wanted:
            print(f"  {setting.field}: {setting.shown(values[setting.field])}")
    _warn(given)


def table(given: Given) -> str:
    values, _ = values_of(given)
    rows = [
        (
            one.field,
            one.shown(values[one.field]) if given.get(one.field) is not None else NONE,
            one.shown(one.default),
            one.meaning,
        )
        for one in SETTINGS
    ]
    return aligned([HEAD, *rows])


def _warn(given: Given) -> None:
    for problem in values_of(given)[1]:
        print(f"ullage: warning: {plain(problem)}", file=sys.stderr)


async def _kubevirt(session: Session) -> KubeVirt:
    """The one of the cluster, wherever it is: in the namespace kubevirt, or in that of whoever brought it."""
    try:
        found = (await session.client.list(KUBEVIRTS)).items
    except NotFound as error:
        raise NotInstalled(f"this cluster does not serve {KUBEVIRTS.name}: KubeVirt is not installed") from error
    if not found:
        raise Missing("there is no KubeVirt object in this cluster, so nothing to configure")
    if len(found) > 1:
        named = ", ".join(sorted(f"{one.metadata.namespace}/{one.metadata.name}" for one in found))
        raise Terminal(f"there are {len(found)} KubeVirt objects, and KubeVirt allows one: {named}")
    return found[0]
