"""rbac.authorization.k8s.io: roles and their bindings, which are written whole and never read beyond their metadata."""

from __future__ import annotations

from typing import Final

from ullage.kube.kinds import Kind, Object


def _kind(kind: str, plural: str, *, namespaced: bool) -> Kind[Object]:
    return Kind("rbac.authorization.k8s.io", "v1", kind, plural, Object, namespaced=namespaced, whole=False, status=False)


CLUSTER_ROLES: Final = _kind("ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = _kind("ClusterRoleBinding", "clusterrolebindings", namespaced=False)
ROLES: Final = _kind("Role", "roles", namespaced=True)
ROLE_BINDINGS: Final = _kind("RoleBinding", "rolebindings", namespaced=True)
