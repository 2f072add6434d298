"""What `ullage up` writes before its webhook serves, while the fail-closed hooks of its last run are still registered."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ullage.app.drivers import Chosen
from ullage.app.project_options import ProjectChoice
from ullage.app.up.seeds import seed_system
from ullage.kube.builtin.admissionregistration import VALIDATING_WEBHOOKS
from ullage.projects.api.kkp import CLUSTERS
from ullage.standalone.up.components import System

from . import seeds_app
from .apart import IS_BORROWED, own_plane
from .api import Api
from .snapshot_scene import eventually

pytestmark = pytest.mark.skipif(IS_BORROWED, reason="`ullage up` has a control plane of its own")

CLUSTER = CLUSTERS.path(name="u1")
HOOK: dict[str, Any] = {
    "apiVersion": VALIDATING_WEBHOOKS.api_version,
    "kind": VALIDATING_WEBHOOKS.kind,
    "metadata": {"name": "of-the-last-run"},
    "webhooks": [
        {
            "name": "project-clusters.ullage.io",
            "clientConfig": {"url": "https://127.0.0.1:1/clusters"},  # nothing listens there
            "rules": [
                {
                    "apiGroups": [CLUSTERS.group],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["clusters"],
                }
            ],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 1,
        }
    ],
}


@pytest.fixture
def seed(tmp_path: Path) -> Iterator[tuple[Api, Path]]:
    """A seed's control plane and the directory that `ullage up` keeps for it."""
    with own_plane(tmp_path) as plane:
        directory = tmp_path / "seed"
        directory.mkdir()
        shutil.copy(plane.kubeconfig, directory / "kubeconfig")
        yield Api(plane), directory


def _system() -> System:
    chosen = Chosen(projects=ProjectChoice(roles=("seed",)))
    return seed_system(lambda: tuple(seeds_app.slices(chosen)), program=("ullage",), options=(), cluster="u1", project="demo")


def _prepare(directory: Path) -> str:
    """Prepares a seed once, as a start of `ullage up` does."""

    async def run() -> str:
        system = _system()
        told = await system.prepare(directory)
        maintaining = asyncio.ensure_future(system.maintain(print))
        await asyncio.sleep(0)
        maintaining.cancel()
        await asyncio.wait((maintaining,))
        return told

    return asyncio.run(run())


def test_a_second_start_writes_nothing_that_the_hook_of_the_first_would_refuse(seed: tuple[Api, Path]) -> None:
    api, directory = seed
    _prepare(directory)
    before = api.get(CLUSTER).obj
    assert before["status"]["namespaceName"] == "cluster-u1"
    api.create(VALIDATING_WEBHOOKS.path(), HOOK)
    assert "created" not in _prepare(directory)
    assert api.get(CLUSTER).obj == before


def test_a_cluster_that_a_stop_left_without_a_namespace_gets_it_at_the_next_start(seed: tuple[Api, Path]) -> None:
    api, directory = seed
    _prepare(directory)
    api.merge(f"{CLUSTER}/status", {"status": {"namespaceName": ""}})
    _prepare(directory)
    assert api.get(CLUSTER).obj["status"]["namespaceName"] == "cluster-u1"


def test_what_was_deleted_waits_for_the_webhook_and_holds_up_nothing(seed: tuple[Api, Path]) -> None:
    api, directory = seed
    _prepare(directory)
    api.create(VALIDATING_WEBHOOKS.path(), HOOK)
    api.delete(CLUSTER)

    def is_back() -> bool:
        found = api.get(CLUSTER)
        return found.code == 200 and bool(found.obj.get("status", {}).get("namespaceName") == "cluster-u1")

    async def start_again() -> None:
        system = _system()
        await system.prepare(directory)  # only after it the webhook is started, so it has to come to its end
        assert (await asyncio.to_thread(api.get, CLUSTER)).code == 404
        maintaining = asyncio.ensure_future(system.maintain(print))
        try:
            # as good as a hook whose server answers
            await asyncio.to_thread(api.delete, VALIDATING_WEBHOOKS.path(name="of-the-last-run"))
            await asyncio.to_thread(eventually, "the cluster is there again", is_back)
        finally:
            maintaining.cancel()
            await asyncio.wait((maintaining,))

    asyncio.run(start_again())
