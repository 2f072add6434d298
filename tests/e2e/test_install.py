"""`ullage install`, `controller`, `webhook` and `uninstall` on a control plane of their own: they change the whole of it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import ullage

from . import sample_app
from .apart import IS_BORROWED, own_plane
from .api import Api
from .control_plane import ControlPlane

Json = dict[str, Any]
PROGRAM = (sys.executable, sample_app.__file__ or "")
SOURCE = Path(ullage.__file__).parents[1]
SECONDS = 60.0
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
BARRELS = "/apis/app.example.com/v1/namespaces/default/barrels"
OURS = "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dullage"
MERGE = {"Content-Type": "application/merge-patch+json"}
PLACES = (
    "/api/v1/namespaces",
    "/api/v1/namespaces/ullage-system/serviceaccounts",
    DEFINITIONS,
    f"{RBAC}/clusterroles",
    f"{RBAC}/clusterrolebindings",
    f"{RBAC}/namespaces/ullage-system/roles",
    f"{RBAC}/namespaces/ullage-system/rolebindings",
    f"{ADMISSION}/validatingadmissionpolicies",
    f"{ADMISSION}/validatingadmissionpolicybindings",
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
)

pytestmark = [pytest.mark.slow, pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster is not installed into")]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Not the one of the other tests: what is installed here would stand in their way."""
    with own_plane(tmp_path_factory.mktemp("install")) as found:
        yield found


@pytest.fixture(scope="module")
def root(plane: ControlPlane) -> Api:
    return Api(plane)


@pytest.fixture
def cluster(plane: ControlPlane, root: Api) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """The command, on a cluster that has nothing of ours, and has nothing of it afterwards."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*PROGRAM, *arguments, "--kubeconfig", str(plane.kubeconfig)]
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment(), check=False)

    yield run
    run("uninstall", "--yes")  # hooks that nobody answers would refuse the next lines
    for obj in (root.get(BARRELS).json or {}).get("items", ()):
        root.call("PATCH", f"{BARRELS}/{obj['metadata']['name']}", {"metadata": {"finalizers": None}}, headers=MERGE)
    run("uninstall", "--purge", "--yes")
    for name in ("casks.other.example.com", "barrels.app.example.com"):
        root.call("DELETE", f"{DEFINITIONS}/{name}")
        eventually(lambda name=name: root.get(f"{DEFINITIONS}/{name}").code == 404)  # type: ignore[misc]
    eventually(lambda: root.get("/api/v1/namespaces/ullage-system").code == 404)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "200"}


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def state(root: Api) -> dict[str, str]:
    """Every object of ours, and the version it has."""
    return {
        f"{place}/{obj['metadata']['name']}": obj["metadata"]["resourceVersion"]
        for place in PLACES
        for obj in root.get(f"{place}?{OURS}").obj.get("items", ())
    }


def lines(text: str, verb: str) -> list[str]:
    return [line.removeprefix(verb).strip() for line in text.splitlines() if line.startswith(f"{verb} ")]


def barrel(name: str, litres: int = 10) -> Json:
    return {"apiVersion": "app.example.com/v1", "kind": "Barrel", "metadata": {"name": name}, "spec": {"litres": litres}}


def foreign(*fields: str, labels: dict[str, str] | None = None) -> Json:
    """Somebody else's definition of casks, with these fields in its spec."""
    spec = {"type": "object", "properties": {field: {"type": "string"} for field in fields}}
    schema = {"type": "object", "properties": {"spec": spec}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "casks.other.example.com", "labels": labels or {}},
        "spec": {
            "group": "other.example.com",
            "scope": "Namespaced",
            "names": {"kind": "Cask", "plural": "casks"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


Run = Callable[..., subprocess.CompletedProcess[str]]


def test_the_first_install_creates_everything_and_the_second_writes_nothing(cluster: Run, root: Api) -> None:
    first = cluster("install")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "customresourcedefinition/barrels.app.example.com" in lines(first.stdout, "created")
    before = state(root)
    assert len(before) == len(lines(first.stdout, "created"))
    second = cluster("install")
    assert second.returncode == 0, second.stdout + second.stderr
    assert len(lines(second.stdout, "unchanged")) == len(before)
    assert not lines(second.stdout, "changed")
    assert state(root) == before


def test_a_dry_run_says_the_same_and_writes_nothing(cluster: Run, root: Api) -> None:
    dry = cluster("install", "--dry-run")
    assert dry.returncode == 0, dry.stdout + dry.stderr
    assert "(dry run: nothing was written)" in dry.stdout
    assert state(root) == {}
    assert lines(dry.stdout, "created") == lines(cluster("install").stdout, "created")


def test_what_it_prints_as_yaml_is_what_is_there_after_an_install(cluster: Run, root: Api) -> None:
    printed = list(yaml.safe_load_all(cluster("install", "-o", "yaml").stdout))
    assert state(root) == {}, "to print touches nothing"
    cluster("install")
    assert {(one["kind"], one["metadata"]["name"]) for one in printed} >= {
        ("Namespace", "ullage-system"),
        ("FlowSchema", "ullage"),
    }
    assert len(printed) == len(state(root))


def test_what_somebody_changed_is_put_right(cluster: Run, root: Api) -> None:
    cluster("install")
    path = f"{RBAC}/clusterroles/ullage:controller:barrels"
    wanted = root.get(path).obj["rules"]
    root.merge(path, {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]})
    done = cluster("install")
    assert lines(done.stdout, "changed") == ["clusterrole/ullage:controller:barrels"]
    assert root.get(path).obj["rules"] == wanted


@pytest.mark.parametrize(
    ("definition", "code", "told"),
    [
        pytest.param(
            foreign("owner"), 0, "left alone  customresourcedefinition/casks.other.example.com  (not ours; it has every field",
            id="one that has what is needed is left alone",
        ),
        pytest.param(
            foreign("owner", labels={"app.kubernetes.io/managed-by": "Helm"}), 0, "(managed by Helm; it has every field",
            id="whose it is is told",
        ),
        pytest.param(
            foreign("age"), 1, "(not ours, left as it is, but: v1: spec.owner is missing)",
            id="one that lacks a field is left alone and told of",
        ),
    ],
)  # fmt: skip
def test_a_definition_of_somebody_else_is_never_touched(
    cluster: Run, root: Api, definition: Json, code: int, told: str
) -> None:
    root.create(DEFINITIONS, definition)
    path = f"{DEFINITIONS}/casks.other.example.com"
    eventually(lambda: "storedVersions" in root.get(path).obj.get("status", {}) and established(root, path))
    before = root.get(path).obj
    done = cluster("install")
    assert (done.returncode, told in done.stdout) == (code, True), done.stdout
    assert cluster("uninstall", "--purge", "--yes").returncode == 0
    assert root.get(path).obj == before


def established(root: Api, path: str) -> bool:
    conditions = root.get(path).obj["status"].get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def test_a_kind_of_another_product_is_not_brought_along(cluster: Run, root: Api) -> None:
    done = cluster("install")
    assert "absent      customresourcedefinition/casks.other.example.com" in done.stdout
    assert root.get(f"{DEFINITIONS}/casks.other.example.com").code == 404


ACCESS = (
    ("controller", "watch", "app.example.com", "barrels", True),
    ("controller", "patch", "app.example.com", "barrels/status", True),
    ("controller", "delete", "app.example.com", "barrels", False),
    ("controller", "get", "", "secrets", False),
    ("webhook", "watch", "other.example.com", "casks", True),
    ("webhook", "patch", "app.example.com", "barrels", False),
    ("webhook", "list", "", "secrets", False),
    ("webhook", "create", "admissionregistration.k8s.io", "validatingwebhookconfigurations", False),
)


def test_the_identities_may_do_what_their_slice_says_and_no_more(cluster: Run, root: Api) -> None:
    cluster("install")
    assert [(*asked, allowed(root, *asked)) for *asked, _ in ACCESS] == list(ACCESS)


def allowed(root: Api, account: str, verb: str, group: str, resource: str) -> bool:
    plural, _, subresource = resource.partition("/")
    attributes = {"namespace": "default", "verb": verb, "group": group, "resource": plural, "subresource": subresource}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:ullage-system:{account}",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": attributes,
        },
    }
    return bool(root.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)["status"]["allowed"])


class Process:
    """`ullage controller` or `ullage webhook` as its own service account, read up to the point where it is ready."""

    def __init__(self, name: str, plane: ControlPlane, root: Api, *, directory: Path) -> None:
        self.log = directory / f"{name}.log"
        ready, theirs = os.pipe()
        port = "--metrics-port" if name == "controller" else "--port"
        command = [*PROGRAM, name, "--kubeconfig", str(login(name, plane, root, directory=directory)), port, "0"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--log-format", "json", "--ready-fd", str(theirs)], pass_fds=[theirs], stderr=log, env=environment()
            )
        os.close(theirs)
        with os.fdopen(ready) as told:
            assert select.select([told], [], [], SECONDS)[0], self.log.read_text()
            line = told.readline()
        assert line, self.log.read_text()
        self.port = int(json.loads(line)["port"])

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return str(answer.read().decode())

    def records(self) -> list[Json]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


def login(name: str, plane: ControlPlane, root: Api, *, directory: Path) -> Path:
    """A kubeconfig for one of our service accounts."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    answer = root.create(f"/api/v1/namespaces/ullage-system/serviceaccounts/{name}/token", request)
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": answer["status"]["token"]}
    path = directory / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
def start(plane: ControlPlane, root: Api, tmp_path: Path) -> Iterator[Callable[[str], Process]]:
    with contextlib.ExitStack() as stack:

        def begin(name: str) -> Process:
            found = Process(name, plane, root, directory=tmp_path)
            stack.callback(found.process.wait)
            stack.callback(found.process.kill)
            return found

        yield begin


def test_controllers_and_webhook_work_with_what_was_installed(cluster: Run, root: Api, start: Callable[[str], Process]) -> None:
    cluster("install")
    webhook, controller = start("webhook"), start("controller")
    eventually(lambda: root.call("POST", f"{BARRELS}?dryRun=All", barrel("huge", 201)).code == 403)
    refused = root.call("POST", BARRELS, barrel("huge", 201))
    assert "201 litres are more than 200, and there are 0 casks" in refused.message
    root.create(BARRELS, barrel("small"))
    eventually(lambda: root.get(f"{BARRELS}/small").obj.get("status") == {"litres": 10})
    eventually(lambda: 'ullage_reconcile_total{controller="barrels",result="done"}' in controller.get("/metrics"))
    assert "ullage_leading 1.0" in controller.get("/metrics")
    assert controller.get("/readyz") == "[+] cache barrels.app.example.com\n"
    assert controller.get("/healthz") == "ok\n"
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    eventually(lambda: any(one["reason"] == "Filled" for one in root.get(events).obj["items"]))
    for process, name in ((controller, "controller"), (webhook, "webhook")):
        process.process.send_signal(signal.SIGTERM)
        assert process.process.wait(SECONDS) == 0
        assert {record["component"] for record in process.records()} == {name}
        assert not [record for record in process.records() if record["level"] not in ("info", "debug")]
    lease = root.get("/apis/coordination.k8s.io/v1/namespaces/ullage-system/leases/ullage-controller").obj
    assert not lease["spec"].get("holderIdentity"), "given back at the end"


def test_who_loses_the_lease_stops_and_begins_anew_when_it_leads_again(
    cluster: Run, root: Api, start: Callable[[str], Process]
) -> None:
    cluster("install")
    controller = start("controller")
    lease = "/apis/coordination.k8s.io/v1/namespaces/ullage-system/leases/ullage-controller"
    root.create(BARRELS, barrel("before"))
    eventually(lambda: root.get(f"{BARRELS}/before").obj.get("status") == {"litres": 10})
    root.merge(lease, {"spec": {"holderIdentity": "somebody else", "leaseDurationSeconds": 3600}})
    eventually(lambda: "ullage_leading 0.0" in controller.get("/metrics"))
    assert controller.get("/readyz") == "[+] lease\n", "to stand by is to be ready"
    root.create(BARRELS, barrel("meanwhile"))
    root.merge(lease, {"spec": {"holderIdentity": ""}})
    eventually(lambda: root.get(f"{BARRELS}/meanwhile").obj.get("status") == {"litres": 10})
    assert "ullage_leading 1.0" in controller.get("/metrics")
    assert 'ullage_lease_total{event="lost"} 1.0' in controller.get("/metrics")


def test_our_requests_have_a_priority_level_of_their_own(cluster: Run, root: Api, plane: ControlPlane, tmp_path: Path) -> None:
    cluster("install")
    flow = root.get("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/ullage").obj
    if plane.embedded:
        pytest.skip("the embedded server serves one request after another")
    config = yaml.safe_load(login("controller", plane, root, directory=tmp_path).read_text())
    ours = Api(plane, token=config["users"][0]["user"]["token"])
    eventually(lambda: ours.get(BARRELS).headers["x-kubernetes-pf-flowschema-uid"] == flow["metadata"]["uid"])


def test_a_policy_is_in_force_without_any_process_and_goes_with_the_rest(cluster: Run, root: Api) -> None:
    cluster("install")
    root.create(BARRELS, barrel("kept"))
    change = {"metadata": {"annotations": {"app.example.com/poured": "1"}}}

    def refused() -> bool:
        return root.call("PATCH", f"{BARRELS}/kept?dryRun=All", change, headers=MERGE).code == 403

    eventually(refused)
    assert "told by the cooper alone" in root.call("PATCH", f"{BARRELS}/kept", change, headers=MERGE).obj["message"]
    done = cluster("uninstall", "--yes")
    assert "validatingadmissionpolicybinding/barrels-kept" in lines(done.stdout, "deleted")
    eventually(lambda: not refused())


def test_a_webhook_that_was_not_installed_says_so(plane: ControlPlane, cluster: Run) -> None:
    done = cluster("webhook", "--port", "0")
    assert done.returncode == 1
    assert "has `ullage install` been run on this cluster?" in done.stderr


def test_uninstall_takes_hooks_and_identities_and_leaves_the_data(
    cluster: Run, root: Api, start: Callable[[str], Process]
) -> None:
    cluster("install")
    webhook = start("webhook")
    root.create(BARRELS, barrel("kept"))
    done = cluster("uninstall", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines(done.stdout, "deleted")[0] == "validatingwebhookconfiguration/ullage", "before anything else"
    assert "customresourcedefinition/barrels.app.example.com  (with its objects; --purge deletes both)" in done.stdout
    assert root.get(f"{BARRELS}/kept").code == 200
    assert [path for path in state(root) if "customresourcedefinitions" not in path] == ["/api/v1/namespaces/ullage-system"]
    webhook.process.terminate()
    webhook.process.wait(SECONDS)
    root.create(BARRELS, barrel("more", 201))  # nobody is asked any more


def test_a_purge_waits_for_the_finalizers_and_names_who_holds_what(
    cluster: Run, root: Api, start: Callable[[str], Process]
) -> None:
    cluster("install")
    controller = start("controller")
    root.create(BARRELS, barrel("held"))
    eventually(lambda: bool(root.get(f"{BARRELS}/held").obj["metadata"].get("finalizers")))
    controller.process.terminate()
    controller.process.wait(SECONDS)
    stuck = cluster("uninstall", "--purge", "--yes", "--timeout", "0.1")
    assert stuck.returncode == 1
    assert "held by app.example.com/emptied; no controller runs" in stuck.stdout
    assert root.get(f"{DEFINITIONS}/barrels.app.example.com").code == 200, "a kind goes after its objects"
    start("controller")
    done = cluster("uninstall", "--purge", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert root.get(f"{DEFINITIONS}/barrels.app.example.com").code == 404
    eventually(lambda: state(root) == {})


def test_an_end_that_nobody_confirmed_is_refused(cluster: Run, root: Api) -> None:
    cluster("install")
    before = state(root)
    for arguments in ((), ("--purge",)):
        done = cluster("uninstall", *arguments)
        assert (done.returncode, done.stderr.startswith("ullage: --yes (absent): nobody can be asked here")) == (2, True)
    dry = cluster("uninstall", "--purge", "--dry-run")
    assert dry.returncode == 0
    assert "customresourcedefinition/barrels.app.example.com" in lines(dry.stdout, "deleted")
    assert state(root) == before


def test_a_person_is_shown_what_goes_and_asked(cluster: Run, root: Api, plane: ControlPlane) -> None:
    cluster("install")
    before = state(root)
    said, code = at_a_terminal([*PROGRAM, "uninstall", "--kubeconfig", str(plane.kubeconfig)], answer="n")
    assert code == 1
    assert said.startswith("This takes Ullage out of https://")
    assert "  delete      3 serviceaccounts: ullage-system/api, ullage-system/controller, ullage-system/webhook" in said
    assert "  left alone  customresourcedefinition/barrels.app.example.com  (with its objects; --purge deletes both)" in said
    assert "Go on? [y/N]: " in said
    assert "Aborted." in said
    assert state(root) == before
    said, code = at_a_terminal([*PROGRAM, "uninstall", "--kubeconfig", str(plane.kubeconfig)], answer="y")
    assert code == 0, said
    assert [path for path in state(root) if "serviceaccounts" in path] == []


def at_a_terminal(command: list[str], *, answer: str) -> tuple[str, int]:
    ours, theirs = os.openpty()
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment()) as process:
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        said = b""
        with contextlib.suppress(OSError):  # what a terminal says when everybody has left it
            while piece := os.read(ours, 4096):
                said += piece
        os.close(ours)
        code = process.wait(SECONDS)
    return said.decode().replace("\r\n", "\n").removeprefix(f"{answer}\n"), code
