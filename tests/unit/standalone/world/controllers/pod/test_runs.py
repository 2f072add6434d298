"""The work of a Job's pod, container by container."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.unit.standalone.world.builders import OTHER_UID, container, pod
from ullage.kube.builtin.core import Pod
from ullage.kube.cache.indexer import Key
from ullage.standalone.world.controllers.pod.copying import CopyFailed
from ullage.standalone.world.controllers.pod.rules import (
    Outcome,
)
from ullage.standalone.world.controllers.pod.runs import Runs


async def outcomes_of(found: Pod, root: Path) -> dict[str, Outcome] | None:
    over: asyncio.Queue[Key] = asyncio.Queue()
    async with Runs() as runs, asyncio.timeout(20):
        runs.begin(found, lambda name: root / name, over=over.put_nowait)
        assert await over.get() == Key("default", "app")
        return runs.outcomes(found)


async def test_each_container_ends_by_itself(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "file").write_text("content")
    good = container("cp", "/src/file", "/src/copy", name="good", src="/src")
    bad = container("cp", "/src/none", "/src/copy", name="bad", src="/src")
    odd = container("mysqld", name="odd")
    found = await outcomes_of(pod(good, bad, odd, of_job=True), tmp_path)
    assert found is not None
    assert (tmp_path / "src" / "copy").read_text() == "content"
    assert {name: outcome.exit_code for name, outcome in found.items()} == {"good": 0, "bad": 1, "odd": 127}
    assert found["bad"].message == "/src/none: No such file or directory"


async def test_what_goes_before_must_succeed_first(tmp_path: Path) -> None:
    first = (container("true", name="one"), container("nonsense", name="two"))
    found = await outcomes_of(pod(container("true"), init_containers=first, of_job=True), tmp_path)
    assert found is not None
    assert {name: outcome.exit_code for name, outcome in found.items()} == {"one": 0, "two": 127}, "main was never begun"


async def test_a_volume_that_is_no_directory_fails_the_container(tmp_path: Path) -> None:
    def roots(name: str) -> Path:
        raise CopyFailed(f"volume {name}: only claims hold data here")

    over = asyncio.Event()
    found = pod(container("cp", "-a", "/tmp/.", "/tmp/x/", scratch="/tmp"), of_job=True)
    async with Runs() as runs, asyncio.timeout(20):
        runs.begin(found, roots, over=lambda key: over.set())
        await over.wait()
        assert runs.outcomes(found) == {"main": Outcome(1, "volume scratch: only claims hold data here")}


async def test_a_run_is_begun_once_and_a_new_pod_of_that_name_gets_its_own() -> None:
    over: asyncio.Queue[Key] = asyncio.Queue()
    first, second = (
        pod(container(*words), uid=uid, of_job=True) for uid, *words in ((OTHER_UID, "sleep", "inf"), ("new", "true"))
    )
    async with Runs() as runs, asyncio.timeout(20):
        for _ in range(2):
            runs.begin(first, lambda name: Path(), over=over.put_nowait)
        assert runs.outcomes(first) is None
        runs.begin(second, lambda name: Path(), over=over.put_nowait)
        await over.get()
        assert (runs.outcomes(first), runs.outcomes(second)) == (None, {"main": Outcome()})
        runs.end(Key("default", "app"))
        assert runs.outcomes(second) is None
