"""Objects that are well-formed, and whose checks cost: long lists that are compared, names that patterns try."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from .handlers import APPS, CORE, CUSTOM, RBAC
from .scene import MINE, deployment

Json = dict[str, Any]
GROUP: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Object:
    id: str
    path: str
    make: Callable[[], Json]

    def __str__(self) -> str:
        return self.id

    @property
    def stored(self) -> bool:
        """Reviews and tokens are answered and forgotten."""
        return not self.path.endswith(("reviews", "/token"))

    def body(self) -> bytes:
        return json.dumps(self.make()).encode()


def _named(api_version: str, kind: str, **rest: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "made"} | rest.pop("metadata", {}), **rest}


def _pod(**spec: Any) -> Json:
    return _named("v1", "Pod", spec={"containers": [{"name": "one", "image": "i"}]} | spec)


def _container(**more: Any) -> list[Json]:
    return [{"name": "one", "image": "i"} | more]


def _vessel(**spec: Any) -> Json:
    return _named("hostile.example.com/v1", "Vessel", spec={"size": 1} | spec)


def _limit(quantity: str) -> Json:
    return _pod(containers=_container(resources={"limits": {"cpu": quantity, "memory": quantity}}))


def _selecting(expressions: list[Json]) -> Json:
    found = deployment("made")
    found["spec"]["selector"] = {"matchLabels": {"app": "target"}, "matchExpressions": expressions}
    return found


def _owners(count: int) -> list[Json]:
    return [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"o{n}", "uid": f"u{n}"} for n in range(count)]


PODS: Final = f"{CORE}/pods"
VESSELS: Final = f"{CUSTOM}/vessels"
QUANTITIES: Final = (
    Object("a quantity of a million digits", PODS, lambda: _limit("9" * 1_000_000)),
    Object("a quantity of five thousand digits", PODS, lambda: _limit("9" * 5_000)),
    Object("a quantity with a great exponent", PODS, lambda: _limit("1e1000000000")),
    Object("a quantity with a small exponent", PODS, lambda: _limit("1e-1000000000")),
    Object("a quantity with a long fraction", PODS, lambda: _limit("0." + "1" * 1_000_000)),
    Object("a quantity with a long exponent", PODS, lambda: _limit("1e" + "9" * 100_000)),
    Object(
        "ten thousand quantities",
        PODS,
        lambda: _pod(containers=_container(resources={"limits": {f"example.com/r{n}": "1.5Gi" for n in range(60_000)}})),
    ),
)

OBJECTS: Final = (
    *QUANTITIES,
    Object(
        "a pod of ten thousand containers",
        PODS,
        lambda: _pod(containers=[{"name": f"c{n}", "image": "i"} for n in range(10_000)]),
    ),
    Object("a pod of containers with one name", PODS, lambda: _pod(containers=_container() * 50_000)),
    Object(
        "a pod of twenty thousand volumes that are mounted",
        PODS,
        lambda: _pod(
            volumes=[{"name": f"v{n}", "emptyDir": {}} for n in range(20_000)],
            containers=_container(volumeMounts=[{"name": f"v{n}", "mountPath": f"/v{n}"} for n in range(20_000)]),
        ),
    ),
    Object(
        "a pod of fifty thousand variables",
        PODS,
        lambda: _pod(containers=_container(env=[{"name": f"E{n}", "value": f"$(E{n - 1})"} for n in range(50_000)])),
    ),
    Object(
        "a pod of forty thousand ports",
        PODS,
        lambda: _pod(containers=_container(ports=[{"containerPort": 1 + n} for n in range(40_000)])),
    ),
    Object(
        "a pod of fifty thousand tolerations",
        PODS,
        lambda: _pod(tolerations=[{"key": f"k{n}", "operator": "Exists"} for n in range(50_000)]),
    ),
    Object("a pod with an image that fills it", PODS, lambda: _pod(containers=_container(image="a/" * 1_400_000))),
    Object(
        "a pod with numbers that are no int64",
        PODS,
        lambda: _pod(priority=2**80, terminationGracePeriodSeconds=10**30, activeDeadlineSeconds=1.5),
    ),
    Object("a pod on a node with a long name", PODS, lambda: _pod(nodeName="a." * 1_400_000)),
    Object(
        "a service of twenty thousand ports",
        f"{CORE}/services",
        lambda: _named("v1", "Service", spec={"ports": [{"name": f"p{n}", "port": 1 + n} for n in range(20_000)]}),
    ),
    Object(
        "a service with addresses that are none",
        f"{CORE}/services",
        lambda: _named("v1", "Service", spec={"ports": [{"port": 1}], "externalIPs": ["1.2.3." + "4" * 100] * 20_000}),
    ),
    Object(
        "a service with an address of a million colons",
        f"{CORE}/services",
        lambda: _named("v1", "Service", spec={"ports": [{"port": 1}], "clusterIP": ":" * 1_000_000}),
    ),
    Object(
        "a role of twenty thousand rules",
        f"{RBAC}/roles",
        lambda: _named(
            f"{GROUP}/v1", "Role", rules=[{"apiGroups": [f"g{n}"], "resources": ["r"], "verbs": ["v"]} for n in range(20_000)]
        ),
    ),
    Object(
        "a role of one rule with a product of lists",
        f"{RBAC}/roles",
        lambda: _named(
            f"{GROUP}/v1",
            "Role",
            rules=[
                {
                    "apiGroups": [f"g{n}" for n in range(3_000)],
                    "resources": [f"r{n}" for n in range(3_000)],
                    "verbs": [f"v{n}" for n in range(3_000)],
                    "resourceNames": [f"n{n}" for n in range(3_000)],
                }
            ],
        ),
    ),
    Object(
        "a binding of twenty thousand subjects",
        f"{RBAC}/rolebindings",
        lambda: _named(
            f"{GROUP}/v1",
            "RoleBinding",
            roleRef={"apiGroup": GROUP, "kind": "Role", "name": "all"},
            subjects=[{"kind": "ServiceAccount", "name": f"s{n}", "namespace": MINE} for n in range(20_000)],
        ),
    ),
    Object(
        "a selector of twenty thousand expressions",
        f"{APPS}/deployments",
        lambda: _selecting([{"key": f"k{n}", "operator": "DoesNotExist"} for n in range(20_000)]),
    ),
    Object(
        "a selector with a hundred thousand values",
        f"{APPS}/deployments",
        lambda: _selecting([{"key": "k", "operator": "NotIn", "values": [f"v{n}" for n in range(100_000)]}]),
    ),
    Object(
        "a schedule that fills it",
        f"/apis/batch/v1/namespaces/{MINE}/cronjobs",
        lambda: _named(
            "batch/v1",
            "CronJob",
            spec={
                "schedule": "0-59/1," * 200_000 + "1 * * * *",
                "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": _container()}}}},
            },
        ),
    ),
    Object(
        "a policy of ten thousand rules",
        f"/apis/networking.k8s.io/v1/namespaces/{MINE}/networkpolicies",
        lambda: _named(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            spec={
                "podSelector": {},
                "ingress": [
                    {"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"] * 3}}]} for _ in range(10_000)
                ],
            },
        ),
    ),
    Object(
        "a claim of a great size",
        f"{CORE}/persistentvolumeclaims",
        lambda: _named(
            "v1",
            "PersistentVolumeClaim",
            spec={"accessModes": ["ReadWriteOnce"] * 100_000, "resources": {"requests": {"storage": "9" * 100_000}}},
        ),
    ),
    Object(
        "a secret of what is not base64",
        f"{CORE}/secrets",
        lambda: _named("v1", "Secret", data={f"k{n}": "!" for n in range(100_000)}),
    ),
    Object("a secret of two megabytes", f"{CORE}/secrets", lambda: _named("v1", "Secret", data={"a": "A" * (2 << 20)})),
    Object(
        "twenty thousand owners",
        f"{CORE}/configmaps",
        lambda: _named("v1", "ConfigMap", metadata={"ownerReferences": _owners(20_000)}),
    ),
    Object(
        "a name that is to be made from a long one",
        f"{CORE}/configmaps",
        lambda: _named("v1", "ConfigMap", metadata={"name": "", "generateName": "n" * 3_000_000}),
    ),
    Object(
        "annotations of three megabytes",
        f"{CORE}/configmaps",
        lambda: _named("v1", "ConfigMap", metadata={"annotations": {"a": "x" * 3_000_000}}),
    ),
    Object(
        "a hundred thousand annotations with bad names",
        f"{CORE}/configmaps",
        lambda: _named("v1", "ConfigMap", metadata={"annotations": {f"/{n}/!": "" for n in range(100_000)}}),
    ),
    Object(
        "a time that is none",
        f"{CORE}/configmaps",
        lambda: _named(
            "v1", "ConfigMap", metadata={"creationTimestamp": "9" * 1_000_000, "deletionTimestamp": "0001-01-01T00:00:00Z"}
        ),
    ),
    Object("a word that a pattern tries in every way", VESSELS, lambda: _vessel(words="a" * 40 + "!")),
    Object("letters that a pattern tries in every way", VESSELS, lambda: _vessel(letters="a" * 60 + "b")),
    Object("a long text for a pattern", VESSELS, lambda: _vessel(words="a " * 1_400_000 + "!")),
    Object("a set of a hundred thousand", VESSELS, lambda: _vessel(set=[f"s{n}" for n in range(150_000)])),
    Object("a set with one value very often", VESSELS, lambda: _vessel(set=["s"] * 400_000)),
    Object("sixty thousand rows", VESSELS, lambda: _vessel(rows=[{"name": f"r{n}"} for n in range(60_000)])),
    Object("rows with one name", VESSELS, lambda: _vessel(rows=[{"name": "r"}] * 100_000)),
    Object("a rule over a hundred thousand numbers", VESSELS, lambda: _vessel(numbers=list(range(100_000)))),
    Object("more numbers than are allowed", VESSELS, lambda: _vessel(numbers=[0] * 1_000_000)),
    Object("a rule over a text of three megabytes", VESSELS, lambda: _vessel(text="n" * 2_999_000)),
    Object("a time of a million digits", VESSELS, lambda: _vessel(moment="2" * 1_000_000)),
    Object("what none of twenty schemas allows", VESSELS, lambda: _vessel(choice={f"g{n}": 1 for n in range(100_000)})),
    Object("values of the wrong type, a million", VESSELS, lambda: _vessel(set=[0] * 1_000_000)),
)

REVIEWS: Final = (
    Object(
        "a token of three megabytes",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        lambda: {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "a." * 1_400_000}},
    ),
    Object(
        "a review for a hundred thousand groups",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        lambda: {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": "u",
                "groups": [f"g{n}" for n in range(150_000)],
                "resourceAttributes": {"verb": "get", "resource": "pods"},
            },
        },
    ),
    Object(
        "a review in the namespace for a hundred thousand groups",
        f"/apis/authorization.k8s.io/v1/namespaces/{MINE}/localsubjectaccessreviews",
        lambda: {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "LocalSubjectAccessReview",
            "spec": {
                "user": "u",
                "groups": [f"g{n}" for n in range(150_000)],
                "resourceAttributes": {"namespace": MINE, "verb": "get", "resource": "pods"},
            },
        },
    ),
    Object(
        "a review of a long path",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        lambda: {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"nonResourceAttributes": {"verb": "get", "path": "/a" * 1_400_000}},
        },
    ),
    Object(
        "a review with long selectors",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        lambda: {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {
                "resourceAttributes": {
                    "verb": "list",
                    "resource": "pods",
                    "labelSelector": {"rawSelector": ",".join(f"!k{n}" for n in range(200_000))},
                }
            },
        },
    ),
    Object(
        "the rules of every account",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        lambda: {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": MINE}},
    ),
    Object(
        "a token for a hundred thousand audiences",
        f"{CORE}/serviceaccounts/tenant/token",
        lambda: {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [f"a{n}" for n in range(200_000)], "expirationSeconds": 2**62},
        },
    ),
    Object(
        "a token with a lifetime that is no number",
        f"{CORE}/serviceaccounts/tenant/token",
        lambda: {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [], "expirationSeconds": 10**40},
        },
    ),
)
ALL: Final = (*OBJECTS, *REVIEWS)
