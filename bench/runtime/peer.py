"""The same operator as people write it with kopf: objects by volume, and a status that repeats the size.

kopf's own indexes would make it far slower (they hold all handlers back until the last object is in, at 3,000 objects for more
than a minute), so it keeps them in a dictionary of its own, which is how such operators are written at this size.
"""

from __future__ import annotations

import os
from typing import Any

import kopf

from bench.apiserver.load import GROUP
from bench.runtime.report import OBJECTS, TOUCHED, say

by_volume: dict[str, dict[str, Any]] = {}
seen: set[str] = set()


@kopf.on.startup()
def startup(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = False  # the other one writes no Events either
    say("started")


@kopf.on.event(GROUP, "v1", "samples")
async def changed(name: str, body: kopf.Body, spec: kopf.Spec, status: kopf.Status, patch: kopf.Patch, **_: Any) -> None:
    by_volume.setdefault(spec["volume"], {})[name] = dict(body)
    if name not in seen:
        seen.add(name)
        if len(seen) == int(os.environ[OBJECTS]):
            say("synced")
    if spec["size"] >= TOUCHED and status.get("observed") != spec["size"]:
        patch.status["observed"] = spec["size"]
