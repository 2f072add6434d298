"""apiextensions.k8s.io: CustomResourceDefinitions, as far as it takes to find their objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ullage.kube.kinds import Kind, Object


class CustomResourceDefinition(Object):
    spec: Mapping[str, Any] = {}

    def kind(self) -> Kind[Object]:
        """What it defines, in a version that is served."""
        names, versions = self.spec["names"], self.spec["versions"]
        version = next((version["name"] for version in versions if version["served"]), versions[0]["name"])
        namespaced = self.spec["scope"] == "Namespaced"
        return Kind(self.spec["group"], version, names["kind"], names["plural"], Object, namespaced=namespaced, whole=False)


DEFINITIONS: Final = Kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    CustomResourceDefinition,
    namespaced=False,
    whole=False,
    status=False,
)
