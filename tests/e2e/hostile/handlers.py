"""Everything that reads a body: one path of each way into the server, and what a body there claims to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .scene import MINE

JSON: Final = "application/json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"

CORE: Final = f"/api/v1/namespaces/{MINE}"
APPS: Final = f"/apis/apps/v1/namespaces/{MINE}"
CUSTOM: Final = f"/apis/hostile.example.com/v1/namespaces/{MINE}"
RBAC: Final = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{MINE}"


@dataclass(frozen=True, slots=True)
class Handler:
    """`patch` is the media type that a patch must have; without one the body's own is sent."""

    method: str
    path: str
    api_version: str = "v1"
    kind: str = "ConfigMap"
    name: str = "target"
    patch: str = ""
    query: str = ""

    def __str__(self) -> str:
        what = self.path.removeprefix(CORE).removeprefix(APPS).removeprefix(CUSTOM)
        return f"{self.method} {what}{f' as {self.patch}' if self.patch else ''}"


def _patches(path: str, api_version: str, kind: str, *forms: str) -> tuple[Handler, ...]:
    query = "?fieldManager=attack&force=true"
    return tuple(Handler("PATCH", path, api_version, kind, patch=form, query=query if form == APPLY else "") for form in forms)


# One of each way that a body goes through the server.
FEW: Final = (
    Handler("POST", f"{CORE}/configmaps", name="made"),
    Handler("PUT", f"{CORE}/configmaps/target"),
    Handler("POST", f"{CUSTOM}/vessels", "hostile.example.com/v1", "Vessel", name="made"),
    *_patches(f"{CORE}/configmaps/target", "v1", "ConfigMap", MERGE, STRATEGIC, JSON_PATCH, APPLY),
    Handler("DELETE", f"{CORE}/configmaps/made", "v1", "DeleteOptions"),
    Handler(
        "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "authorization.k8s.io/v1", "SelfSubjectAccessReview"
    ),
)

REVIEWS: Final = tuple(
    Handler("POST", f"/apis/{group}/v1/{scope}{kind.lower()}s", f"{group}/v1", kind)
    for group, kind, scope in (
        ("authentication.k8s.io", "TokenReview", ""),
        ("authentication.k8s.io", "SelfSubjectReview", ""),
        ("authorization.k8s.io", "SubjectAccessReview", ""),
        ("authorization.k8s.io", "SelfSubjectRulesReview", ""),
        ("authorization.k8s.io", "LocalSubjectAccessReview", f"namespaces/{MINE}/"),
    )
)

MORE: Final = (
    *REVIEWS,
    Handler("POST", f"{CORE}/secrets", kind="Secret", name="made"),
    Handler("POST", f"{CORE}/pods", kind="Pod", name="made"),
    Handler("POST", f"{CORE}/events", kind="Event", name="made"),
    Handler("POST", f"{CORE}/services", kind="Service", name="made"),
    Handler("POST", f"{CORE}/bindings", kind="Binding", name="made"),
    Handler("POST", f"{CORE}/pods/target/eviction", "policy/v1", "Eviction"),
    Handler("POST", f"{CORE}/pods/target/binding", kind="Binding"),
    Handler("POST", f"{CORE}/serviceaccounts/tenant/token", "authentication.k8s.io/v1", "TokenRequest"),
    Handler("POST", f"{APPS}/deployments", "apps/v1", "Deployment", name="made"),
    Handler("PUT", f"{APPS}/deployments/target", "apps/v1", "Deployment"),
    Handler("PUT", f"{APPS}/deployments/target/status", "apps/v1", "Deployment"),
    Handler("PUT", f"{APPS}/deployments/target/scale", "autoscaling/v1", "Scale"),
    *_patches(f"{APPS}/deployments/target", "apps/v1", "Deployment", MERGE, STRATEGIC, JSON_PATCH, APPLY),
    *_patches(f"{APPS}/deployments/target/scale", "autoscaling/v1", "Scale", MERGE, APPLY),
    Handler("PUT", f"{CUSTOM}/vessels/target", "hostile.example.com/v1", "Vessel"),
    Handler("PUT", f"{CUSTOM}/vessels/target/status", "hostile.example.com/v1", "Vessel"),
    Handler("PUT", f"{CUSTOM}/vessels/target/scale", "autoscaling/v1", "Scale"),
    *_patches(f"{CUSTOM}/vessels/target", "hostile.example.com/v1", "Vessel", MERGE, JSON_PATCH, APPLY),
    *_patches(f"{CUSTOM}/vessels/target/status", "hostile.example.com/v1", "Vessel", MERGE, APPLY),
    Handler("POST", f"{RBAC}/roles", "rbac.authorization.k8s.io/v1", "Role", name="made"),
    Handler("POST", f"{RBAC}/rolebindings", "rbac.authorization.k8s.io/v1", "RoleBinding", name="made"),
    Handler("DELETE", f"{CORE}/configmaps", "v1", "DeleteOptions", query="?labelSelector=made"),
    Handler("PUT", f"/api/v1/namespaces/{MINE}/finalize", kind="Namespace", name=MINE),
    Handler("PATCH", f"/api/v1/namespaces/{MINE}/status", kind="Namespace", name=MINE, patch=MERGE),
    Handler(
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        name="makings.hostile.example.com",
    ),
    Handler("POST", "/apis/nowhere.example.com/v1/things", "nowhere.example.com/v1", "Thing"),
    Handler("POST", "/api"),
    Handler("POST", "/openapi/v3"),
    Handler("POST", "/readyz"),
    Handler("POST", "/nowhere"),
    Handler("POST", f"{CORE}/pods/target/exec"),
    Handler("GET", f"{CORE}/configmaps"),
)
