"""The published OpenAPI definitions of the built-in kinds, read from the `kubernetes-validate` package's data.

Only one version's file is read, and the package's code is never imported: it would pull in a validator that we do not use.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from ullage.standalone.apiserver.objects import Json

MINOR = 36  # the Kubernetes 1.x that the embedded server says it is
VERSION = f"v1.{MINOR}.0"
REF = "#/$defs/"


class Definitions:
    """Definition name (`io.k8s.api.core.v1.Pod`) to schema. `$ref`s read `#/$defs/<name>`."""

    def __init__(self, raw: dict[str, Json]) -> None:
        self.raw = raw
        self._kinds = {
            (gvk["group"], gvk["version"], gvk["kind"]): name
            for name, schema in raw.items()
            for gvk in schema.get("x-kubernetes-group-version-kind", ())
        }

    def name_of(self, group: str, version: str, kind: str) -> str | None:
        """The definition of a kind, or None where the published ones have none."""
        return self._kinds.get((group, version, kind))

    def resolve(self, schema: Json) -> Json:
        """The schema itself, or what its `$ref` names. Descriptions beside a `$ref` are left behind."""
        while "$ref" in schema:
            schema = self.raw[schema["$ref"].removeprefix(REF)]
        return schema


@cache
def load() -> Definitions:
    spec = find_spec("kubernetes_validate")
    if spec is None or spec.origin is None:
        raise RuntimeError("the embedded API server needs the package kubernetes-validate: pip install 'ullage[standalone]'")
    path = Path(spec.origin).parent / "kubernetes-json-schema" / f"{VERSION}-local" / "_definitions.json"
    raw = msgspec.json.decode(path.read_bytes())["$defs"]
    return Definitions({name: _plain(schema) for name, schema in raw.items()})


def _plain(schema: Any) -> Any:
    """`type: [string, null]` back to `type: string`: the package widened every field for its own use."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _plain(value) for key, value in schema.items()}
    if isinstance(found.get("type"), list):
        found["type"] = next(name for name in found["type"] if name != "null")
    return found
