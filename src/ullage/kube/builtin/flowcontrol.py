"""flowcontrol.apiserver.k8s.io: which requests an API server answers first."""

from __future__ import annotations

from typing import Final

from ullage.kube.kinds import Kind, Object


def _kind(kind: str, plural: str) -> Kind[Object]:
    return Kind("flowcontrol.apiserver.k8s.io", "v1", kind, plural, Object, namespaced=False, whole=False, status=False)


PRIORITY_LEVELS: Final = _kind("PriorityLevelConfiguration", "prioritylevelconfigurations")
FLOW_SCHEMAS: Final = _kind("FlowSchema", "flowschemas")
