"""A tenant with the role `edit` takes the finalizers off his VolumeSnapshots and deletes them. The API server keeps our guard.
Where it can be taken off (an older API server, an administrator), neither data nor record stays for ever. In both
cases another tenant's snapshots are taken and go as they did before."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ullage.snapshots.controllers.snapshot_bind import REQUEST_SECONDS
from ullage.snapshots.guard import NAME as POLICY
from ullage.snapshots.model import GUARD

from .apart import IS_BORROWED
from .api import Api
from .snapshot_scene import BOTH, GA, SECONDS, Dialect, Scene, eventually, scene
from .test_snapshot_security import Team

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(IS_BORROWED, reason="the cluster's own snapshot controller would answer too"),
]

SNAPSHOTS = 3
SLOWEST = 60.0  # seconds in which a victim's snapshot is taken and goes, on a busy machine
GONE = REQUEST_SECONDS + SECONDS
OTHERS = "example.com/held"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Without a controller."""
    with scene(tmp_path_factory.mktemp("hostile")) as made, made.running(made.world()):
        yield made


BINDING = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/{POLICY}"
MERGE = {"Content-Type": "application/merge-patch+json"}


def tenant(team: Team) -> Api:
    """A service account of the namespace with Kubernetes' role `edit` there."""
    api, core = team.scene.api, f"/api/v1/namespaces/{team.namespace}"
    api.create(f"{core}/serviceaccounts", {"metadata": {"name": "tenant"}})
    subject = {"kind": "ServiceAccount", "name": "tenant", "namespace": team.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    binding = {"metadata": {"name": "tenant"}, "subjects": [subject], "roleRef": role}
    api.create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{team.namespace}/rolebindings", binding)
    token = api.create(f"{core}/serviceaccounts/tenant/token", {"spec": {}})["status"]["token"]
    return Api(team.scene.plane, token=token)


def strip(api: Api, path: str, *, keep: Sequence[str] = ()) -> str:
    """The refusal, or nothing."""
    answer = api.call("PATCH", path, {"metadata": {"finalizers": list(keep) or None}}, headers=MERGE)
    return "" if answer.code == 200 else f"{answer.code} {answer.message}"


def strip_and_delete(team: Team, path: str) -> None:
    """As an administrator may, and a tenant where no policy is in force."""
    team.scene.api.merge(path, {"metadata": {"finalizers": None}})
    team.scene.api.delete(path)
    assert team.gone(path)


def come_and_go(team: Team, dialect: Dialect) -> float:
    """What a victim sees: the seconds in which a snapshot is ready and gone again."""
    began = time.monotonic()
    path, record = team.taken(dialect, "victim")
    team.delete(path)
    assert team.gone(record)
    return time.monotonic() - began


@pytest.mark.parametrize("with_namespace", [False, True], ids=["and stays", "and deletes the namespace"])
def test_data_whose_finalizers_a_tenant_takes_off_goes_as_its_policy_says(place: Scene, with_namespace: bool) -> None:
    """While the controller is restarted, so that it puts no finalizer on again in time."""
    victim, attacker = Team(place, place.namespace()), Team(place, place.namespace())
    taken: dict[str, str] = {}
    handles = []
    with place.running(place.controller()):
        victim.data()
        attacker.data()
        quiet = come_and_go(victim, GA)
        for dialect in BOTH:
            for number in range(SNAPSHOTS):
                path, record = attacker.taken(dialect, f"{dialect.name}-{number}")
                taken[path] = record
                handles.append(Path(dialect.handle(attacker.get(record))))
    for path in taken:
        strip_and_delete(attacker, path)
    if with_namespace:
        place.api.delete(f"/api/v1/namespaces/{attacker.namespace}")
    with place.running(place.controller()):
        began = time.monotonic()
        busy = come_and_go(victim, GA)
        assert busy < SLOWEST
        assert all("deletionTimestamp" not in attacker.get(record)["metadata"] for record in taken.values())
        assert all(handle.exists() for handle in handles)
        eventually("all records are gone", lambda: all(map(attacker.gone, taken.values())), seconds=GONE)
        assert not any(handle.exists() for handle in handles), "the data goes before the record"
        waited = time.monotonic() - began
    print(f"the data of {len(taken)} snapshots was gone after {waited:.0f} s; a victim waited {quiet:.1f}, then {busy:.1f} s")


@pytest.mark.parametrize("with_namespace", [False, True], ids=["and stays", "and deletes the namespace"])
def test_a_tenant_cannot_take_the_guard_off_and_what_he_deletes_goes_in_order(place: Scene, with_namespace: bool) -> None:
    """While no controller runs: the API server refuses by itself."""
    victim, attacker = Team(place, place.namespace()), Team(place, place.namespace())
    taken: dict[str, str] = {}
    handles = []
    with place.running(place.controller()):
        victim.data()
        attacker.data()
        quiet = come_and_go(victim, GA)
        for dialect in BOTH:
            for number in range(SNAPSHOTS):
                path, record = attacker.taken(dialect, f"{dialect.name}-{number}")
                taken[path] = record
                handles.append(Path(dialect.handle(attacker.get(record))))
    api, refused = tenant(attacker), 0
    for path in taken:
        body = attacker.get(path)
        assert GUARD in body["metadata"]["finalizers"]
        words = ("metadata.finalizers: ullage.io/guard stays", "delete the VolumeSnapshot", "kubectl delete", POLICY)
        for answer in (strip(api, path), strip(api, path, keep=["example.com/mine"])):
            assert answer.startswith("403 "), answer
            assert all(word in answer for word in words), answer
            refused += 1
        bare = {**body, "metadata": {**body["metadata"], "finalizers": []}}
        assert api.call("PUT", path, bare).code == 403
        assert strip(api, path, keep=[GUARD]) == "", "the finalizers of others are not ours to keep"
        api.delete(path)
        assert strip(api, path).startswith("403 "), "nor while it goes"
        refused += 2
    if with_namespace:
        place.api.delete(f"/api/v1/namespaces/{attacker.namespace}")
    assert not any(attacker.gone(path) for path in taken)
    with place.running(place.controller()):
        began = time.monotonic()
        busy = come_and_go(victim, GA)
        assert busy < SLOWEST
        eventually("all snapshots are gone", lambda: all(map(attacker.gone, taken)))
        waited = time.monotonic() - began
        assert all(map(attacker.gone, taken.values())), "the records go first"
        assert not any(handle.exists() for handle in handles)
        if with_namespace:
            eventually("the namespace is gone", lambda: attacker.gone(f"/api/v1/namespaces/{attacker.namespace}"))
    print(
        f"{refused} tries were refused, all {len(taken)} gone after {waited:.1f} s; a victim waited {quiet:.1f}, {busy:.1f} s"
    )


def test_an_administrator_gets_out_as_the_refusal_says_where_ullage_is_gone_for_good(place: Scene) -> None:
    """First the tenant is refused, then the binding is deleted, as the refusal says."""
    attacker = Team(place, place.namespace())
    with place.running(place.controller()):
        attacker.data()
        path, record = attacker.taken(GA, "kept")
    api, binding = tenant(attacker), attacker.get(BINDING)
    api.delete(path)
    assert "kubectl delete validatingadmissionpolicybindings" in strip(api, path)
    try:
        place.api.delete(BINDING)
        eventually("it can be taken off", lambda: attacker.gone(path) or not strip(api, path))
        assert attacker.gone(path)
    finally:
        made = {"metadata": {"name": POLICY, "labels": binding["metadata"].get("labels", {})}, "spec": binding["spec"]}
        place.api.create(BINDING.rpartition("/")[0], made)
    with place.running(place.controller()):
        eventually("the record is gone", lambda: attacker.gone(record), seconds=GONE)


@pytest.mark.parametrize("runs", [False, True], ids=["no controller runs", "a controller runs all the while"])
def test_an_uninstall_takes_the_guard_off_and_no_other_finalizer(tmp_path: Path, runs: bool) -> None:
    """On a control plane of its own: nothing of Ullage is left there to let a snapshot go."""
    with scene(tmp_path) as own, own.running(own.world()):
        team = Team(own, own.namespace())
        before: dict[str, list[str]] = {}
        with contextlib.ExitStack() as stack:
            stack.enter_context(own.running(own.controller()))
            team.data()
            for dialect in BOTH:
                path, _ = team.taken(dialect, dialect.name)
                own.api.merge(path, {"metadata": {"finalizers": [*team.get(path)["metadata"]["finalizers"], OTHERS]}})
                before[path] = team.get(path)["metadata"]["finalizers"]
            assert all(GUARD in finalizers for finalizers in before.values())
            if not runs:
                stack.close()
            command = [sys.executable, "-m", "ullage", "uninstall", "--yes", "--kubeconfig", str(own.plane.kubeconfig)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        for path, finalizers in before.items():
            assert team.get(path)["metadata"]["finalizers"] == [one for one in finalizers if one != GUARD]
            own.api.merge(path, {"metadata": {"finalizers": None}})
            own.api.delete(path)
            assert team.gone(path), "the policy is gone, too"
