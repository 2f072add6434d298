"""A registry with every built-in kind, and custom ones in a few words."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from ullage.standalone.apiserver.kinds import builtin
from ullage.standalone.apiserver.kinds.resources import Registry, Resource, Schema
from ullage.standalone.apiserver.schema import definitions

Json = dict[str, Any]

WIDGET_SCHEMA: Json = {
    "type": "object",
    "description": "A widget is a thing.",
    "properties": {
        "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}}},
        "spec": {
            "type": "object",
            "description": "What it should be.",
            "required": ["size"],
            "properties": {
                "size": {
                    "type": "integer",
                    "format": "int32",
                    "default": 3,
                    "minimum": 1,
                    "nullable": True,
                    "description": "how big",
                },
                "port": {"x-kubernetes-int-or-string": True},
                "any": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"x": {"type": "string"}},
                },
                "pod": {"type": "object", "x-kubernetes-embedded-resource": True, "required": ["spec"]},
                "mode": {"type": "string", "enum": ["a", "b"], "oneOf": [{"minLength": 1}]},
                "tags": {"type": "object", "additionalProperties": {"type": "string"}},
                "$ref": {"type": "string"},
            },
        },
    },
}


class NoSchema:
    """Stands in for a compiled schema where none is called."""

    def default(self, obj: Json) -> None: ...

    def prune(self, obj: Json) -> list[str]:
        return []

    def validate(self, obj: Json, old: Json | None = None, *, blocked: bool = False) -> list[Any]:
        return []


def no_schema(name: str) -> Schema:
    return NoSchema()


@cache
def builtins() -> tuple[Resource, ...]:
    return tuple(builtin.builtin_resources(definitions.load(), no_schema))


def registry(*custom: Resource) -> Registry:
    return Registry((*builtins(), *custom))


def widget(version: str = "v1", group: str = "example.com", schema: Json | None = None) -> Resource:
    return Resource(
        group=group,
        version=version,
        plural="widgets",
        singular="widget",
        kind="Widget",
        namespaced=True,
        short_names=("wd",),
        categories=("all",),
        subresources={name: builtin.subresource(name, "Widget") for name in ("status", "scale")},
        storage=f"widgets.{group}",
        storage_version=f"{group}/v1",
        raw=WIDGET_SCHEMA if schema is None else schema,
        custom={"group": group},
        list_kind="WidgetList",
    )


def gadget(version: str, group: str) -> Resource:
    """A custom kind with nothing to it: cluster-scoped, no subresources, any fields."""
    bare = widget(version, group, {"type": "object"})
    return replace(
        bare, plural="gadgets", singular="gadget", kind="Gadget", list_kind="GadgetList", namespaced=False, subresources={}
    )
