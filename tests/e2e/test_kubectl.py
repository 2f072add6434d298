"""kubectl against the control plane: what a person types, what a person sees."""

# ruff: noqa: E501 - error texts stand as they are printed

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .api import Api
from .kinds import ROOT_CA, configmap, deployment, gauge, pod
from .kubectl import Kubectl


@pytest.fixture(scope="session")
def kubectl_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kubectl")


@pytest.fixture
def kubectl(api: Api, namespace: str, kubectl_home: Path) -> Kubectl:
    return Kubectl(api.plane, namespace=namespace, home=kubectl_home)


# --- reading ---------------------------------------------------------------------------------------------------------


def test_version_names_client_and_server(kubectl: Kubectl) -> None:
    found = kubectl("version", "-o", "json").json
    assert found["serverVersion"]["major"] == "1"
    assert found["serverVersion"]["gitVersion"].startswith("v1.")


def test_get_prints_a_table_of_built_ins(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=pod("web"))
    ran = kubectl("get", "pods")
    assert ran.lines[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert ran.row("web")[1:4] == ["0/1", "Pending", "0"]


def test_get_wide_prints_more_columns(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=pod("web"))
    header = kubectl("get", "pods", "-o", "wide").lines[0]
    assert header.split()[5:] == ["IP", "NODE", "NOMINATED", "NODE", "READINESS", "GATES"]


@pytest.mark.parametrize(
    ("resource", "header"),
    [
        pytest.param("configmaps", ["NAME", "DATA", "AGE"], id="config maps show their size"),
        pytest.param("deployments", ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"], id="deployments show replicas"),
    ],
)
def test_get_prints_the_columns_of_the_kind(kubectl: Kubectl, resource: str, header: list[str]) -> None:
    kubectl("create", "-f", "-", stdin=configmap("a", {"k": "v"}))
    kubectl("create", "-f", "-", stdin=deployment("a"))
    assert kubectl("get", resource).lines[0].split() == header


def test_get_prints_the_columns_of_a_definition(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=gauge("a", capacity=7, label="north"))
    plain = kubectl("get", "gauges")
    assert plain.lines[0].split() == ["NAME", "CAPACITY", "MODE", "READY", "AGE"]
    assert plain.row("a")[:3] == ["a", "7", "Loose"]
    wide = kubectl("get", "gauges", "-o", "wide")
    assert wide.lines[0].split() == ["NAME", "CAPACITY", "MODE", "READY", "LABEL", "AGE"]
    assert "north" in wide.row("a")


@pytest.mark.parametrize("word", ["gauge", "gauges", "ga", "gauges.e2e.example.com", "gauges.v1beta1.e2e.example.com"])
def test_get_finds_a_kind_by_every_name_it_has(kubectl: Kubectl, word: str) -> None:
    kubectl("create", "-f", "-", stdin=gauge("a"))
    assert kubectl("get", word, "-o", "name").lines == ["gauge.e2e.example.com/a"]


def test_get_a_category_prints_its_kinds(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=gauge("a"))
    kubectl("create", "-f", "-", stdin=pod("web"))
    assert kubectl("get", "all", "-o", "name").lines == ["pod/web"]
    assert kubectl("get", "tanks.e2e.example.com,gauges", "-o", "name").lines[-1:] == ["gauge.e2e.example.com/a"]


def test_get_nothing_says_so(kubectl: Kubectl) -> None:
    assert kubectl("get", "pods").err == f"No resources found in {kubectl.namespace} namespace.\n"


def test_output_formats(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=gauge("a", capacity=7, ports=[{"name": "x", "number": 1}]))
    assert kubectl("get", "ga", "a", "-o", "name").out == "gauge.e2e.example.com/a\n"
    assert kubectl("get", "ga", "a", "-o", "jsonpath={.spec.capacity} {.spec.ports[*].protocol}").out == "7 TCP"
    columns = kubectl("get", "ga", "-o", "custom-columns=N:.metadata.name,C:.spec.capacity").lines
    assert [line.split() for line in columns] == [["N", "C"], ["a", "7"]]
    assert kubectl("get", "ga", "a", "-o", "go-template={{.spec.mode}}").out == "Loose"
    assert kubectl("get", "ga", "a", "-o", "json").json["spec"]["capacity"] == 7
    text = kubectl("get", "ga", "a", "-o", "yaml").out
    assert text.startswith("apiVersion: e2e.example.com/v1\nkind: Gauge\n")
    assert "managedFields" not in text
    assert "managedFields" in kubectl("get", "ga", "a", "-o", "yaml", "--show-managed-fields").out


def test_selectors_and_chunks(kubectl: Kubectl) -> None:
    for name, tier in (("a", "hot"), ("b", "cold"), ("c", "hot")):
        kubectl("create", "-f", "-", stdin=configmap(name, labels={"tier": tier}))
    assert kubectl("get", "cm", "-l", "tier=hot", "-o", "name").lines == ["configmap/a", "configmap/c"]
    assert kubectl("get", "cm", "-l", "tier,tier notin (hot)", "-o", "name").lines == ["configmap/b"]
    assert kubectl("get", "cm", "--field-selector", "metadata.name=b", "-o", "name").lines == ["configmap/b"]
    assert kubectl("get", "cm", "--chunk-size", "1", "-l", "tier", "-o", "name").lines == [
        "configmap/a",
        "configmap/b",
        "configmap/c",
    ]
    header = kubectl("get", "cm", "-L", "tier").lines[0].split()
    assert header == ["NAME", "DATA", "AGE", "TIER"]
    assert kubectl("get", "cm", "--sort-by", "{.metadata.name}", "--no-headers").lines[0].split()[0] == "a"
    assert kubectl("get", "cm", "-A", "--field-selector", f"metadata.namespace={kubectl.namespace}", "-o", "name").lines[0]


def test_get_raw(kubectl: Kubectl) -> None:
    assert kubectl("get", "--raw", "/readyz").out == "ok"
    assert kubectl("get", "--raw", f"/api/v1/namespaces/{kubectl.namespace}").json["kind"] == "Namespace"


def test_describe_a_built_in(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=configmap("a", {"key": "value"}, labels={"x": "y"}))
    text = kubectl("describe", "configmap", "a").out
    assert "Name:         a" in text
    assert "Labels:       x=y" in text
    assert "key:\n----\nvalue" in text
    kubectl("create", "-f", "-", stdin=pod("web"))
    assert "Status:" in kubectl("describe", "pod", "web").out
    kubectl("create", "-f", "-", stdin=deployment("web"))
    assert "StrategyType:           RollingUpdate" in kubectl("describe", "deployment", "web").out


def test_describe_a_custom_object(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=gauge("a", capacity=7))
    text = kubectl("describe", "gauge", "a").out
    assert "API Version:  e2e.example.com/v1" in text
    assert "Capacity:  7" in text
    assert "Events:" in text


def test_describe_shows_events_of_the_object(kubectl: Kubectl, api: Api) -> None:
    made = api.create(f"/apis/e2e.example.com/v1/namespaces/{kubectl.namespace}/gauges", gauge("a"))
    involved = {"apiVersion": "e2e.example.com/v1", "kind": "Gauge", "name": "a", "namespace": kubectl.namespace}
    event = {
        "metadata": {"name": "a.1"},
        "involvedObject": {**involved, "uid": made["metadata"]["uid"]},
        "reason": "Filled",
        "message": "the tank is full",
        "type": "Normal",
        "firstTimestamp": made["metadata"]["creationTimestamp"],
        "lastTimestamp": made["metadata"]["creationTimestamp"],
        "count": 1,
    }
    api.create(f"/api/v1/namespaces/{kubectl.namespace}/events", event)
    assert "the tank is full" in kubectl("describe", "gauge", "a").out
    listed = kubectl("get", "events")
    assert listed.lines[0].split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert "gauge/a" in listed.out
    assert "the tank is full" in kubectl("events").out


def test_explain_a_built_in(kubectl: Kubectl) -> None:
    text = kubectl("explain", "deployment.spec.strategy").out
    assert "KIND:       Deployment" in text
    assert "FIELD: strategy <DeploymentStrategy>" in text
    assert "rollingUpdate" in text
    assert "containers\t<[]Container> -required-" in kubectl("explain", "pod.spec", "--recursive").out


def test_explain_a_definition(kubectl: Kubectl) -> None:
    text = kubectl("explain", "gauge").out
    assert "GROUP:      e2e.example.com" in text
    assert "Gauge measures how full a tank is." in text
    field = kubectl("explain", "gauge.spec.capacity").out
    assert "FIELD: capacity <integer>" in field
    assert "How much fits into the tank." in field
    deep = kubectl("explain", "gauge.spec", "--recursive").out
    assert "capacity\t<integer> -required-" in deep
    assert "ports\t<[]Object>" in deep
    assert "ENUM:\n    Strict\n    Loose\n" in kubectl("explain", "gauge.spec.mode").out
    assert 'field "nothing" does not exist' in kubectl.fails("explain", "gauge.spec.nothing")


def test_api_resources_and_versions(kubectl: Kubectl) -> None:
    listed = kubectl("api-resources", "--api-group", "e2e.example.com", "--no-headers", "-o", "wide")
    cells = listed.row("gauges")
    assert cells[:5] == ["gauges", "ga", "e2e.example.com/v1", "true", "Gauge"]
    assert set(cells[5].split(",")) == {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
    assert cells[6] == "tanks"
    names = kubectl("api-resources", "--namespaced=false", "-o", "name").lines
    assert {"namespaces", "nodes", "tanks.e2e.example.com", "clusterroles.rbac.authorization.k8s.io"} <= set(names)
    assert {"v1", "apps/v1", "e2e.example.com/v1", "e2e.example.com/v1beta1"} <= set(kubectl("api-versions").lines)


# --- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "kind", "answer"),
    [
        pytest.param(("deployment", "x", "--image=i:1", "--replicas=2"), "deployment", "deployment.apps/x", id="deployment"),
        pytest.param(("configmap", "x", "--from-literal=k=v"), "configmap", "configmap/x", id="config map"),
        pytest.param(("secret", "generic", "x", "--from-literal=k=v"), "secret", "secret/x", id="secret"),
        pytest.param(("serviceaccount", "x"), "serviceaccount", "serviceaccount/x", id="service account"),
        pytest.param(("role", "x", "--verb=get", "--resource=pods"), "role", "role.rbac.authorization.k8s.io/x", id="role"),
        pytest.param(
            ("rolebinding", "x", "--role=x", "--user=u"),
            "rolebinding",
            "rolebinding.rbac.authorization.k8s.io/x",
            id="role binding",
        ),
        pytest.param(("quota", "x", "--hard=pods=5,requests.storage=1Ti"), "quota", "resourcequota/x", id="quota"),
        pytest.param(("job", "x", "--image=i:1"), "job", "job.batch/x", id="job"),
        pytest.param(("cronjob", "x", "--image=i:1", "--schedule=* * * * *"), "cronjob", "cronjob.batch/x", id="cron job"),
        pytest.param(("service", "clusterip", "x", "--clusterip=None"), "service", "service/x", id="headless service"),
        pytest.param(("ingress", "x", "--rule=h/p=s:80"), "ingress", "ingress.networking.k8s.io/x", id="ingress"),
        pytest.param(
            ("poddisruptionbudget", "x", "--selector=a=b", "--min-available=1"),
            "pdb",
            "poddisruptionbudget.policy/x",
            id="budget",
        ),
    ],
)
def test_create_makes_what_it_says(kubectl: Kubectl, args: tuple[str, ...], kind: str, answer: str) -> None:
    assert kubectl("create", *args).out == f"{answer} created\n"
    assert kubectl("get", kind, "x", "-o", "name").out == f"{answer}\n"
    assert kubectl("describe", kind, "x").out


def test_create_cluster_scoped(kubectl: Kubectl) -> None:
    name = f"x-{kubectl.namespace}"
    try:
        assert kubectl("create", "namespace", name).out == f"namespace/{name} created\n"
        kubectl("create", "clusterrole", name, "--verb=get", "--resource=nodes")
        kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", "--user=u")
        kubectl("create", "priorityclass", name, "--value=5")
        assert kubectl("get", "priorityclass", name, "--no-headers").row(name)[1] == "5"
    finally:
        kubectl("delete", f"ns/{name}", f"clusterrole/{name}", f"clusterrolebinding/{name}", f"pc/{name}", "--wait=false")


def test_create_token(kubectl: Kubectl) -> None:
    kubectl("create", "serviceaccount", "robot")
    token = kubectl("create", "token", "robot", "--duration=20m").out.strip()
    assert token.count(".") == 2
    who = kubectl("--token", token, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}").out
    assert who == f"system:serviceaccount:{kubectl.namespace}:robot"


def test_apply_creates_configures_and_leaves(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", stdin=gauge("a")).out == "gauge.e2e.example.com/a created\n"
    assert kubectl("apply", "-f", "-", stdin=gauge("a")).out == "gauge.e2e.example.com/a unchanged\n"
    assert kubectl("apply", "-f", "-", stdin=gauge("a", capacity=11)).out == "gauge.e2e.example.com/a configured\n"
    found = kubectl("get", "ga", "a", "-o", "json").json
    assert found["spec"]["capacity"] == 11
    assert '"capacity":11' in found["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
    assert "capacity: 11" in kubectl("apply", "view-last-applied", "gauge", "a").out


def test_apply_removes_what_is_no_longer_said(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=configmap("a", {"one": "1", "two": "2"}))
    kubectl("patch", "cm", "a", "--type=merge", "-p", '{"data":{"other":"3"}}')
    kubectl("apply", "-f", "-", stdin=configmap("a", {"one": "1"}))
    assert kubectl("get", "cm", "a", "-o", "json").json["data"] == {"one": "1", "other": "3"}


def test_apply_merges_lists_of_built_ins(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=deployment("web"))
    kubectl("set", "env", "deployment/web", "X=1")
    changed = deployment("web", replicas=5)
    assert kubectl("apply", "-f", "-", stdin=changed).out == "deployment.apps/web configured\n"
    found = kubectl("get", "deployment", "web", "-o", "json").json["spec"]
    assert found["replicas"] == 5
    assert found["template"]["spec"]["containers"][0]["env"] == [{"name": "X", "value": "1"}]


def test_apply_a_directory_of_yaml(kubectl: Kubectl, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n---\n# nothing\n---\n")
    (tmp_path / "two.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: two}\ndata: {k: 'v'}\n")
    assert kubectl("apply", "-f", str(tmp_path)).lines == ["configmap/one created", "configmap/two created"]
    assert kubectl("delete", "-f", str(tmp_path)).lines[0].startswith('configmap "one" deleted')


def test_server_side_apply_and_its_conflicts(kubectl: Kubectl) -> None:
    assert kubectl("apply", "--server-side", "-f", "-", stdin=gauge("a")).out == "gauge.e2e.example.com/a serverside-applied\n"
    other = ("apply", "--server-side", "--field-manager=other", "-f", "-")
    error = kubectl.fails(*other, stdin=gauge("a", capacity=50))
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .spec.capacity' in error
    assert "--force-conflicts" in error
    kubectl(*other, "--force-conflicts", stdin=gauge("a", capacity=50))
    assert kubectl("get", "ga", "a", "-o", "jsonpath={.spec.capacity}").out == "50"


def test_client_side_then_server_side_apply(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=configmap("a", {"k": "1"}))
    kubectl("apply", "--server-side", "-f", "-", stdin=configmap("a", {"k": "2"}))
    assert kubectl("get", "cm", "a", "-o", "jsonpath={.data.k}").out == "2"


def test_dry_runs_store_nothing(kubectl: Kubectl) -> None:
    on_server = kubectl("apply", "--dry-run=server", "-f", "-", stdin=gauge("a"))
    assert on_server.out == "gauge.e2e.example.com/a created (server dry run)\n"
    assert kubectl("create", "--dry-run=server", "-o", "jsonpath={.spec.mode}", "-f", "-", stdin=gauge("a")).out == "Loose"
    assert (
        kubectl("apply", "--dry-run=client", "-f", "-", stdin=gauge("a")).out == "gauge.e2e.example.com/a created (dry run)\n"
    )
    assert kubectl("get", "ga", "-o", "name").out == ""
    assert "should be greater than or equal to 1" in kubectl.fails(
        "apply", "--dry-run=server", "-f", "-", stdin=gauge("a", capacity=0)
    )


def test_diff_shows_what_would_change(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=gauge("a"))
    assert kubectl.run("diff", "-f", "-", stdin=gauge("a")).code == 0
    changed = kubectl.run("diff", "-f", "-", stdin=gauge("a", capacity=11))
    assert changed.code == 1
    assert "-  capacity: 10" in changed.out
    assert "+  capacity: 11" in changed.out
    server = kubectl.run("diff", "--server-side", "--force-conflicts", "-f", "-", stdin=gauge("a", capacity=12))
    assert server.code == 1
    assert "+  capacity: 12" in server.out


def test_edit_changes_the_object(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("create", "-f", "-", stdin=gauge("a"))
    kubectl("create", "-f", "-", stdin=configmap("m", {"k": "10"}))
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import pathlib, sys\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "text = path.read_text()\n"
        "path.write_text(text.replace('capacity: 10', 'capacity: 12').replace('k: \"10\"', 'k: \"12\"'))\n"
    )
    env = {"KUBE_EDITOR": f"{sys.executable} {editor}"}
    assert kubectl("edit", "gauge", "a", env=env).out == "gauge.e2e.example.com/a edited\n"
    assert kubectl("get", "ga", "a", "-o", "jsonpath={.spec.capacity}").out == "12"
    assert kubectl("edit", "cm", "m", env=env).out == "configmap/m edited\n"
    assert "no changes made" in kubectl("edit", "cm", "m", env=env).err


def test_patch_of_every_type(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=deployment("web"))
    kubectl("create", "-f", "-", stdin=gauge("a"))
    assert kubectl("patch", "deployment", "web", "-p", '{"spec":{"replicas":3}}').out == "deployment.apps/web patched\n"
    assert (
        kubectl("patch", "deployment", "web", "-p", '{"spec":{"replicas":3}}').out
        == "deployment.apps/web patched (no change)\n"
    )
    kubectl("patch", "ga", "a", "--type=merge", "-p", '{"spec":{"capacity":3}}')
    kubectl("patch", "ga", "a", "--type=json", "-p", '[{"op":"add","path":"/spec/tags","value":["x"]}]')
    kubectl("patch", "ga", "a", "--subresource=status", "--type=merge", "-p", '{"status":{"level":2}}')
    found = kubectl("get", "ga", "a", "-o", "json").json
    assert (found["spec"]["capacity"], found["spec"]["tags"], found["status"]) == (3, ["x"], {"level": 2})


def test_label_and_annotate(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=gauge("a"))
    assert kubectl("label", "ga", "a", "tier=hot").out == "gauge.e2e.example.com/a labeled\n"
    assert "--overwrite is false" in kubectl.fails("label", "ga", "a", "tier=cold")
    kubectl("label", "ga", "a", "tier=cold", "--overwrite")
    kubectl("annotate", "ga", "a", "example.com/x=y")
    found = kubectl("get", "ga", "a", "-o", "json").json["metadata"]
    assert (found["labels"], found["annotations"]) == ({"tier": "cold"}, {"example.com/x": "y"})
    assert kubectl("label", "ga", "a", "tier-").out == "gauge.e2e.example.com/a unlabeled\n"
    assert "consist of alphanumeric characters" in kubectl.fails("label", "ga", "a", "tier=not plain")


def test_scale(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=deployment("web"))
    kubectl("create", "-f", "-", stdin=gauge("a"))
    assert kubectl("scale", "deployment/web", "--replicas=4").out == "deployment.apps/web scaled\n"
    assert kubectl("scale", "gauge/a", "--replicas=4").out == "gauge.e2e.example.com/a scaled\n"
    assert kubectl("get", "ga", "a", "-o", "jsonpath={.spec.replicas}").out == "4"
    assert "Expected replicas to be 9, was 4" in kubectl.fails(
        "scale", "deployment/web", "--current-replicas=9", "--replicas=1"
    )


def test_replace(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=gauge("a"))
    found = kubectl("get", "ga", "a", "-o", "json").json
    found["spec"]["capacity"] = 33
    assert kubectl("replace", "-f", "-", stdin=found).out == "gauge.e2e.example.com/a replaced\n"
    assert "the object has been modified" in kubectl.fails("replace", "-f", "-", stdin={**found, "spec": {"capacity": 44}})
    kubectl("replace", "--force", "-f", "-", stdin=configmap("new"))


def test_set_image_and_rollout_fields(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=deployment("web"))
    assert kubectl("set", "image", "deployment/web", "main=new:2").out == "deployment.apps/web image updated\n"
    kubectl("rollout", "restart", "deployment/web")
    spec = kubectl("get", "deployment", "web", "-o", "json").json["spec"]["template"]
    assert spec["spec"]["containers"][0]["image"] == "new:2"
    assert "kubectl.kubernetes.io/restartedAt" in spec["metadata"]["annotations"]


# --- deleting and waiting --------------------------------------------------------------------------------------------


def test_delete_by_name_file_and_selector(kubectl: Kubectl) -> None:
    for name in ("a", "b", "c"):
        kubectl("create", "-f", "-", stdin=configmap(name, labels={"tier": name}))
    assert kubectl("delete", "cm", "a").out.startswith('configmap "a" deleted')
    assert kubectl("delete", "-f", "-", stdin=configmap("b")).out.startswith('configmap "b" deleted')
    assert kubectl("delete", "cm", "-l", "tier=c").out.startswith('configmap "c" deleted')
    assert kubectl("delete", "cm", "a", "--ignore-not-found").out == ""
    assert 'configmaps "a" not found' in kubectl.fails("delete", "cm", "a")
    kubectl("create", "-f", "-", stdin=gauge("a"))
    kubectl("delete", "ga", "--all")
    assert kubectl("get", "ga", "-o", "name").out == ""


def test_delete_in_the_foreground_takes_dependents_first(kubectl: Kubectl, api: Api) -> None:
    maps = f"/api/v1/namespaces/{kubectl.namespace}/configmaps"
    owner = api.create(maps, configmap("owner"))
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    api.create(maps, configmap("child", ownerReferences=[reference]))
    kubectl("delete", "cm", "owner", "--cascade=foreground", "--timeout=30s")
    assert kubectl("get", "cm", "-o", "name").lines == [f"configmap/{ROOT_CA}"]


def test_delete_orphans_dependents_when_asked(kubectl: Kubectl, api: Api) -> None:
    maps = f"/api/v1/namespaces/{kubectl.namespace}/configmaps"
    owner = api.create(maps, configmap("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    api.create(maps, configmap("child", ownerReferences=[reference]))
    kubectl("delete", "cm", "owner", "--cascade=orphan", "--timeout=30s")
    child = kubectl("get", "cm", "child", "-o", "json").json
    assert "ownerReferences" not in child["metadata"]


def test_background_deletion_collects_dependents(kubectl: Kubectl, api: Api) -> None:
    maps = f"/api/v1/namespaces/{kubectl.namespace}/configmaps"
    owner = api.create(maps, configmap("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    api.create(maps, configmap("child", ownerReferences=[reference]))
    kubectl("delete", "cm", "owner")
    kubectl("wait", "--for=delete", "cm/child", "--timeout=30s")


def test_delete_a_namespace_with_content(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=gauge("a"))
    kubectl("create", "-f", "-", stdin=deployment("web"))
    kubectl("delete", "namespace", kubectl.namespace, "--timeout=100s")
    assert "NotFound" in kubectl.fails("get", "namespace", kubectl.namespace)


@pytest.fixture
def background(kubectl: Kubectl) -> Iterator[list[subprocess.Popen[str]]]:
    """kubectls that run beside the test; ended with it."""
    running: list[subprocess.Popen[str]] = []
    yield running
    for process in running:
        process.kill()
        process.communicate()


def start(kubectl: Kubectl, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        kubectl.command(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=kubectl.environment()
    )


def test_wait_for_a_condition_a_value_and_a_deletion(kubectl: Kubectl, background: list[subprocess.Popen[str]]) -> None:
    kubectl("create", "-f", "-", stdin=gauge("a"))
    assert "timed out waiting" in kubectl.fails("wait", "ga/a", "--for=condition=Ready", "--timeout=1s")
    waits = [
        start(kubectl, "wait", "ga/a", "--for=condition=Ready", "--timeout=30s"),
        start(kubectl, "wait", "ga/a", "--for=jsonpath={.status.level}=5", "--timeout=30s"),
    ]
    background += waits
    status = '{"status":{"level":5,"conditions":[{"type":"Ready","status":"True"}]}}'
    kubectl("patch", "ga", "a", "--subresource=status", "--type=merge", "-p", status)
    assert [process.communicate(timeout=40)[0] for process in waits] == ["gauge.e2e.example.com/a condition met\n"] * 2
    gone = start(kubectl, "wait", "ga/a", "--for=delete", "--timeout=30s")
    background.append(gone)
    kubectl("delete", "ga", "a")
    gone.communicate(timeout=40)
    assert gone.returncode == 0


def test_a_watch_prints_changes_as_rows(kubectl: Kubectl, background: list[subprocess.Popen[str]]) -> None:
    kubectl("create", "-f", "-", stdin=gauge("a", capacity=1))
    watching = start(kubectl, "get", "ga", "-w", "--output-watch-events")
    background.append(watching)
    assert watching.stdout is not None
    assert watching.stdout.readline().split() == ["EVENT", "NAME", "CAPACITY", "MODE", "READY", "AGE"]
    assert watching.stdout.readline().split()[:3] == ["ADDED", "a", "1"]
    kubectl("patch", "ga", "a", "--type=merge", "-p", '{"spec":{"capacity":2}}')
    assert watching.stdout.readline().split()[:3] == ["MODIFIED", "a", "2"]
    kubectl("delete", "ga", "a")
    assert watching.stdout.readline().split()[:3] == ["DELETED", "a", "2"]


def test_wait_for_a_definition_to_be_served(kubectl: Kubectl) -> None:
    kubectl("wait", "crd/gauges.e2e.example.com", "--for=condition=Established", "--timeout=10s")
    listed = kubectl("get", "crd", "gauges.e2e.example.com")
    assert listed.lines[0].split() == ["NAME", "CREATED", "AT"]


# --- who may ---------------------------------------------------------------------------------------------------------


def test_auth_can_i(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "gauges.e2e.example.com").out == "yes\n"
    robot = f"system:serviceaccount:{kubectl.namespace}:robot"
    refused = kubectl.run("auth", "can-i", "list", "pods", "--as", robot)
    assert (refused.code, refused.out) == (1, "no\n")
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods")
    kubectl("create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={kubectl.namespace}:robot")
    deadline = time.monotonic() + 10
    while kubectl.run("auth", "can-i", "list", "pods", "--as", robot).out != "yes\n":
        assert time.monotonic() < deadline
    listed = kubectl("auth", "can-i", "--list", "--as", robot)
    assert ["pods", "[]", "[]", "[get", "list]"] in [line.split() for line in listed.lines]


def test_auth_whoami(kubectl: Kubectl) -> None:
    assert "system:masters" in kubectl("auth", "whoami").out
    as_robot = kubectl("auth", "whoami", "--as", "robot", "--as-group", "g", "-o", "json").json["status"]["userInfo"]
    assert (as_robot["username"], as_robot["groups"]) == ("robot", ["g", "system:authenticated"])


def test_a_refusal_is_told_in_full(kubectl: Kubectl) -> None:
    robot = f"system:serviceaccount:{kubectl.namespace}:robot"
    assert kubectl.fails("get", "pods", "--as", robot) == (
        f'Error from server (Forbidden): pods is forbidden: User "{robot}" cannot list resource "pods" '
        f'in API group "" in the namespace "{kubectl.namespace}"\n'
    )


# --- the errors that people meet -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "stdin", "error"),
    [
        pytest.param(
            ("get", "cm", "x"), None, 'Error from server (NotFound): configmaps "x" not found\n', id="a missing object"
        ),
        pytest.param(("get", "x"), None, 'error: the server doesn\'t have a resource type "x"\n', id="a missing kind"),
        pytest.param(
            ("create", "-f", "-"),
            gauge("a", capacity=0),
            'The Gauge "a" is invalid: spec.capacity: Invalid value: 0: spec.capacity in body should be greater than or equal to 1\n',
            id="a value out of bounds",
        ),
        pytest.param(
            ("create", "-f", "-"),
            gauge("a", low=5, high=1),
            'The Gauge "a" is invalid: spec: Invalid value: low must not be above high\n',
            id="a rule that fails",
        ),
        pytest.param(
            ("create", "-f", "-"),
            gauge("a", colour="red"),
            'Error from server (BadRequest): error when creating "STDIN": Gauge in version "v1" cannot be handled as a Gauge: '
            'strict decoding error: unknown field "spec.colour"\n',
            id="an unknown field",
        ),
        pytest.param(
            ("create", "-f", "-"),
            {"apiVersion": "e2e.example.com/v9", "kind": "Gauge", "metadata": {"name": "a"}},
            'error: resource mapping not found for name: "a" namespace: "" from "STDIN": no matches for kind "Gauge" in version '
            '"e2e.example.com/v9"\nensure CRDs are installed first\n',
            id="an unknown version",
        ),
        pytest.param(
            ("create", "configmap", "Capital"),
            None,
            'error: failed to create configmap: ConfigMap "Capital" is invalid: metadata.name: Invalid value: "Capital": '
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
            "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n",
            id="a bad name",
        ),
        pytest.param(
            ("get", "cm", "-l", "a in (b"),
            None,
            'Error from server (BadRequest): Unable to find "/v1, Resource=configmaps" that match label selector "a in (b", '
            "field selector \"\": unable to parse requirement: found '', expected: ',' or ')'\n",
            id="a bad selector",
        ),
    ],
)
def test_errors_as_people_see_them(kubectl: Kubectl, args: tuple[str, ...], stdin: object, error: str) -> None:
    assert kubectl.fails(*args, stdin=stdin) == error


def test_creating_twice_is_told(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "a")
    assert kubectl.fails("create", "configmap", "a") == 'error: failed to create configmap: configmaps "a" already exists\n'
    kubectl("create", "-f", "-", stdin=gauge("a"))
    error = kubectl.fails("create", "-f", "-", stdin=gauge("a"))
    assert (
        error == 'Error from server (AlreadyExists): error when creating "STDIN": gauges.e2e.example.com "a" already exists\n'
    )


def test_unknown_fields_of_built_ins_are_refused_before_anything_is_stored(kubectl: Kubectl) -> None:
    error = kubectl.fails("apply", "-f", "-", stdin={**configmap("a"), "colour": "red"})
    assert 'strict decoding error: unknown field "colour"' in error
    warned = kubectl("apply", "--validate=warn", "-f", "-", stdin={**configmap("a"), "colour": "red"})
    assert 'Warning: unknown field "colour"' in warned.err


# --- what nothing runs for ---------------------------------------------------------------------------------------------

NOTHING_RUNS = "nothing runs here, since this API server has no kubelets"


@pytest.mark.parametrize(
    ("node", "command", "sentence"),
    [
        pytest.param("", ("logs", "web"), "pod web has no log", id="logs"),
        pytest.param("n", ("logs", "web"), "pod web has no log", id="logs of a pod on a node"),
        pytest.param("", ("logs", "-f", "web"), "pod web has no log", id="logs that are followed", marks=pytest.mark.slow),
        pytest.param("", ("exec", "web", "--", "ls"), "pod web does not have a host assigned", id="exec"),
        pytest.param("n", ("exec", "web", "--", "ls"), "pod web cannot be reached", id="exec in a pod on a node"),
        pytest.param("", ("attach", "web"), "pod web does not have a host assigned", id="attach"),
        pytest.param("", ("cp", "web:/etc/hosts", "hosts"), "pod web does not have a host assigned", id="cp"),
    ],
)
def test_what_needs_a_kubelet_says_that_nothing_runs(
    kubectl: Kubectl, node: str, command: tuple[str, ...], sentence: str
) -> None:
    if not kubectl.embedded:
        pytest.skip("a cluster runs what it is given")
    made = pod("web")
    if node:
        made["spec"]["nodeName"] = node
    kubectl("create", "-f", "-", stdin=made)
    ran = kubectl.run(*command)
    assert ran.code != 0
    assert f"{sentence}: {NOTHING_RUNS}" in ran.err


@pytest.mark.parametrize("what", ["pods", "nodes"])
def test_top_says_that_nothing_runs(kubectl: Kubectl, what: str) -> None:
    if not kubectl.embedded:
        pytest.skip("a cluster measures what it runs, or knows no metrics at all")
    ran = kubectl.run("top", what)
    assert ran.code != 0
    assert ran.err == f"Error from server (NotFound): there are no metrics: {NOTHING_RUNS}\n"
