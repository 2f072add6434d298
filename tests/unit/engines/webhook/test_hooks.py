"""Admission of Snapshots: what is set on them, and what is refused with which words."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.unit.engines.builders import CREATED, DELETED, GIB, NS
from tests.unit.snapshots.memory_api import MemoryApi
from ullage.clock import Clock, FakeClock, SystemClock
from ullage.engines.api import ENGINE_SNAPSHOTS, ENGINES, KINDS, VOLUMES
from ullage.engines.chain import HEAD
from ullage.engines.lookup import lookup_of
from ullage.engines.settings import Settings
from ullage.engines.slice import Options, engines
from ullage.engines.webhook.hooks import SnapshotHooks, make_hooks
from ullage.kube.objects import Json
from ullage.kube.review import Decision, GroupVersionKind, GroupVersionResource, Operation, Request, Review, UserInfo
from ullage.kube.slices import Part, Wiring

PERSON = "ann"
SYSTEM = "system:serviceaccount:ullage-system:controller"
OWNER = {"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "name": "vol", "uid": "uid-vol"}
HINT = "kubectl get snapshots.longhorn.io -n longhorn-system -l longhornvolume=vol"
STAMPED: Json = {"finalizers": ["longhorn.io"], "labels": {"longhornvolume": "vol"}, "ownerReferences": [OWNER]}


class Scene:
    """A volume `vol` with an engine, and hooks whose caches have seen everything."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self.api = MemoryApi()
        self.clock = clock or SystemClock()
        self.volume("vol")
        self.engine("vol", {HEAD: "0"})

    def volume(self, name: str, *, going: bool = False, **spec: Any) -> None:
        meta = {"name": name, "namespace": NS, **({"deletionTimestamp": DELETED} if going else {})}
        self.api.put(VOLUMES, {"metadata": meta, "spec": {"size": str(GIB), **spec}})

    def engine(self, volume: str, sizes: dict[str, str], *, removed: tuple[str, ...] = ()) -> None:
        """A chain: the head on the last of the snapshots, each on the one before."""
        names = [name for name in sizes if name != HEAD]
        below = dict(zip([*names, HEAD], ["", *names], strict=True))
        entries = {
            name: {"name": name, "parent": below[name], "size": size, "removed": name in removed}
            for name, size in sizes.items()
        }
        body = {"metadata": {"name": f"{volume}-e-0", "namespace": NS}, "spec": {"volumeName": volume}}
        self.api.put(ENGINES, {**body, "status": {"currentState": "running", "snapshots": entries}})

    def snapshot(self, name: str, *, volume: str = "vol", status: Json | None = None, create: bool = True) -> None:
        owner = {**OWNER, "name": volume, "uid": f"uid-{volume}"}
        meta = {"name": name, "namespace": NS, "ownerReferences": [owner]}
        body = {"metadata": meta, "spec": {"volume": volume, "createSnapshot": create}, "status": status or {}}
        self.api.put(ENGINE_SNAPSHOTS, body)

    @contextlib.asynccontextmanager
    async def hooks(self) -> AsyncIterator[SnapshotHooks]:
        wiring = Wiring(self.api, clock=self.clock)  # type: ignore[arg-type]
        made = wiring.made(
            Part(make=lambda given: [SnapshotHooks(given.client, lookup_of(given), clock=given.clock)], watches=KINDS)
        )
        tasks = [asyncio.create_task(cache.run()) for cache in wiring.caches]
        try:
            async with asyncio.timeout(10):
                for cache in wiring.caches:
                    await cache.synced.wait()
            yield made[0]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def stamp(self, body: Json, *, user: str = PERSON) -> Decision:
        async with self.hooks() as hooks:
            return await hooks.mutate(review("CREATE", body, user=user))

    async def judge(self, body: Json, *, user: str = PERSON) -> Decision:
        async with self.hooks() as hooks:
            return await hooks.validate(review("CREATE", body, user=user))


def asked(name: str = "snap", *, meta: Json | None = None, **spec: Any) -> Json:
    """As it comes from a mutating hook that has done its work."""
    made = {"name": name, "namespace": NS, **STAMPED, **(meta or {})}
    return {"metadata": made, "spec": {"volume": "vol", "createSnapshot": True, **spec}}


def review(operation: Operation, body: Json, *, old: Json | None = None, user: str = PERSON, dry_run: bool = False) -> Review:
    request = Request(
        uid="1",
        operation=operation,
        kind=GroupVersionKind(group="longhorn.io", version="v1beta2", kind="Snapshot"),
        resource=GroupVersionResource(group="longhorn.io", version="v1beta2", resource="snapshots"),
        namespace=NS,
        name=body["metadata"].get("name", ""),
        user_info=UserInfo(username=user),
        dry_run=dry_run,
        object=msgspec.Raw(msgspec.json.encode(body)),
        old_object=msgspec.Raw(msgspec.json.encode(old)),
    )
    return Review(request)


# --- mutation --------------------------------------------------------------------------------------------------------


def plain(**spec: Any) -> Json:
    return {"metadata": {"name": "snap", "namespace": NS}, "spec": {"volume": "vol", **spec}}


async def test_a_snapshot_is_tied_to_its_volume() -> None:
    found = await Scene().stamp(plain(createSnapshot=True))
    assert {step["path"]: step["value"] for step in found.patch} == {
        "/metadata/finalizers": ["longhorn.io"],
        "/metadata/labels": {"longhornvolume": "vol"},
        "/metadata/ownerReferences": [OWNER],
    }


@pytest.mark.parametrize(
    ("body", "user", "meant"),
    [
        pytest.param(plain(), PERSON, True, id="a person who says nothing wants a snapshot"),
        pytest.param(plain(), SYSTEM, False, id="the system shows what is there"),
    ],
)
async def test_what_absent_means(body: Json, user: str, meant: bool) -> None:
    found = await Scene().stamp(body, user=user)
    assert [step["value"] for step in found.patch if step["path"] == "/spec/createSnapshot"] == [meant]


async def test_what_a_person_says_stays_for_the_refusal() -> None:
    found = await Scene().stamp(plain(createSnapshot=False))
    assert not [step for step in found.patch if step["path"].startswith("/spec")]


async def test_a_forged_owner_and_label_are_put_right_and_the_rest_is_kept() -> None:
    scene = Scene()
    mine = {"apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "uid": "1"}
    body = plain(createSnapshot=True)
    body["metadata"] |= {
        "ownerReferences": [mine, {**OWNER, "uid": "forged"}],
        "labels": {"longhornvolume": "other", "app": "db"},
        "finalizers": ["mine.example.com/keep"],
        "unknown": {"kept": True},
    }
    scene.api.put(VOLUMES, {"metadata": {"name": "vol", "namespace": NS, "uid": "uid-vol"}, "spec": {}})
    found = await scene.stamp(body)
    values = {step["path"]: step["value"] for step in found.patch}
    assert values["/metadata/ownerReferences/1/uid"] == "uid-vol"
    assert values["/metadata/labels/longhornvolume"] == "vol"
    assert values["/metadata/finalizers"] == ["mine.example.com/keep", "longhorn.io"]
    assert not [path for path in values if "unknown" in path or "app" in path]


async def test_a_volume_that_the_cache_has_not_seen_is_asked_for() -> None:
    scene = Scene()
    async with scene.hooks() as hooks:
        scene.volume("late")  # after the caches were filled, and before they hear of it
        found = await hooks.mutate(review("CREATE", {"metadata": {"name": "a", "namespace": NS}, "spec": {"volume": "late"}}))
    assert any(step["path"] == "/metadata/ownerReferences" for step in found.patch)


# --- validation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "user"),
    [
        pytest.param(asked(), PERSON, id="a snapshot"),
        pytest.param(asked(labels={"job": "daily"}), PERSON, id="with labels"),
        pytest.param(asked(createSnapshot=False), SYSTEM, id="what the system shows"),
        pytest.param(asked(createSnapshot=False), SYSTEM.replace("controller", "webhook"), id="by its other identity"),
    ],
)
async def test_what_is_let_in(body: Json, user: str) -> None:
    assert await Scene().judge(body, user=user) == Decision.allow()


REFUSED: list[tuple[str, Json, str, str]] = [
    (
        "false from a person",
        asked(createSnapshot=False),
        "spec.createSnapshot",
        "false stands for a snapshot that the engine has already, and only the system creates those; "
        "to take a snapshot, leave it out or set it to true",
    ),
    ("no volume", asked(volume=""), "spec.volume", "is required: the name of the volume to take a snapshot of"),
    ("a volume that is not there", asked(volume="vlo"), "spec.volume", f"volume 'vlo' does not exist in namespace {NS}"),
    ("what can be no volume", asked(volume="../vol"), "spec.volume", f"volume '../vol' does not exist in namespace {NS}"),
    (
        "a volume that goes",
        asked(volume="going"),
        "spec.volume",
        "volume 'going' is being deleted, and its snapshots with it",
    ),
    (
        "the name of the head",
        asked("volume-head"),
        "metadata.name",
        "volume-head is what the volume writes to; any other name is allowed",
    ),
    (
        "a name that another volume's engine has",
        asked("theirs"),
        "metadata.name",
        "'theirs' is the name of a snapshot of volume other; choose another",
    ),
    (
        "a name that another volume's object has",
        asked("asked"),
        "metadata.name",
        "'asked' is the name of a snapshot of volume other; choose another",
    ),
    (
        "a label with '=' in its value",
        asked(labels={"job": "a=b"}),
        "spec.labels[job]",
        "'job': 'a=b' has a '=', which engines cannot keep in labels",
    ),
    (
        "a label with '=' in its key",
        asked(labels={"a=b": "c"}),
        "spec.labels[a=b]",
        "'a=b': 'c' has a '=', which engines cannot keep in labels",
    ),
]


@pytest.mark.parametrize(("body", "field", "problem"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
async def test_what_is_refused(body: Json, field: str, problem: str) -> None:
    scene = Scene()
    scene.volume("going", going=True)
    scene.volume("other")
    scene.engine("other", {"theirs": "1", HEAD: "0"})
    scene.snapshot("asked", volume="other")
    found = await scene.judge(body)
    assert (found.allowed, found.code, found.message) == (False, 422, f"{field}: {problem}")
    assert [(cause.field, cause.message) for cause in found.causes] == [(field, problem)]


async def test_a_volume_that_was_replaced_between_the_hooks_is_tried_again() -> None:
    found = await Scene().judge(asked(meta={"ownerReferences": [{**OWNER, "uid": "old"}]}))
    assert (found.allowed, found.code) == (False, 429)


class TestLimits:
    async def test_snapshots_and_promises_count_and_marked_ones_do_not(self) -> None:
        scene = Scene()
        scene.volume("vol", snapshotMaxCount=3)
        scene.engine("vol", {"a": "1", "b": "1", "marked": "1", HEAD: "0"}, removed=("marked",))
        assert (await scene.judge(asked())).allowed
        scene.snapshot("promised")
        found = await scene.judge(asked())
        assert (found.allowed, found.code, found.reason) == (False, 403, "Forbidden")
        assert found.message == (
            f"volume vol has 2 snapshots and 1 being taken, and 3 are allowed (snapshotMaxCount); delete some first: {HINT}"
        )
        assert [(one.field, one.reason, one.message) for one in found.causes] == [
            (
                "spec.volume",
                "SnapshotCountLimit",
                "volume vol has 2 snapshots and 1 being taken, and 3 are allowed (snapshotMaxCount)",
            )
        ]

    async def test_what_is_taken_counts_before_its_engine_is_seen_to_have_it(self) -> None:
        scene = Scene()
        scene.volume("vol", snapshotMaxCount=2)
        scene.engine("vol", {"a": "1", HEAD: "0"})
        scene.snapshot("taken", status={"creationTime": CREATED, "readyToUse": True})
        assert not (await scene.judge(asked())).allowed

    @pytest.mark.parametrize("user", [PERSON, SYSTEM])
    @pytest.mark.parametrize(
        ("volume", "reason"),
        [
            pytest.param({"snapshotMaxCount": 2}, "SnapshotCountLimit", id="how many"),
            pytest.param({"snapshotMaxSize": "10"}, "SnapshotSizeLimit", id="how large"),
        ],
    )
    async def test_limits_hold_for_whoever_asks_for_a_new_one(self, user: str, volume: Json, reason: str) -> None:
        """The controller takes what tenants ask for with a VolumeSnapshot: it passes no limit on their behalf."""
        scene = Scene()
        scene.volume("vol", **volume)
        scene.engine("vol", {"a": "5", "b": "5", HEAD: "1"})
        found = await scene.judge(asked(), user=user)
        assert (found.allowed, [one.reason for one in found.causes]) == (False, [reason])

    @pytest.mark.parametrize("users", [pytest.param((PERSON,), id="a person"), pytest.param((PERSON, SYSTEM), id="both")])
    async def test_of_ten_at_the_same_time_with_room_for_one_exactly_one_is_let_in(self, users: tuple[str, ...]) -> None:
        scene = Scene()
        scene.volume("vol", snapshotMaxCount=2)
        scene.engine("vol", {"a": "1", HEAD: "0"})
        async with scene.hooks() as hooks:
            reviews = [review("CREATE", asked(f"snap-{n}"), user=users[n % len(users)]) for n in range(10)]
            found = await asyncio.gather(*map(hooks.validate, reviews))
        assert [one.allowed for one in found].count(True) == 1
        said = {one.message for one in found if not one.allowed}
        assert said == {
            f"volume vol has 1 snapshot and 1 being taken, and 2 are allowed (snapshotMaxCount); delete some first: {HINT}"
        }

    async def test_what_was_let_in_is_counted_once_and_not_for_ever(self) -> None:
        """It comes to be stored, and is seen; or another webhook refuses it, and nothing is."""
        clock = FakeClock()
        scene = Scene(clock=clock)
        scene.volume("vol", snapshotMaxCount=3)
        scene.engine("vol", {"a": "1", HEAD: "0"})
        async with scene.hooks() as hooks:
            assert (await hooks.validate(review("CREATE", asked("again")))).allowed
            assert (await hooks.validate(review("CREATE", asked("again")))).allowed, "the same one asks again"
            scene.snapshot("again")
            assert (await hooks.validate(review("CREATE", asked("second")))).allowed
            assert not (await hooks.validate(review("CREATE", asked("third")))).allowed
            clock.advance(60)
            assert (await hooks.validate(review("CREATE", asked("third")))).allowed, "the second never came"

    async def test_a_dry_run_takes_no_place(self) -> None:
        scene = Scene()
        scene.volume("vol", snapshotMaxCount=2)
        scene.engine("vol", {"a": "1", HEAD: "0"})
        async with scene.hooks() as hooks:
            assert (await hooks.validate(review("CREATE", asked("dry"), dry_run=True))).allowed
            assert (await hooks.validate(review("CREATE", asked("wet")))).allowed

    @pytest.mark.parametrize(
        "status",
        [
            pytest.param({"creationTime": CREATED}, id="it was taken and is lost"),
            pytest.param({"conditions": [{"type": "Failed", "status": "True"}]}, id="it failed"),
        ],
    )
    async def test_what_will_not_be_taken_is_no_promise(self, status: Json) -> None:
        scene = Scene()
        scene.volume("vol", snapshotMaxCount=2)
        scene.engine("vol", {"a": "1", HEAD: "0"})
        scene.snapshot("over", status=status)
        assert (await scene.judge(asked())).allowed

    async def test_the_system_is_not_held_to_them(self) -> None:
        scene = Scene()
        scene.volume("vol", snapshotMaxCount=2, snapshotMaxSize="1")
        scene.engine("vol", {"a": "5", "b": "5", "c": "5", HEAD: "9"})
        assert (await scene.judge(asked(createSnapshot=False), user=SYSTEM)).allowed

    @pytest.mark.parametrize(
        ("head", "allowed"),
        [pytest.param(30, True, id="exactly full is allowed"), pytest.param(31, False, id="one byte over is refused")],
    )
    async def test_size_with_what_this_one_would_take(self, head: int, allowed: bool) -> None:
        scene = Scene()
        scene.volume("vol", snapshotMaxSize="100")
        scene.engine("vol", {"a": "30", "b": "40", "marked": "500", HEAD: str(head)}, removed=("marked",))
        found = await scene.judge(asked())
        assert found.allowed is allowed
        if not allowed:
            assert found.message == (
                "snapshots of volume vol take 70 bytes, this one would take 31 bytes, and 100 bytes are allowed "
                "(snapshotMaxSize): 1 byte too many; "
                f"delete some first: {HINT}"
            )

    async def test_only_the_live_chain_is_measured(self) -> None:
        scene = Scene()
        scene.volume("vol", snapshotMaxSize="100")
        scene.engine("vol", {"a": "30", HEAD: "10"})
        branch = {"left": {"name": "left", "parent": "a", "size": "5000"}}
        scene.api.edit(ENGINES, "vol-e-0", NS, merge={"status": {"snapshots": branch}})
        assert (await scene.judge(asked())).allowed


# --- where Longhorn runs ---------------------------------------------------------------------------------------------


def test_where_longhorn_runs_nothing_is_asked_and_nothing_written() -> None:
    found = engines()
    assert (found.hooks, found.controllers, found.kinds, found.foreign) == (None, None, (), ())
    managed = engines(Options(settings=Settings(manage=True)))
    assert managed.hooks is not None
    assert managed.controllers is not None
    assert (found.policies, [one.name for one in managed.policies]) == ((), ["ullage-engine-objects"])


def test_the_hooks_that_are_registered() -> None:
    wiring = Wiring(MemoryApi())  # type: ignore[arg-type]
    found = wiring.made(Part(make=make_hooks, watches=KINDS))
    assert [(one.phase, one.failure_policy, one.targets[0].operations) for one in found] == [
        ("mutate", "Fail", ("CREATE",)),
        ("validate", "Fail", ("CREATE",)),
        ("validate", "Fail", ("UPDATE",)),
        ("validate", "Fail", ("DELETE",)),
    ]
