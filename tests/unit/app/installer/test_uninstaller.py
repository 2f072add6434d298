"""What an uninstall says of objects that do not go, and which finalizer it takes off."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.snapshots.memory_api import MemoryApi
from ullage.app.installer.outcomes import Outcome
from ullage.app.installer.uninstaller import SHOWN, FoundObject, Uninstaller
from ullage.kube.builtin.core import CONFIG_MAPS
from ullage.kube.errors import Forbidden
from ullage.kube.kinds import Meta
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.model import GUARD
from ullage.snapshots.slice import DIALECTS


class NoLease:
    async def find(self, *what: Any) -> None:
        return None


@pytest.mark.parametrize(
    ("count", "last"),
    [
        pytest.param(
            1, "not gone after 120 s, held by a/b; no controller runs: start one, it gives back what they hold", id="one"
        ),
        pytest.param(SHOWN + 1, "not gone either", id="one more than are told of one by one"),
        pytest.param(SHOWN + 2, "not gone either, nor is one other", id="two more"),
        pytest.param(SHOWN + 3, "not gone either, nor are 2 others", id="three more"),
    ],
)
async def test_what_is_stuck_is_told_of_by_name_up_to_a_number(count: int, last: str) -> None:
    told: list[Outcome] = []
    found = [FoundObject(CONFIG_MAPS, Meta(name=f"m{number}", finalizers=("a/b",))) for number in range(count)]
    await Uninstaller(NoLease(), tell=told.append)._stuck(found)  # type: ignore[arg-type]
    assert len(told) == min(count, SHOWN + 1)
    assert told[-1].why == last


SOURCE = {"persistentVolumeClaimName": "db"}
SPEC = {"ga": {"source": SOURCE}, "prototype": SOURCE}


class Server(MemoryApi):
    """What an uninstall asks for besides."""

    async def list(self, kind: Any, *args: Any, **kwargs: Any) -> Any:
        return await super().list(kind)


@pytest.mark.parametrize("dry_run", [False, True], ids=["for real", "dry run"])
async def test_an_uninstall_takes_it_off_every_snapshot_and_nothing_else(dry_run: bool) -> None:
    api, held = Server(), ["example.com/held", GUARD]
    for dialect in DIALECTS:
        for name, finalizers in (("ours", held), ("theirs", ["example.com/held"])):
            meta = {"name": name, "namespace": "team", "finalizers": finalizers}
            api.put(dialect.snapshots, {"metadata": meta, "spec": SPEC[dialect.name]})
    told: list[Outcome] = []
    await Uninstaller(api, tell=told.append, dry_run=dry_run, poll=0.001)._guards()  # type: ignore[arg-type]
    assert [(one.verb, one.name, one.why) for one in told] == [("changed", "team/ours", f"without {GUARD}")] * 2
    for dialect in DIALECTS:
        left = {one["metadata"]["name"]: one["metadata"]["finalizers"] for one in api.bodies(dialect.snapshots)}
        assert left == {"ours": held if dry_run else held[:1], "theirs": held[:1]}


async def test_what_a_late_request_of_a_controller_guards_again_is_freed_at_the_end() -> None:
    class Late(Server):
        late = 2

        async def patch(self, kind: Any, name: str, namespace: str = "", **what: Any) -> Any:
            answer = await super().patch(kind, name, namespace, **what)
            if self.late:
                self.late -= 1
                self.edit(kind, name, namespace, merge={"metadata": {"finalizers": [GUARD]}})
            return answer

    api = Late()
    api.put(GA.snapshots, {"metadata": {"name": "ours", "namespace": "team", "finalizers": [GUARD]}, "spec": SPEC["ga"]})
    told: list[Outcome] = []
    await Uninstaller(api, tell=told.append, poll=0.001)._guards(again=True)  # type: ignore[arg-type]
    (left,) = api.bodies(GA.snapshots)
    assert not left["metadata"].get("finalizers")
    assert [one.verb for one in told] == ["changed"] * 3


class Refusing(Server):
    """An API server that still holds everybody to a policy which was deleted: so many requests long."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times
        self.put(GA.snapshots, {"metadata": {"name": "ours", "namespace": "team", "finalizers": [GUARD]}, "spec": SPEC["ga"]})

    async def patch(self, kind: Any, name: str, namespace: str = "", **what: Any) -> Any:
        if self.times:
            self.times -= 1
            raise Forbidden(f"metadata.finalizers: {GUARD} stays", code=403)
        return await super().patch(kind, name, namespace, **what)


async def test_a_policy_that_an_api_server_has_not_forgotten_yet_is_no_problem() -> None:
    api, told = Refusing(3), list[Outcome]()
    uninstaller = Uninstaller(api, tell=told.append, poll=0.001)  # type: ignore[arg-type]
    await uninstaller._guards()
    await uninstaller._guards(again=True)
    assert [one.verb for one in told] == ["changed"]
    (left,) = api.bodies(GA.snapshots)
    assert not left["metadata"].get("finalizers")


async def test_a_guard_that_may_not_be_taken_off_is_told_once_with_the_reason() -> None:
    api, told = Refusing(10**9), list[Outcome]()
    await Uninstaller(api, tell=told.append, timeout=0.05, poll=0.001)._guards(again=True)  # type: ignore[arg-type]
    assert [(one.verb, one.name, one.why) for one in told] == [("problem", "team/ours", f"metadata.finalizers: {GUARD} stays")]
