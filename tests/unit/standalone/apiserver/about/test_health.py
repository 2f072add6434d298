"""`/readyz` and its like: ready is only who can answer and store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.standalone.apiserver.server_kit import Kit, quiet, running_kit
from ullage.standalone.apiserver.about.health import Health
from ullage.standalone.apiserver.status import ApiError


def working(*, broken: bool = False, stopping: bool = False, started: bool = True) -> Health:
    health = Health(lambda: broken)
    health.started, health.stopping = started, stopping
    return health


def said(health: Health, path: str, *excluded: str, verbose: bool = False) -> tuple[int, str]:
    answer = health.answer(path, verbose=verbose, excluded=excluded)
    assert answer is not None
    return answer.code, answer.body.decode()


def test_checks_are_named_on_demand() -> None:
    code, text = said(working(), "/readyz", verbose=True)
    assert code == 200
    assert text.startswith("[+]ping ok\n[+]log ok\n[+]etcd ok\n")
    assert text.endswith("[+]shutdown ok\nreadyz check passed\n")
    assert "[+]etcd excluded: ok\n" in said(working(), "/livez", "etcd", verbose=True)[1]
    warning = 'warn: some health checks cannot be excluded: no matches for "nope"\nlivez check passed\n'
    assert said(working(), "/livez", "nope", verbose=True)[1].endswith(warning)
    assert said(working(), "/livez/ping") == (200, "ok")


@pytest.mark.parametrize("path", ["/livez/", "/livez/nope", "/health", "/readyz/ping/x"])
def test_there_are_no_other_checks(path: str) -> None:
    assert working().answer(path, verbose=False, excluded=()) is None


@pytest.mark.parametrize(
    ("health", "codes"),
    [
        pytest.param(working(), (200, 200, 200), id="a server that works is ready"),
        pytest.param(working(started=False), (500, 500, 500), id="one that has not started its controllers is not"),
        pytest.param(working(stopping=True), (200, 200, 500), id="one that stops lives and is not ready"),
        pytest.param(working(broken=True), (500, 500, 500), id="one that cannot store is neither"),
    ],
)
def test_what_is_true_is_told(health: Health, codes: tuple[int, ...]) -> None:
    assert tuple(said(health, path)[0] for path in ("/healthz", "/livez", "/readyz")) == codes


def test_a_failure_names_the_check() -> None:
    code, text = said(working(stopping=True), "/readyz")
    assert code == 500
    assert text.endswith("[-]shutdown failed: reason withheld\nreadyz check failed\n")
    assert text.startswith("[+]ping ok\n")


def test_a_check_that_is_left_out_does_not_count() -> None:
    assert said(working(stopping=True), "/readyz", "shutdown") == (200, "ok")
    assert said(working(broken=True), "/readyz", "etcd")[0] == 500


def test_a_single_check_tells_of_itself_alone() -> None:
    health = working(broken=True)
    assert said(health, "/readyz/etcd") == (500, "internal server error: etcd failed\n")
    assert said(health, "/readyz/ping") == (200, "ok")


async def test_a_server_whose_disk_fails_is_not_ready_until_it_stores_again(tmp_path: Path) -> None:
    async with running_kit(tmp_path) as kit:
        await quiet(kit.server)
        assert said(kit.server.health, "/readyz") == (200, "ok")
        kit.database.failing.append("database or disk is full")
        with pytest.raises(ApiError, match="cannot be written"):
            await write(kit, "lost")
        assert said(kit.server.health, "/readyz")[0] == 500
        await write(kit, "kept")
        assert said(kit.server.health, "/readyz") == (200, "ok")


async def test_a_server_is_not_ready_before_its_controllers_work(tmp_path: Path) -> None:
    async with running_kit(tmp_path, work=False) as kit:
        assert said(kit.server.health, "/readyz")[0] == 500


async def write(kit: Kit, name: str) -> None:
    await kit.create("configmaps", name, namespace="default")
