"""The controller works as its service account, whoever starts it: our webhook trusts that one, and undoes what others write."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.csi_driver.running import NAME, RunningDriver
from ullage.app.installer.roles import CONTROLLER, WORLD
from ullage.app.processes import account
from ullage.app.up.identities import Identity
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config, Impersonation
from ullage.ledger.charging.release import LONGEST_SECONDS

from .apart import IS_BORROWED, own_plane
from .snapshot_scene import GA, Scene, csi_volume, eventually, scene

OURS = f"system:serviceaccount:ullage-system:{CONTROLLER}"
UNTRUSTED = "this identity is not trusted by Ullage's webhook"

pytestmark = pytest.mark.skipif(IS_BORROWED, reason="the cluster's own snapshot controller would answer too")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("accounts")) as made, made.running(made.webhook()):
        made.storage_class("csi", NAME)
        made.snapshot_class("csi", NAME)
        yield made


@pytest.fixture
def driver(tmp_path_factory: pytest.TempPathFactory, stage: Scene) -> Iterator[RunningDriver]:
    directory = stage.directory / str(time.monotonic_ns())
    directory.mkdir()
    running = RunningDriver(directory)
    running.start()
    yield running
    running.kill()


@pytest.mark.parametrize("login", [Scene.administrator, lambda made: made.login(CONTROLLER)], ids=["administrator", "account"])
def test_a_snapshot_of_a_csi_driver_is_deleted_at_once_whoever_runs_the_controller(
    stage: Scene, driver: RunningDriver, login: Callable[[Scene], Sequence[str]]
) -> None:
    namespace = stage.namespace()
    source = {"csi": {"driver": NAME, "volumeHandle": csi_volume(driver, namespace)}}
    stage.bound_claim(namespace, "data", source=source, storage_class="csi")
    path = f"{GA.snapshots(namespace)}/snap"
    with stage.running(stage.controller("--driver", f"{NAME}={driver.path}", login=login(stage))):
        stage.api.create(GA.snapshots(namespace), GA.of_claim("snap", "data"))
        eventually("the snapshot is ready", lambda: GA.ready(stage.api.get(path).obj))
        assert "ullage.io/takes" in stage.api.get(path).obj["metadata"]["annotations"], "it pays for itself"
        stage.api.delete(path)
        eventually("the snapshot is gone", lambda: stage.api.get(path).code == 404, seconds=LONGEST_SECONDS / 2)
    assert driver.snapshots() == []


def identity(config: Config) -> str:
    """Under which name the API server sees what the controller writes."""

    async def ask() -> str:
        async with Client(config) as client, Client(await account.config_of(client, CONTROLLER)) as acting:
            return await account.user_of(acting)

    return asyncio.run(ask())


def test_an_administrator_acts_as_the_service_account(stage: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=account.__name__)
    assert identity(Config.load(stage.plane.kubeconfig, environ={})) == OURS
    assert "acting as the service account" in caplog.text
    assert UNTRUSTED not in caplog.text


def test_the_service_account_stays_what_it_is_and_nothing_is_said(stage: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=account.__name__)
    assert identity(Config.load(Identity(CONTROLLER, stage.directory).kubeconfig, environ={})) == OURS
    assert caplog.records == []


def test_who_may_not_act_as_the_service_account_is_told_what_follows(stage: Scene, caplog: pytest.LogCaptureFixture) -> None:
    config = Config.load(Identity(WORLD, stage.directory).kubeconfig, environ={})
    assert identity(config) == f"system:serviceaccount:ullage-system:{WORLD}"
    assert UNTRUSTED in caplog.text
    assert "60 s longer" in caplog.text
    (record,) = caplog.records
    assert vars(record)["user"] == f"system:serviceaccount:ullage-system:{WORLD}"
    assert vars(record)["service_account"] == OURS


def test_whom_a_kubeconfig_acts_as_already_is_respected(stage: Scene, caplog: pytest.LogCaptureFixture) -> None:
    config = Config.load(stage.plane.kubeconfig, environ={})
    assert identity(replace(config, acting_as=Impersonation("ann", groups=("system:masters",)))) == "ann"
    assert UNTRUSTED in caplog.text


def test_without_the_account_an_administrator_stays_himself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with own_plane(tmp_path) as plane:
        config = Config.load(plane.kubeconfig, environ={})
        assert not identity(config).startswith("system:serviceaccount:")
    assert "`ullage install`" in caplog.text
