"""Commands that a VolumeGroupSnapshot names for its cut: who may name them, and that they are run for all its claims."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.policies.groups.cluster import TEAM, GroupCluster
from ullage.errors import Impossible, NotNow
from ullage.kube.identities import CONTROLLER, account
from ullage.kube.kinds import Kind
from ullage.kube.review import NULL, GroupVersionKind, GroupVersionResource, Request, Review, UserInfo
from ullage.policies.cut_hooks.api import HOOKS, HookSpec
from ullage.policies.cut_hooks.interface import HookAnswer, HookHolder, HooksReady
from ullage.policies.groups.api import GROUPS, NEXT_GROUPS
from ullage.policies.groups.webhook import GroupHooks

GIVEN = {HOOKS: '{"pre":{"command":["sync"]}}'}


class Hooks:
    """Remembers what it is asked for, and whether anything is frozen. A process that dies leaves that as it is."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[str, ...], HookSpec | None]] = []
        self.frozen = False
        self.thawed = 0

    async def prepare(self, holder: HookHolder, claims: Iterable[str], spec: HookSpec | None = None) -> HookAnswer:
        self.asked.append((holder.name, tuple(claims), spec))
        self.frozen = True
        return HooksReady()

    async def leave(self, holder: HookHolder) -> None:
        self.thawed += self.frozen
        self.frozen = False


class Access:
    def __init__(self, *, allows: bool) -> None:
        self.allows = allows

    async def request(self, method: str, path: str, *, body: bytes | None = None) -> bytes:
        return msgspec.json.encode({"status": {"allowed": self.allows}})


def review(
    annotations: dict[str, str], *, old: dict[str, str] | None = None, user: str = "jane", kind: Kind[Any] = GROUPS
) -> Review:
    def body(notes: dict[str, str]) -> msgspec.Raw:
        meta = {"name": "one", "namespace": TEAM, "annotations": notes}
        return msgspec.Raw(msgspec.json.encode({"metadata": meta, "spec": {"source": {"selector": {}}}}))

    request = Request(
        uid="r",
        operation="CREATE" if old is None else "UPDATE",
        kind=GroupVersionKind(group=kind.group, version=kind.version, kind=kind.kind),
        resource=GroupVersionResource(group=kind.group, version=kind.version, resource=kind.plural),
        namespace=TEAM,
        name="one",
        user_info=UserInfo(username=user, groups=("devs",)),
        object=body(annotations),
        old_object=NULL if old is None else body(old),
    )
    return Review(request)


@pytest.mark.parametrize(
    ("asked", "allows", "code"),
    [
        pytest.param(review(GIVEN), True, 200, id="one who may exec"),
        pytest.param(review(GIVEN), False, 403, id="one who may not"),
        pytest.param(review(GIVEN, kind=NEXT_GROUPS), False, 403, id="one who may not, in the next version"),
        pytest.param(review(GIVEN, user=account(CONTROLLER)), False, 200, id="our own controller"),
        pytest.param(review({HOOKS: "{"}), True, 422, id="what cannot be read"),
        pytest.param(review(GIVEN, old={}), True, 422, id="an edit of one that is there"),
        pytest.param(review({}, old=GIVEN), True, 422, id="hooks that are taken off"),
        pytest.param(review(GIVEN, old=GIVEN), False, 200, id="an edit of something else"),
    ],
)
async def test_who_may_name_hooks_on_a_group(asked: Review, allows: bool, code: int) -> None:
    answer = await GroupHooks(Access(allows=allows)).validate(asked)
    assert (answer.allowed, 200 if answer.allowed else answer.code) == (code == 200, code), answer.message


@pytest.mark.parametrize("by_driver", [False, True], ids=["one by one", "in one call"])
def test_what_a_group_names_is_run_for_all_its_claims(by_driver: bool) -> None:
    async def main() -> None:
        hooks = Hooks()
        cluster = GroupCluster(hooks=hooks)
        cluster.driver.groups = by_driver
        cluster.ask()
        cluster.api.edit(GROUPS, "one", TEAM, merge={"metadata": {"annotations": GIVEN}})
        await cluster.live(cluster.ready)
        name, claims, spec = hooks.asked[0]
        assert (name, claims) == ("one", ("data-0", "data-1", "data-2"))
        assert spec is not None
        assert spec.pre
        assert spec.pre.command == ("sync",)

    in_virtual_time(main())


def test_hooks_that_make_no_sense_fail_the_group_and_nothing_is_cut() -> None:
    async def main() -> None:
        cluster = GroupCluster()
        cluster.ask()
        cluster.api.edit(GROUPS, "one", TEAM, merge={"metadata": {"annotations": {HOOKS: '{"pre":{"command":[]}}'}}})
        await cluster.live(cluster.empty)
        assert cluster.error().startswith("HookInvalid: metadata.annotations[hooks.snapshot.ullage.io/spec]")
        assert cluster.driver.cuts == []

    in_virtual_time(main())


roads = pytest.mark.parametrize("by_driver", [False, True], ids=["one by one", "in one call"])


@roads
def test_what_is_frozen_is_thawed_when_all_are_cut_and_not_when_all_are_stored(by_driver: bool) -> None:
    async def main() -> None:
        hooks = Hooks()
        cluster = GroupCluster(hooks=hooks)
        cluster.driver.groups, cluster.driver.ready = by_driver, False
        cluster.ask()
        await cluster.live(lambda: hooks.thawed == 1)
        assert len(cluster.driver.cuts) == 3
        assert not cluster.ready(), "nothing is stored yet"
        cluster.driver.ready = True
        await cluster.live(cluster.ready)
        assert not hooks.frozen

    in_virtual_time(main())


def pool_is_gone(volume: str) -> None:
    if volume == "vol-data-1":
        raise Impossible("the pool is gone")


@roads
@pytest.mark.parametrize("fails", [False, True], ids=["it is taken", "one fails"])
def test_what_is_frozen_is_thawed_whenever_the_process_dies(by_driver: bool, fails: bool) -> None:
    async def main(moment: int) -> bool:
        hooks = Hooks()
        cluster = GroupCluster(hooks=hooks, claims=("data-0", "data-1"))
        cluster.driver.groups = by_driver
        if fails:
            cluster.driver.refuses, cluster.driver.refuses_group = pool_is_gone, lambda: pool_is_gone("vol-data-1")
        cluster.api.fuse.blows_at = moment
        cluster.ask()
        await cluster.live(lambda: (cluster.empty() if fails else cluster.ready()) and not hooks.frozen)
        assert hooks.asked
        return cluster.api.fuse.passed < moment

    moment = 1
    while not in_virtual_time(main(moment)):
        moment += 4
    assert moment > 20, "there were effects to die at"


@roads
def test_what_is_frozen_is_thawed_when_the_group_is_deleted(by_driver: bool) -> None:
    async def main() -> None:
        hooks = Hooks()
        cluster = GroupCluster(hooks=hooks)
        cluster.driver.groups = by_driver
        cluster.driver.refuses = cluster.driver.refuses_group = away
        cluster.ask()
        await cluster.live(lambda: hooks.frozen)
        cluster.delete()
        await cluster.live(lambda: not hooks.frozen)
        cluster.driver.refuses, cluster.driver.refuses_group = lambda volume: None, lambda: None
        await cluster.live(cluster.clean)

    in_virtual_time(main())


def away(volume: str = "") -> None:
    raise NotNow("UNAVAILABLE: nobody is there")
