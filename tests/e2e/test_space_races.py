"""Two that fit alone and not together, asked for at once through two replicas of the webhook: one is admitted, and whole."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from .apart import IS_BORROWED
from .engine_scene import MIB, EngineScene, eventually
from .snapshot_scene import Process
from .space_scene import CREATED, FORBIDDEN, Tenant, space_scene
from .test_admission import shared_port

ROUNDS, TENANTS = 100, 5
WRITTEN = 2 * MIB  # all that a volume has: whatever was removed below it, the next snapshot is not larger

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineScene]:
    """With two replicas of the webhook on one port: each request goes to either."""
    with ExitStack() as stack:
        made = stack.enter_context(space_scene(tmp_path_factory.mktemp("races")))
        port = stack.enter_context(shared_port())
        made.end("webhook")
        for number in range(2):
            log = made.base.directory / f"webhook-{number}.log"
            command = [str(port) if one == "0" and before == "--port" else one for before, one in pairs(made)]
            stack.callback(Process(*command, log=log).end)
        yield made


def pairs(scene: EngineScene) -> list[tuple[str, str]]:
    command = scene.command("webhook")
    return list(zip(["", *command], command, strict=False))


def test_of_two_backups_at_once_exactly_one_is_admitted(scene: EngineScene) -> None:
    """Several namespaces at the same time: each waits most of its time for its engines."""
    with ThreadPoolExecutor(TENANTS) as pool:
        list(pool.map(lambda _: rounds(scene, ROUNDS // TENANTS), range(TENANTS)))


def rounds(scene: EngineScene, count: int) -> None:
    tenant = Tenant(scene)
    for name in ("a", "b"):
        tenant.claim(f"{name}-first", WRITTEN)
        tenant.claim(f"{name}-second", WRITTEN)
        tenant.machine(name, f"{name}-first", f"{name}-second")
    tenant.limit(namespace=3 * WRITTEN)  # two volumes a backup, of which each takes as much as is written
    with ThreadPoolExecutor(2) as pool:
        for number in range(count):
            one_round(tenant, number, pool)


def one_round(tenant: Tenant, number: int, pool: ThreadPoolExecutor) -> None:
    tenant.write(WRITTEN, *tenant.volumes)
    names = {vm: f"{vm}-{number}" for vm in ("a", "b")}
    answers = dict(zip(names, pool.map(lambda vm: tenant.ask_backup(names[vm], vm), names), strict=True))
    assert sorted(one.code for one in answers.values()) == [CREATED, FORBIDDEN], [one.raw for one in answers.values()]
    assert all("does not fit" in one.message for one in answers.values() if one.code == FORBIDDEN)
    won = next(vm for vm, answer in answers.items() if answer.code == CREATED)
    eventually(f"{names[won]} is ready", lambda: tenant.is_ready(names[won]))
    claims = {one["spec"]["source"]["persistentVolumeClaimName"] for one in tenant.members().values()}
    assert claims == {f"{won}-first", f"{won}-second"}
    tenant.delete_backups(names[won])
    assert tenant.members() == {}
    eventually("nothing is left", lambda: tenant.usage() == 0)
