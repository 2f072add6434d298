"""Hooks around the cut of a volume, with the real processes: they work, fail, hang; the pod goes; the controller is killed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from .apart import IS_BORROWED
from .api import Answer, Api
from .snapshot_scene import BOTH, GA, Dialect, Process, Scene, eventually, scene

pytestmark = [pytest.mark.slow, pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has kubelets of its own")]

Json = dict[str, Any]
RUNS = "/apis/ullage.io/v1alpha1/hookruns"
PRE, POST = "pre.hook.snapshot.ullage.io", "post.hook.snapshot.ullage.io"
PRESET, MAX_FREEZE = "hook.snapshot.ullage.io/preset", "hook.snapshot.ullage.io/max-freeze"
SPEC = "hooks.snapshot.ullage.io/spec"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("hooks")) as made, made.running(made.webhook(), made.world()):
        yield made


@pytest.fixture(scope="module")
def controller(place: Scene) -> Iterator[Controller]:
    found = Controller(place)
    try:
        yield found
    finally:
        found.kill()


class Controller:
    """It can be killed, and started again."""

    def __init__(self, place: Scene) -> None:
        self._place = place
        self._process: Process | None = None
        self.start()

    def start(self) -> None:
        self._process = Process(*self._place.controller(), log=self._place.directory / "controller.log")

    def kill(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None


class Case:
    """A namespace with a claim `data`, and pods that mount it on /data."""

    def __init__(self, place: Scene) -> None:
        self.place, self.api = place, place.api
        self.namespace = place.namespace()
        self.claim = place.claim(self.namespace, "data")

    def pod(self, annotations: Json, name: str = "db", *, claims: tuple[str, ...] = ("data",)) -> None:
        mounts = [{"name": claim, "mountPath": f"/{claim}"} for claim in claims]
        spec = {
            "containers": [{"name": "side", "image": "x"}, {"name": "db", "image": "x", "volumeMounts": mounts}],
            "volumes": [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims],
        }
        meta = {"name": name, "annotations": annotations}
        self.api.create(f"{self.core}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        pod = f"{self.core}/pods/{name}"
        eventually(f"{name} runs", lambda: self.api.get(pod).obj.get("status", {}).get("phase") == "Running")

    @property
    def core(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}"

    @property
    def log(self) -> list[str]:
        """What the commands have written, line by line."""
        path = self.place.files(self.claim) / "log"
        return path.read_text().split() if path.exists() else []

    @property
    def frozen(self) -> bool:
        volume = self.api.get(self.claim).obj["spec"]["volumeName"]
        return (self.place.volumes / ".world" / f"frozen-{volume}").exists()

    @property
    def runs(self) -> list[Json]:
        return [one for one in self.api.get(RUNS).obj["items"] if one["spec"]["namespace"] == self.namespace]

    def snapshot(self, dialect: Dialect = GA, *, annotations: Json | None = None) -> str:
        """Asks for one; its path."""
        body = dialect.of_claim(f"s-{uuid.uuid4().hex[:6]}", "data")
        body["metadata"]["annotations"] = annotations or {}
        made = self.api.create(dialect.snapshots(self.namespace), body)
        return f"{dialect.snapshots(self.namespace)}/{made['metadata']['name']}"

    def ready(self, path: str, dialect: Dialect = GA) -> None:
        eventually("the snapshot is ready", lambda: dialect.ready(self.api.get(path).obj))

    def error(self, path: str, dialect: Dialect = GA) -> str:
        eventually("the snapshot says what is wrong", lambda: dialect.error(self.api.get(path).obj))
        return dialect.error(self.api.get(path).obj)

    def over(self) -> None:
        eventually("nothing is left of the hooks", lambda: not self.runs)


def says(word: str) -> str:
    return json.dumps(["sh", "-c", f"echo {word} >> /data/log"])


@pytest.fixture
def case(place: Scene) -> Case:
    return Case(place)


@pytest.mark.parametrize("dialect", [pytest.param(one, id=one.name) for one in BOTH])
def test_both_run_once_and_the_cut_is_between_them(case: Case, controller: Controller, dialect: Dialect) -> None:
    case.pod({f"{PRE}/command": says("pre"), f"{POST}/command": says("post")})
    path = case.snapshot(dialect)
    case.ready(path, dialect)
    case.over()
    assert case.log == ["pre", "post"]
    record = dialect.bound_to(case.api.get(path).obj)
    handle = dialect.handle(case.api.get(f"{dialect.records}/{record}").obj)
    copies = [one for one in case.place.snapshots.rglob("log") if handle.rpartition("/")[2] in str(one)]
    assert [one.read_text().split() for one in copies] == [["pre"]], handle


def test_the_preset_freezes_and_thaws(case: Case, controller: Controller) -> None:
    case.pod({PRESET: "fsfreeze"})
    case.ready(case.snapshot())
    case.over()
    assert not case.frozen


def test_a_pre_command_that_fails_aborts_and_post_runs_all_the_same(case: Case, controller: Controller) -> None:
    case.pod({f"{PRE}/command": '["sh","-c","echo pre >> /data/log && false"]', f"{POST}/command": says("post")})
    path = case.snapshot()
    assert "exit code 1" in case.error(path)
    case.over()
    assert case.log == ["pre", "post"]
    assert not GA.ready(case.api.get(path).obj)


def test_a_failure_that_is_to_be_passed_over_is(case: Case, controller: Controller) -> None:
    case.pod({f"{PRE}/command": "false", f"{PRE}/on-error": "Continue", f"{POST}/command": says("post")})
    case.ready(case.snapshot())
    case.over()
    assert case.log == ["post"]


def test_a_pre_command_that_hangs_is_given_up_and_undone(case: Case, controller: Controller) -> None:
    case.pod({f"{PRE}/command": '["sleep","600"]', f"{PRE}/timeout": "2s", f"{POST}/command": says("post")})
    assert "has not ended in 2 s" in case.error(case.snapshot())
    case.over()
    assert case.log == ["post"]


def test_a_pod_that_goes_while_its_hook_runs_leaves_nothing(case: Case, controller: Controller) -> None:
    case.pod({f"{PRE}/command": '["sleep","600"]', f"{PRE}/timeout": "10m", f"{POST}/command": says("post")})
    path = case.snapshot()
    eventually("the pre command runs", lambda: [one for one in case.runs if one.get("status", {}).get("phase") == "Pre"])
    case.api.delete(f"{case.core}/pods/db", {"gracePeriodSeconds": 0})
    case.ready(path)
    case.over()
    assert case.log == []


def test_a_post_command_that_fails_is_run_again(case: Case, controller: Controller) -> None:
    post = '["sh","-c","cat /data/mended && echo post >> /data/log"]'
    case.pod({f"{PRE}/command": says("pre"), f"{POST}/command": post})
    case.ready(case.snapshot())
    eventually(
        "it has failed twice", lambda: [one for one in case.runs if one["status"].get("post", {}).get("answered", 0) >= 2]
    )
    assert case.log == ["pre"]
    (case.place.files(case.claim) / "mended").touch()
    case.over()
    assert case.log == ["pre", "post"]


def test_what_is_not_cut_in_max_freeze_has_post_run_and_says_so(case: Case, controller: Controller) -> None:
    """The second pod takes longer than the first one may be frozen."""
    for name in ("db", "other"):
        hooks = {f"{PRE}/command": '["sleep","5"]', f"{POST}/command": says("post"), MAX_FREEZE: "3s"}
        case.pod(hooks, name)
    path = case.snapshot()
    assert "2 commands run before this cut, and not all had ended 3 s after the first one" in case.error(path)
    case.over()
    assert case.log == ["post", "post"]
    assert not GA.ready(case.api.get(path).obj)


def killed_while_frozen(case: Case, controller: Controller) -> str:
    """The path of the snapshot that it was frozen for."""
    for _ in range(10):  # a cut takes a tenth of a second: until one is hit
        path = case.snapshot()
        eventually("it is frozen", lambda: case.frozen, every=0.002)
        controller.kill()
        if case.frozen:
            break
        controller.start()
        case.ready(path)
        case.over()
    assert case.frozen
    assert [one["status"]["phase"] for one in case.runs] in (["Pre"], ["Held"], ["Post"])
    return path


def test_a_file_system_whose_pod_went_while_it_was_frozen_is_thawed_in_the_next_one(case: Case, controller: Controller) -> None:
    case.pod({PRESET: "fsfreeze"})
    path = killed_while_frozen(case, controller)
    case.api.delete(f"{case.core}/pods/db", {"gracePeriodSeconds": 0})
    eventually("the pod is gone", lambda: case.api.get(f"{case.core}/pods/db").code == 404)
    controller.start()
    eventually("another pod is waited for", lambda: [one for one in case.runs if one["status"].get("goneSince")])
    assert case.frozen
    case.pod({}, "next")
    case.over()
    assert not case.frozen
    case.ready(path)


def test_a_controller_killed_between_the_two_has_post_run_by_the_next(case: Case, controller: Controller) -> None:
    case.pod({PRESET: "fsfreeze"})
    path = killed_while_frozen(case, controller)
    controller.start()
    case.ready(path)
    case.over()
    assert not case.frozen


def test_a_controller_killed_while_pre_runs_undoes_it_and_begins_anew(case: Case, controller: Controller) -> None:
    slow = '["sh","-c","echo pre >> /data/log && sleep 3"]'
    case.pod({f"{PRE}/command": slow, f"{POST}/command": says("post")})
    path = case.snapshot()
    eventually("the pre command runs", lambda: case.log == ["pre"], every=0.01)
    controller.kill()
    controller.start()
    case.ready(path)
    case.over()
    assert case.log == ["pre", "post", "pre", "post"]


def test_a_snapshot_deleted_while_it_waits_has_post_run(case: Case, controller: Controller) -> None:
    case.pod({f"{PRE}/command": '["sh","-c","echo pre >> /data/log && sleep 2"]', f"{POST}/command": says("post")})
    path = case.snapshot()
    eventually("the pre command runs", lambda: case.log == ["pre"], every=0.01)
    case.api.delete(path)
    eventually("it is gone", lambda: case.api.get(path).code == 404)
    case.over()
    assert case.log == ["pre", "post"]


def test_hooks_on_a_snapshot_run_in_pods_that_declare_none(case: Case, controller: Controller) -> None:
    case.pod({})
    wanted = {
        "pre": {"command": ["sh", "-c", "echo pre >> /data/log"]},
        "post": {"command": ["sh", "-c", "echo post >> /data/log"]},
    }
    case.ready(case.snapshot(annotations={SPEC: json.dumps(wanted)}))
    case.over()
    assert case.log == ["pre", "post"]


def test_a_group_is_cut_inside_one_run(case: Case, controller: Controller) -> None:
    """Its members, of two claims of one pod: pre once, then both, then post."""
    case.place.claim(case.namespace, "logs")
    for name in ("data", "logs"):
        case.api.merge(f"{case.core}/persistentvolumeclaims/{name}", {"metadata": {"labels": {"app": "db"}}})
    case.pod({f"{PRE}/command": says("pre"), f"{POST}/command": says("post")}, claims=("data", "logs"))
    groups = f"/apis/groupsnapshot.storage.k8s.io/v1beta2/namespaces/{case.namespace}/volumegroupsnapshots"
    spec = {"source": {"selector": {"matchLabels": {"app": "db"}}}}
    kind = {"apiVersion": "groupsnapshot.storage.k8s.io/v1beta2", "kind": "VolumeGroupSnapshot"}
    case.api.create(groups, {**kind, "metadata": {"name": "both"}, "spec": spec})
    eventually("the group is ready", lambda: case.api.get(f"{groups}/both").obj.get("status", {}).get("readyToUse"))
    case.over()
    assert case.log == ["pre", "post"]
    assert len(case.api.get(GA.snapshots(case.namespace)).obj["items"]) == 2


def test_who_may_not_exec_names_no_hooks(case: Case, place: Scene) -> None:
    tenant, body = Api(place.plane, token=_editor_of_snapshots(case)), GA.of_claim("s", "data")

    def ask(**annotations: str) -> Answer:
        """The webhook may hear of what was measured while it looks at the request, and says then to try again (429)."""
        body["metadata"]["annotations"] = annotations
        answers: list[Answer] = []

        def settled() -> bool:
            answers.append(tenant.call("POST", GA.snapshots(case.namespace), body))
            return answers[-1].code != 429

        eventually("an answer that stays", settled)
        return answers[-1]

    refused = ask(**{SPEC: json.dumps({"pre": {"command": ["true"]}})})
    assert (refused.code, "pods/exec" in refused.message) == (403, True), refused.message
    made = ask(**{"ullage.io/cut-hooks": "true"})
    assert made.code == 201, made.raw
    assert "ullage.io/cut-hooks" not in made.obj["metadata"].get("annotations", {})


def _editor_of_snapshots(case: Case) -> str:
    name, api = f"tenant-{uuid.uuid4().hex[:6]}", case.api
    api.create(f"{case.core}/serviceaccounts", {"metadata": {"name": name}})
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.create(f"{case.core}/serviceaccounts/{name}/token", asked)["status"]["token"]
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{case.namespace}"
    rule = {"apiGroups": [GA.group], "resources": ["volumesnapshots"], "verbs": ["*"]}
    api.create(f"{rbac}/roles", {"metadata": {"name": name}, "rules": [rule]})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    who = [{"kind": "ServiceAccount", "name": name, "namespace": case.namespace}]
    api.create(f"{rbac}/rolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": who})
    return str(token)
