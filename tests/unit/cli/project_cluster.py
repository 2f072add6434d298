"""A cluster in memory with projects, their quotas and seeds, and the commands that are called against it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import typer
from typer.testing import CliRunner, Result

from tests.unit.cli.snapshot.cluster import Cluster, Json
from ullage.cli.common import session
from ullage.cli.common.arguments import At
from ullage.errors import UllageError
from ullage.kube.errors import Conflict, NotFound
from ullage.kube.kinds import Kind
from ullage.projects.api.kkp import CLUSTERS, PROJECTS, SEEDS, SETTINGS
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.names import DEFAULT_MARKS, ESCROW, FINALIZER

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
STALE = "2026-05-01T09:00:00Z"
MARKS = dict.fromkeys(DEFAULT_MARKS, "true")
FIFTY = {"cpu": "50", "memory": "100Gi"}


class ProjectCluster(Cluster):
    """`conflicts`: so many writes find that somebody else wrote first."""

    def __init__(self, *absent: Kind[Any]) -> None:
        super().__init__(*absent)
        self.conflicts = 0
        self.patches: list[tuple[Json, bool]] = []  # with whether it is a dry run

    def project(self, id: str, name: str = "") -> None:
        self.put(PROJECTS, {"metadata": {"name": id}, "spec": {"name": name}})

    def quota(self, project: str, limits: Json, *, escrow: Any = None, name: str = "", **more: Any) -> Json:
        labels = {"subject-name": project, "subject-kind": "project", **more.pop("labels", {})}
        annotations = {} if escrow is None else {ESCROW: escrow if isinstance(escrow, str) else json.dumps(escrow)}
        meta = {"name": name or f"project-{project}", "labels": labels, "annotations": annotations, **more.pop("meta", {})}
        spec = {"subject": {"name": project, "kind": "project"}, "quota": limits}
        return self.put(PROJECT_QUOTAS, {"metadata": meta, "spec": spec, "status": more})

    def seed(self, name: str, *, namespace: str = "kubermatic", **annotations: str) -> None:
        self.put(SEEDS, {"metadata": {"name": name, "annotations": annotations}}, namespace=namespace)

    def user_cluster(self, name: str, project: str, usage: Json | None, **more: Any) -> None:
        labels = {"project-id": project, **more.pop("labels", {})}
        status = {"resourceUsage": usage} if usage is not None else {}
        self.put(CLUSTERS, {"metadata": {"name": name, "labels": labels}, "spec": more, "status": status})

    def default(self, limits: Json) -> None:
        self.put(SETTINGS, {"metadata": {"name": "globalsettings"}, "spec": {"defaultQuota": {"quota": limits}}})

    def stored(self, project: str) -> Json:
        return self.objects[PROJECT_QUOTAS.name, "", f"project-{project}"]

    async def patch(
        self,
        kind: Kind[Any],
        name: str,
        namespace: str = "",
        *,
        merge: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        uid: str = "",
        **_: Any,
    ) -> Any:
        self._ask("patch", kind, name)
        if self.conflicts:
            self.conflicts -= 1
            raise Conflict("somebody else wrote first", code=409)
        key = kind.name, namespace if kind.namespaced else "", name
        if key not in self.objects:
            raise gone(kind, name)
        assert self.objects[key]["metadata"]["uid"] == uid
        self.patches.append((dict(merge or {}), dry_run))
        made = merged(self.objects[key], merge or {})
        if not dry_run:
            self.objects[key] = made
        return msgspec.convert(made, kind.type)


def gone(kind: Kind[Any], name: str) -> NotFound:
    details = {"group": kind.group, "kind": kind.plural, "name": name}
    return NotFound(f'{kind.name} "{name}" not found', code=404, reason="NotFound", details=details)


def merged(old: Json, change: Mapping[str, Any]) -> Json:
    """RFC 7396."""
    made = deepcopy(old)
    for key, value in change.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = merged(made.get(key) or {}, value) if isinstance(value, Mapping) else value
    return made


def busy_master() -> ProjectCluster:
    """Two seeds have parts of the quota of one project, and one of them is out of reach; another project has no quota."""
    made = ProjectCluster()
    made.project("abc", "Shop")
    made.project("free")
    made.seed("eu")
    made.seed("us")
    made.quota(
        "abc",
        {"cpu": "50", "storage": "1Ti"},
        meta={"finalizers": [FINALIZER]},
        escrow={
            "eu": {"change": 3, "target": {"cpu": "25", "storage": "500Gi"}, "granted": {"cpu": "30", "storage": "500Gi"}},
            "us": {"change": 2, "target": {"cpu": "20", "storage": "524Gi"}, "granted": {"cpu": "20"}},
        },
        globalUsage={"cpu": "32", "memory": "20Gi", "storage": "200Gi"},
        seeds=[
            {"name": "eu", "usage": {"cpu": "20", "memory": "10Gi", "storage": "100Gi"}, "staleSince": STALE},
            {"name": "us", "usage": {"cpu": "12", "memory": "10Gi", "storage": "100Gi"}},
        ],
        conditions=[
            {
                "type": "WithinQuota",
                "status": "True",
                "reason": "WithinQuota",
                "message": "project abc uses no more than it may",
                "lastTransitionTime": "2026-05-01T11:00:00Z",
            }
        ],
    )
    return made


# --- commands --------------------------------------------------------------------------------------------------------


def answering(found: ProjectCluster, monkeypatch: pytest.MonkeyPatch) -> ProjectCluster:
    """Every command is connected to this cluster."""

    def connected(where: At, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            return await work(found.session(where.namespace or "shop"))

        return asyncio.run(run())

    monkeypatch.setattr(session, "connected", connected)
    monkeypatch.setattr("ullage.clock.SystemClock.now", lambda self: NOW)
    return found


def called(app: typer.Typer, *arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(app, arguments, input=typed, catch_exceptions=False)


def refused(app: typer.Typer, *arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, UllageError), result.output
    return str(result.exception)
