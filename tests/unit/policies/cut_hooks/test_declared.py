"""What hooks are declared, by pods and on snapshots: what is read, what is refused with its field, and who may."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ullage.errors import BadInput
from ullage.kube.builtin.watched_pods import WatchedPod
from ullage.kube.identities import CONTROLLER, account
from ullage.kube.kinds import Meta
from ullage.kube.review import NULL, GroupVersionKind, GroupVersionResource, Request, Review, UserInfo
from ullage.policies.cut_hooks.api import HOOKS, HookCommand, HookSpec, decode_hooks, encode_hooks
from ullage.policies.cut_hooks.pod_annotations import pod_hooks
from ullage.policies.cut_hooks.resolution import excludes, wanted_runs
from ullage.policies.cut_hooks.run import HookRunSpec
from ullage.policies.cut_hooks.webhook.hooks import SnapshotHooks
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.gate import CutRefused, gate_of, refused
from ullage.snapshots.model import CUT, HOOKED, Problem

PRE, POST, ANY = "pre.hook.snapshot.ullage.io", "post.hook.snapshot.ullage.io", "hook.snapshot.ullage.io"


@pytest.mark.parametrize(
    ("annotations", "spec"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"other.io/preset": "x"}, None, id="nothing of ours"),
        pytest.param({f"{PRE}/command": "sync"}, HookSpec(pre=HookCommand(command=("sync",))), id="one word"),
        pytest.param(
            {f"{POST}/command": '["sh","-c","a b"]', f"{POST}/timeout": "2m", f"{POST}/container": "db"},
            HookSpec(post=HookCommand(command=("sh", "-c", "a b"), timeout_seconds=120, container="db")),
            id="a list, with its time and container",
        ),
        pytest.param(
            {f"{ANY}/preset": "fsfreeze", f"{ANY}/max-freeze": "30"},
            HookSpec(preset="fsfreeze", max_freeze_seconds=30),
            id="the preset",
        ),
    ],
)
def test_what_a_pod_asks_for(annotations: dict[str, str], spec: HookSpec | None) -> None:
    assert pod_hooks(annotations) == spec


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        pytest.param({f"{PRE}/timeout": "3s"}, f"without {PRE}/command", id="a time for nothing"),
        pytest.param({f"{PRE}/command": "[1]"}, "Expected `str`", id="a list of something else"),
        pytest.param({f"{PRE}/command": ""}, "it is empty", id="an empty command"),
        pytest.param(
            {f"{PRE}/command": "a", f"{PRE}/on-error": "Ignore"}, "Abort and Continue are allowed", id="another policy"
        ),
        pytest.param({f"{PRE}/command": "a", f"{PRE}/timeout": "1d"}, "a time such as 30s", id="another unit"),
        pytest.param({f"{PRE}/command": "a", f"{PRE}/timeout": "2h"}, "from 1 to 600", id="too long"),
        pytest.param({f"{ANY}/preset": "lvm"}, "fsfreeze is allowed", id="another preset"),
        pytest.param({f"{ANY}/preset": "fsfreeze", f"{PRE}/command": "a"}, "leave out either", id="both"),
        pytest.param({f"{PRE}/comand": "a"}, "no such annotation", id="a slip of the pen"),
        pytest.param({f"{PRE}/command": "x" * 5000}, "4096 are allowed", id="a command that is too long"),
        pytest.param({f"{PRE}/command": "a\0b"}, "NUL", id="what no command can have"),
    ],
)
def test_what_makes_no_sense_is_said_with_its_field(annotations: dict[str, str], said: str) -> None:
    with pytest.raises(BadInput, match=said.replace("[", r"\[")):
        pod_hooks(annotations)


def test_a_spec_comes_back_as_it_went() -> None:
    spec = HookSpec(pre=HookCommand(command=("a", "b"), on_error="Continue"), max_freeze_seconds=5)
    assert decode_hooks(encode_hooks(spec)) == spec
    for text in ("", "[]", '{"pre":{"command":[]}}', '{"pre":{"command":["a"],"timeoutSeconds":601}}', "\ud800"):
        with pytest.raises(BadInput, match=r"metadata\.annotations"):
            decode_hooks(text)


def test_presets_meet_in_a_file_system_and_other_commands_in_a_pod() -> None:
    def run(*, claim: str = "", pod: str = "u", namespace: str = "n") -> HookRunSpec:
        return HookRunSpec(namespace=namespace, pod="p", pod_uid=pod, max_freeze_seconds=1, claim=claim)

    assert not excludes(run(claim="a"), run(claim="b"))
    assert excludes(run(claim="a"), run(claim="a"))
    assert excludes(run(claim="a"), run(claim="a", pod="v"))
    assert not excludes(run(claim="a"), run(claim="a", pod="v", namespace="m"))
    assert excludes(run(claim="a"), run())
    assert excludes(run(), run())
    assert not excludes(run(), run(pod="v"))


# --- who freezes -------------------------------------------------------------------------------------------------------


def mounting(name: str, claim: str = "data", *, source: dict[str, Any] | None = None, **mount: Any) -> WatchedPod:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": claim, **(source or {})}}
    container = {"name": "main", "volumeMounts": [{"name": "v", "mountPath": "/d", **mount}]}
    spec = {"containers": [container], "volumes": [volume]}
    meta = {"name": name, "namespace": "team", "uid": f"uid-{name}"}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": "Running"}}, WatchedPod)


FREEZE = HookSpec(preset="fsfreeze")


@pytest.mark.parametrize(
    ("pods", "chosen"),
    [
        pytest.param([mounting("a"), mounting("b")], ["a"], id="one of two that write: the file system is one"),
        pytest.param([mounting("b"), mounting("a")], ["a"], id="whichever is known first"),
        pytest.param([mounting("a", readOnly=True), mounting("b")], ["b"], id="not the one that reads"),
        pytest.param(
            [mounting("a", source={"readOnly": True}), mounting("b")], ["b"], id="not the one whose volume is read only"
        ),
        pytest.param([mounting("a", subPath="pgdata")], ["a"], id="one that mounts a part of it"),
        pytest.param([mounting("a", subPath="pgdata"), mounting("b")], ["b"], id="better one that mounts all of it"),
        pytest.param([mounting("a"), mounting("b", "logs")], ["a", "b"], id="one for each of two claims"),
    ],
)
def test_who_freezes_the_file_system_of_a_claim(pods: list[WatchedPod], chosen: list[str]) -> None:
    runs = wanted_runs(pods, frozenset({"data", "logs"}), FREEZE)
    assert isinstance(runs, list), runs
    assert sorted(one.spec.pod for one in runs) == chosen


def test_one_who_has_begun_goes_on_though_another_would_be_first() -> None:
    claims = frozenset({"data"})
    begun = wanted_runs([mounting("b")], claims, FREEZE)
    assert isinstance(begun, list)
    pods = [mounting("a"), mounting("b")]
    assert wanted_runs(pods, claims, FREEZE, under_way={one.name for one in begun}) == begun


def test_where_nobody_writes_nobody_can_freeze_and_that_is_said() -> None:
    found = wanted_runs([mounting("a", readOnly=True), mounting("b", readOnly=True)], frozenset({"data"}), FREEZE)
    assert found == Problem(
        "HookInvalid",
        "claim data: preset fsfreeze: no pod that is to freeze it mounts it for writing (a, b); "
        "have one that does declare hook.snapshot.ullage.io/preset, or leave the preset out",
    )


# --- the gate ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["hold", "go@x", "no@x y", "", "booked@x"])
def test_a_snapshot_with_hooks_waits_whatever_was_said_to_it(word: str) -> None:
    gate = gate_of(Meta(annotations={HOOKED: "true", CUT: word}), Meta(), books=True)
    assert gate is not None
    assert gate.group
    assert not gate.open


def test_why_it_is_not_cut_has_its_own_reason() -> None:
    error = refused("HookFailed: pod db: exit code 1")
    assert isinstance(error, CutRefused)
    assert (error.reason, str(error)) == ("HookFailed", "pod db: exit code 1")
    assert not isinstance(refused("does not fit: a: b"), CutRefused)


# --- who may -----------------------------------------------------------------------------------------------------------


class Cluster:
    def __init__(self, *, allows: bool) -> None:
        self.allows = allows
        self.asked: list[Any] = []

    async def request(self, method: str, path: str, *, body: bytes | None = None) -> bytes:
        self.asked.append(msgspec.json.decode(body or b""))
        return msgspec.json.encode({"status": {"allowed": self.allows}})


def review(annotations: dict[str, str], *, old: dict[str, str] | None = None, user: str = "jane") -> Review:
    def body(notes: dict[str, str]) -> msgspec.Raw:
        spec = {"source": {"persistentVolumeClaimName": "data"}}
        return msgspec.Raw(
            msgspec.json.encode({"metadata": {"name": "s", "namespace": "team", "annotations": notes}, "spec": spec})
        )

    kind = GA.snapshots
    request = Request(
        uid="r",
        operation="CREATE" if old is None else "UPDATE",
        kind=GroupVersionKind(group=kind.group, version=kind.version, kind=kind.kind),
        resource=GroupVersionResource(group=kind.group, version=kind.version, resource=kind.plural),
        namespace="team",
        name="s",
        user_info=UserInfo(username=user, groups=("devs",)),
        object=body(annotations),
        old_object=NULL if old is None else body(old),
    )
    return Review(request)


GIVEN = {HOOKS: '{"pre":{"command":["sync"]}}'}


@pytest.mark.parametrize(
    ("asked", "allows", "code"),
    [
        pytest.param(review(GIVEN), True, 200, id="one who may exec"),
        pytest.param(review(GIVEN), False, 403, id="one who may not"),
        pytest.param(review(GIVEN, user=account(CONTROLLER)), False, 200, id="our own controller, for a schedule"),
        pytest.param(review({HOOKS: "{"}), True, 422, id="what cannot be read"),
        pytest.param(review(GIVEN, old={}), True, 422, id="an edit of one that is there"),
        pytest.param(review({}, old=GIVEN), True, 422, id="hooks that are taken off"),
        pytest.param(review(GIVEN, old=GIVEN), False, 200, id="an edit of something else"),
        pytest.param(review({HOOKED: "true"}), True, 429, id="another webhook says that it waits"),
    ],
)
async def test_who_may_name_hooks_on_a_snapshot(asked: Review, allows: bool, code: int) -> None:
    answer = await SnapshotHooks(GA, Cluster(allows=allows)).validate(asked)
    assert (answer.allowed, 200 if answer.allowed else answer.code) == (code == 200, code), answer.message


async def test_what_is_asked_of_the_cluster() -> None:
    cluster = Cluster(allows=True)
    await SnapshotHooks(GA, cluster).validate(review(GIVEN))
    spec = cluster.asked[0]["spec"]
    assert (spec["user"], spec["groups"]) == ("jane", ["devs"])
    wanted = {"verb": "create", "version": "v1", "resource": "pods", "subresource": "exec", "namespace": "team"}
    assert spec["resourceAttributes"] == wanted


async def test_what_a_user_writes_on_the_mark_is_taken_off() -> None:
    answer = await SnapshotHooks(GA, Cluster(allows=True)).mutate(review({HOOKED: "true"}))
    assert answer.allowed
    assert answer.patch
