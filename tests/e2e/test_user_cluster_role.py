"""`ullage install|controller --role user-cluster` in a cluster of its own: what users are told, and what it may not do."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ullage.app.installer.roles import CONTROLLER
from ullage.app.up.identities import Identities, Identity
from ullage.kube.builtin.admissionregistration import VALIDATING_WEBHOOKS
from ullage.kube.builtin.core import SECRETS
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.crds.definitions import crd_of
from ullage.kube.errors import Forbidden
from ullage.projects.api.machines import MACHINE_DEPLOYMENTS

from .apart import IS_BORROWED, own_plane
from .api import Api
from .conftest import DEFINITIONS, wait_served
from .control_plane import ControlPlane
from .snapshot_scene import SOURCE, Process, eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster is not installed into"),
]

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"  # of what has no namespace itself


def ullage(plane: ControlPlane, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ullage", *arguments, "--kubeconfig", str(plane.kubeconfig)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with own_plane(tmp_path_factory.mktemp("user")) as found:
        api = Api(found)
        assert api.call("POST", DEFINITIONS, crd_of(MACHINE_DEPLOYMENTS)).code == 201
        wait_served(api, MACHINE_DEPLOYMENTS.path())
        yield found


@pytest.fixture
def directory() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="ullage-"))
    yield made
    shutil.rmtree(made)


def test_users_are_told_that_nobody_asks_about_their_machines_by_a_process_that_may_only_read(
    plane: ControlPlane, directory: Path
) -> None:
    api = Api(plane)
    done = ullage(plane, "install", "--role", "user-cluster")
    assert done.returncode == 0, done.stderr
    accounts = api.get("/api/v1/namespaces/ullage-system/serviceaccounts").obj["items"]
    assert {one["metadata"]["name"] for one in accounts} - {"default"} == {CONTROLLER}

    async def issue() -> None:
        async with Client(Config.load(plane.kubeconfig, environ={})) as client:
            await Identities(client, [Identity(CONTROLLER, directory)]).issue()

    asyncio.run(issue())
    login = Identity(CONTROLLER, directory).kubeconfig
    process = Process(
        *("controller", "--kubeconfig", str(login), "--role", "user-cluster", "--metrics-port", "0"), log=directory / "log"
    )
    try:

        def told() -> bool:
            found = api.get(EVENTS).obj["items"]
            return any((one["reason"], one["regarding"]["name"]) == ("MachinesNotAsked", "kube-system") for one in found)

        eventually("the users are told", told, seconds=60)
        assert " 403 " not in (log := (directory / "log").read_text()), log
        asyncio.run(may_not(login))
    finally:
        process.end()
    done = ullage(plane, "uninstall", "--yes")
    assert done.returncode == 0, done.stderr
    assert api.get(f"/api/v1/namespaces/ullage-system/serviceaccounts/{CONTROLLER}").code == 404


async def may_not(login: Path) -> None:
    """Neither see what is secret, nor make what it watches for."""
    async with Client(Config.load(login, environ={})) as client:
        with pytest.raises(Forbidden):
            await client.list(SECRETS, "kube-system")
        with pytest.raises(Forbidden):
            await client.delete(VALIDATING_WEBHOOKS, "any")
        with pytest.raises(Forbidden):
            await client.delete(MACHINE_DEPLOYMENTS, "any", "kube-system")


@pytest.mark.parametrize("command", ["webhook", "api"])
def test_nothing_is_served_in_a_user_cluster(plane: ControlPlane, command: str) -> None:
    done = ullage(plane, command, "--role", "user-cluster")
    assert done.returncode == 2
    assert "--role user-cluster: cluster, master or seed is allowed" in done.stderr
