"""The quota object on a whole control plane: what its schema and the webhook refuse, what they warn of, which limits come of
it, what its status says, and who may write it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from ullage.app.installer.installer import Installer
from ullage.app.installer.manifests import ROLE_TEMPLATES, user_roles
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.crds.definitions import crd_of
from ullage.space.api import ALLOW_ZERO, HARVESTER_QUOTAS, NAME
from ullage.space.roles import ADMIN, VIEWER
from ullage.space.slice import space
from ullage.vms.api.machines import VIRTUAL_MACHINES

from .apart import IS_BORROWED
from .api import Api
from .conftest import DEFINITIONS, wait_served
from .kubectl import Kubectl
from .snapshot_scene import GA, Scene, eventually, scene

pytestmark = pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has quotas of its own")

Json = dict[str, Any]
GI = 2**30
KIND = HARVESTER_QUOTAS
LIMIT = "spec.snapshotLimit"
VM_LIMITS = f"{LIMIT}.vmTotalSnapshotSizeQuota"
MERGE = {"Content-Type": "application/merge-patch+json"}
LEDGERS = "/apis/ullage.io/v1alpha1/namespaces/ullage-system/ledgers"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("quota")) as made:
        if made.api.get(VIRTUAL_MACHINES.path()).code == 404:
            made.api.create(DEFINITIONS, crd_of(VIRTUAL_MACHINES))
            wait_served(made.api, VIRTUAL_MACHINES.path())
        with made.running(made.webhook(), made.controller()):
            yield made


@pytest.fixture
def served(stage: Scene) -> Api:
    return stage.api


@pytest.fixture
def namespace(stage: Scene) -> str:
    return stage.namespace()


def quota(limit: Json, name: str = NAME) -> Json:
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": {"name": name},
        "spec": {"snapshotLimit": limit},
    }


@pytest.mark.parametrize(
    "limit",
    [
        pytest.param({}, id="none"),
        pytest.param({"namespaceTotalSnapshotSizeQuota": 10 * GI}, id="the namespace's"),
        pytest.param({"namespaceTotalSnapshotSizeQuota": 0}, id="zero, written out"),
        pytest.param({"namespaceTotalSnapshotSizeQuota": 2**63 - 1}, id="the most there is"),
        pytest.param({"vmTotalSnapshotSizeQuota": {"db-1.example": 1, "web": 0}}, id="two VMs'"),
        pytest.param({"vmTotalSnapshotSizeQuota": {f"vm-{n}": n for n in range(1000)}}, id="a thousand VMs'"),
    ],
)
def test_limits_that_can_be(served: Api, namespace: str, limit: Json) -> None:
    assert served.create(KIND.path(namespace), quota(limit))["spec"] == {"snapshotLimit": limit}


@pytest.mark.parametrize(
    ("limit", "field", "message"),
    [
        pytest.param(
            {"namespaceTotalSnapshotSizeQuota": -1},
            "spec.snapshotLimit.namespaceTotalSnapshotSizeQuota",
            "should be greater than or equal to 0",
            id="a negative limit of the namespace",
        ),
        pytest.param(
            {"vmTotalSnapshotSizeQuota": {"db": -1}},
            f"{VM_LIMITS}.db",
            "should be greater than or equal to 0",
            id="a negative limit of a VM",
        ),
        pytest.param(
            {"namespaceTotalSnapshotSizeQuota": "10Gi"},
            "spec.snapshotLimit.namespaceTotalSnapshotSizeQuota",
            "must be of type integer",
            id="a quantity where a number belongs",
        ),
        pytest.param({"vmTotalSnapshotSizeQuota": {"db": 0.5}}, f"{VM_LIMITS}.db", "must be of type int", id="half a byte"),
        pytest.param({"vmTotalSnapshotSizeQuota": {"db": 2**64}}, f"{VM_LIMITS}.db", "", id="more bytes than there can be"),
        pytest.param(
            {"vmTotalSnapshotSizeQuota": {"My VM": 1}}, VM_LIMITS, "names of virtual machines", id="a key that is no name"
        ),
        pytest.param(
            {"vmTotalSnapshotSizeQuota": {f"vm-{n}": n for n in range(1001)}},
            VM_LIMITS,
            "must have at most 1000",
            id="a thousand VMs and one",
        ),
    ],
)
def test_limits_that_cannot_be(served: Api, namespace: str, limit: Json, field: str, message: str) -> None:
    path = KIND.path(namespace)
    refused = served.call("POST", path, quota(limit))
    assert (refused.code, refused.reason) == (422, "Invalid"), refused.raw
    assert [(one["field"], message in one["message"]) for one in refused.causes if one["field"]][:1] == [(field, True)]
    served.create(path, quota({}))
    edited = served.call("PATCH", f"{path}/{NAME}", {"spec": quota(limit)["spec"]}, headers=MERGE)
    assert (edited.code, edited.causes) == (422, refused.causes)


def test_there_is_one_in_a_namespace_and_it_has_one_name(served: Api, namespace: str) -> None:
    refused = served.call("POST", KIND.path(namespace), quota({}, name="another"))
    assert refused.code == 422
    assert [one["field"] for one in refused.causes] == ["metadata.name"]
    assert f"the quota of a namespace is called {NAME}, and there is no other" in refused.message


def test_what_no_schema_can_say_the_webhook_does(served: Api, namespace: str) -> None:
    body = quota({"namespaceTotalSnapshotSizeQuota": 0})
    body["metadata"]["annotations"] = {ALLOW_ZERO: "yes"}
    refused = served.call("POST", KIND.path(namespace), body)
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert [one["field"] for one in refused.causes] == [f"metadata.annotations[{ALLOW_ZERO}]"]
    body["metadata"]["annotations"] = {}
    taken = served.call("POST", KIND.path(namespace), body)
    assert taken.code == 201
    assert [text.partition("; ")[0] for text in taken.warnings] == [
        f"{LIMIT}.namespaceTotalSnapshotSizeQuota: 0 means no limit"
    ]


# --- limits and status -----------------------------------------------------------------------------------------------


def machine(api: Api, namespace: str, name: str) -> str:
    body = {"apiVersion": VIRTUAL_MACHINES.api_version, "kind": VIRTUAL_MACHINES.kind, "metadata": {"name": name}}
    api.create(VIRTUAL_MACHINES.path(namespace), {**body, "spec": {"template": {"spec": {"domain": {}}}}})
    return VIRTUAL_MACHINES.path(namespace, name)


def limits(api: Api, namespace: str) -> Json | None:
    found = api.get(f"{LEDGERS}/ns-{namespace}")
    return found.obj.get("spec", {}).get("limits", {}) if found.code == 200 else None


def condition(api: Api, namespace: str, type: str) -> tuple[str, str]:
    found = api.get(KIND.path(namespace, NAME)).obj.get("status", {}).get("conditions", [])
    return next(((one["status"], one["message"]) for one in found if one["type"] == type), ("", ""))


def test_from_the_quota_to_the_ledger_and_back(stage: Scene, namespace: str) -> None:
    api, path = stage.api, KIND.path(namespace)
    db = machine(api, namespace, "db")
    wanted = quota({"namespaceTotalSnapshotSizeQuota": 10 * GI, "vmTotalSnapshotSizeQuota": {"db": 1, "x": 2}})
    eventually("the webhook has seen db", lambda: len(api.call("POST", f"{path}?dryRun=All", wanted).warnings) == 1)
    taken = api.call("POST", path, wanted)
    assert taken.code == 201
    assert [text.partition(": ")[0] for text in taken.warnings] == [f"{VM_LIMITS}[x]"], "there is a VM db, and no x"
    both = {"snapshots/namespace": {"storage": "10Gi"}, "snapshots/vm/db": {"storage": "1"}, "snapshots/vm/x": {"storage": "2"}}
    eventually("the limits are in the ledger", lambda: limits(api, namespace) == both)
    in_force = ("True", "in force: 10Gi for the namespace, 2 virtual machines with a limit of their own")
    eventually("the quota says so", lambda: condition(api, namespace, "Ready") == in_force)
    status = api.get(f"{path}/{NAME}").obj["status"]
    eventually("db is known", lambda: "db" in api.get(f"{path}/{NAME}").obj["status"].get("knownVMs", {}))
    assert status["observedGeneration"] == 1
    api.delete(db)
    eventually("the limit of a deleted VM goes", lambda: vm_limits(api, namespace) == {"x": 2})
    eventually("that is told", lambda: "LimitRemoved" in reasons(stage, namespace))
    eventually("also from the ledger", lambda: "snapshots/vm/db" not in (limits(api, namespace) or {}))
    machine(api, namespace, "db")
    api.merge(f"{path}/{NAME}", {"spec": {"snapshotLimit": {"namespaceTotalSnapshotSizeQuota": 5 * GI}}})
    five = {"snapshots/namespace": {"storage": "5Gi"}, "snapshots/vm/x": {"storage": "2"}}
    eventually("the limit is another, and the new VM has none", lambda: limits(api, namespace) == five)
    api.delete(f"{path}/{NAME}")
    eventually("no limit is left", lambda: limits(api, namespace) == {})


def vm_limits(api: Api, namespace: str) -> Json:
    found = api.get(KIND.path(namespace, NAME)).obj["spec"]["snapshotLimit"].get("vmTotalSnapshotSizeQuota", {})
    assert isinstance(found, dict)
    return found


def test_a_person_reads_the_quota_in_columns(stage: Scene, namespace: str) -> None:
    kubectl = Kubectl(stage.plane, namespace=namespace, home=stage.directory)
    stage.api.create(KIND.path(namespace), quota({"namespaceTotalSnapshotSizeQuota": 10 * GI}))
    columns = ["NAME", "USED", "LIMIT", "%", "WITHIN", "FRESH", "FULLEST-VM", "AGE"]
    assert kubectl("get", "hrq").lines[0].split() == columns
    text = " ".join(kubectl("explain", "hrq.spec.snapshotLimit.namespaceTotalSnapshotSizeQuota").out.split())
    assert "0 or absent: no limit" in text


def test_a_ledger_goes_with_its_namespace(stage: Scene) -> None:
    namespace = stage.namespace()
    stage.api.create(KIND.path(namespace), quota({"namespaceTotalSnapshotSizeQuota": 1}))
    eventually("there is a ledger", lambda: limits(stage.api, namespace))
    stage.api.delete(f"/api/v1/namespaces/{namespace}")
    eventually("the ledger is gone", lambda: limits(stage.api, namespace) is None)


# --- who may -----------------------------------------------------------------------------------------------------------

RBAC = "rbac.authorization.k8s.io"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def user(stage: Scene, namespace: str, *roles: str) -> Api:
    """Somebody with these cluster roles in a namespace; done when the authorizer knows of all of them."""
    api, name = stage.api, "-".join(roles)
    api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    for role in roles:
        binding = {
            "metadata": {"name": f"{name}-{role}"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }
        api.create(f"/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings", binding)
    verb = "create" if ADMIN in roles else "list"
    asked = {"namespace": namespace, "verb": verb, "group": KIND.group, "resource": KIND.plural}
    review = {"spec": {"user": f"system:serviceaccount:{namespace}:{name}", "resourceAttributes": asked}}
    eventually(f"{name} may {verb} quotas", lambda: api.create(REVIEWS, review)["status"]["allowed"])
    token = api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", {})["status"]["token"]
    return Api(api.plane, token=token)


@pytest.mark.parametrize(
    "roles",
    [
        pytest.param(("view",), id="whoever views a namespace"),
        pytest.param(("edit",), id="whoever edits it"),
        pytest.param(("admin",), id="whoever has every right in it"),
        pytest.param(("edit", VIEWER), id="whoever edits it, and has the role to view quotas"),
    ],
)
def test_tenants_read_the_quota_and_cannot_write_it(stage: Scene, namespace: str, roles: tuple[str, ...]) -> None:
    tenant, path = user(stage, namespace, *roles), KIND.path(namespace)
    stage.api.create(path, quota({"namespaceTotalSnapshotSizeQuota": 5}))
    assert tenant.get(f"{path}/{NAME}").obj["spec"]["snapshotLimit"] == {"namespaceTotalSnapshotSizeQuota": 5}
    assert [one["metadata"]["name"] for one in tenant.get(path).obj["items"]] == [NAME]
    change = {"spec": {"snapshotLimit": {"namespaceTotalSnapshotSizeQuota": 500}}}
    answers = [
        tenant.call("POST", path, quota({}, name="second")),
        tenant.call("PATCH", f"{path}/{NAME}", change, headers=MERGE),
        tenant.call("PATCH", f"{path}/{NAME}/status", {"status": {"leftOut": 1}}, headers=MERGE),
        tenant.call("PUT", f"{path}/{NAME}", {**tenant.get(f"{path}/{NAME}").obj, **change}),
        tenant.call("DELETE", f"{path}/{NAME}"),
        tenant.call("DELETE", path),
        tenant.call("DELETE", f"{LEDGERS}/ns-{namespace}"),
    ]
    assert [answer.code for answer in answers] == [403] * 7
    assert stage.api.get(f"{path}/{NAME}").obj["spec"]["snapshotLimit"] == {"namespaceTotalSnapshotSizeQuota": 5}


def test_whoever_has_every_right_in_a_namespace_cannot_give_himself_the_role(stage: Scene, namespace: str) -> None:
    tenant = user(stage, namespace, "admin")
    binding = {
        "metadata": {"name": "mine"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": ADMIN},
        "subjects": [{"kind": "ServiceAccount", "name": "admin", "namespace": namespace}],
    }
    rule = {"apiGroups": [KIND.group], "resources": [KIND.plural], "verbs": ["update"]}
    answers = [
        tenant.call("POST", f"/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings", binding),
        tenant.call("POST", f"/apis/{RBAC}/v1/namespaces/{namespace}/roles", {"metadata": {"name": "mine"}, "rules": [rule]}),
    ]
    assert [(answer.code, answer.reason) for answer in answers] == [(403, "Forbidden")] * 2


def test_whoever_views_a_namespace_and_administers_quotas_writes_them(stage: Scene, namespace: str) -> None:
    operator, path = user(stage, namespace, "view", ADMIN), KIND.path(namespace)
    operator.create(path, quota({"namespaceTotalSnapshotSizeQuota": 5}))
    operator.merge(f"{path}/{NAME}", {"spec": {"snapshotLimit": {"namespaceTotalSnapshotSizeQuota": 6}}})
    refused = operator.call("PATCH", f"{path}/{NAME}/status", {"status": {"leftOut": 1}}, headers=MERGE)
    assert refused.code == 403, "what is used is not his to say"
    operator.delete(f"{path}/{NAME}")


def test_role_templates_are_made_where_rancher_is(stage: Scene) -> None:
    wanted = user_roles((space(),))

    async def install() -> dict[str, str]:
        async with Client(Config.load(stage.plane.kubeconfig, environ={})) as client:
            outcomes = await Installer(client).install(wanted, tell=lambda outcome: None)
            return {outcome.name: outcome.verb for outcome in outcomes if outcome.what == "roletemplate"}

    without = asyncio.run(install())
    assert without == {"harvester-resourcequotas-admin": "absent", "harvester-resourcequotas-read-only": "absent"}
    definition = crd_of(ROLE_TEMPLATES)
    stage.api.create(DEFINITIONS, definition)
    wait_served(stage.api, ROLE_TEMPLATES.path())
    assert set(asyncio.run(install()).values()) == {"created"}
    assert set(asyncio.run(install()).values()) == {"unchanged"}
    found = stage.api.get(ROLE_TEMPLATES.path("", "harvester-resourcequotas-admin")).obj
    assert (found["context"], found["rules"][0]["verbs"]) == ("cluster", ["*"])
    stage.api.delete(f"{DEFINITIONS}/{ROLE_TEMPLATES.name}")


# --- what is used ------------------------------------------------------------------------------------------------------


def claim(stage: Scene, namespace: str) -> None:
    """A claim of 1Gi, of a driver that nobody serves: what its snapshots take is the capacity."""
    source = {"csi": {"driver": "nobody.example.com", "volumeHandle": f"{namespace}-data"}}
    stage.bound_claim(namespace, "data", source=source, storage_class="nobody")


def usage(stage: Scene, namespace: str) -> int | None:
    found: Json = stage.api.get(KIND.path(namespace, NAME)).obj.get("status", {})
    counted = found.get("snapshotLimitStatus")
    return None if counted is None else int(counted["namespaceTotalSnapshotSizeUsage"])


def reasons(stage: Scene, namespace: str) -> list[str]:
    found = stage.api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events").obj["items"]
    return [one["reason"] for one in found if one["regarding"]["name"] == NAME]


def test_what_is_used_is_said_at_once_and_a_limit_below_it_is_taken_with_a_warning(stage: Scene, namespace: str) -> None:
    api, path = stage.api, KIND.path(namespace)
    claim(stage, namespace)
    snapshots = GA.snapshots(namespace)
    api.create(snapshots, GA.of_claim("before", "data"))
    wanted = quota({"namespaceTotalSnapshotSizeQuota": GI - 1})
    eventually("the webhook has seen the snapshot", lambda: api.call("POST", f"{path}?dryRun=All", wanted).warnings)
    taken = api.call("POST", path, wanted)
    assert taken.code == 201
    (warning,) = taken.warnings
    assert warning.startswith(f"the snapshots of namespace {namespace} take 1Gi, 1 byte more than the limit of 1023.99Mi: ")
    eventually("what was there before is counted", lambda: usage(stage, namespace) == GI)
    eventually("the limit is passed", lambda: condition(api, namespace, "WithinQuota")[0] == "False")
    eventually("there is an Event", lambda: "QuotaPassed" in reasons(stage, namespace))
    refused = api.call("POST", snapshots, GA.of_claim("refused", "data"))
    assert refused.code == 403
    api.merge(f"{path}/{NAME}", {"spec": {"snapshotLimit": {"namespaceTotalSnapshotSizeQuota": 2 * GI}}})
    eventually("the limit is kept", lambda: condition(api, namespace, "WithinQuota")[0] == "True")
    api.create(snapshots, GA.of_claim("more", "data"))
    eventually("what was admitted is used", lambda: usage(stage, namespace) == 2 * GI)
    full = "the snapshots of the namespace take 2Gi of 2Gi (100%)"
    eventually("it is said in words", lambda: condition(api, namespace, "WithinQuota")[1] == full)
    eventually("how it is known, too", lambda: api.get(f"{path}/{NAME}").obj["status"].get("estimates") == {"capacity": 2})
