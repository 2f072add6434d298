"""What an applied configuration must be before it can be merged: of the schema's form, each list item once.

Apply merges by the schema, so a configuration that does not fit it cannot be merged at all; kube-apiserver says so in these
words.
"""

from __future__ import annotations

from typing import Any

from ullage.standalone.apiserver.fields.fieldset import show_path
from ullage.standalone.apiserver.fields.ownership import item_step
from ullage.standalone.apiserver.fields.shape import Shape
from ullage.standalone.apiserver.go_text import go_text
from ullage.standalone.apiserver.objects import Json

Path = tuple[str, ...]


def faults(config: Json, shape: Shape) -> str:
    """Everything that keeps the configuration from being merged, as one text; empty if nothing does."""
    found: list[str] = []
    _check(config, shape, (), found)
    if len(found) < 2:
        return "".join(found)
    return "\n  ".join(["errors:", *found])


def _check(value: Any, shape: Shape, path: Path, found: list[str]) -> None:
    if value is None:
        return
    if shape.container == "map":
        if not isinstance(value, dict):
            found.append(f"{show_path(path)}: expected map, got &{{{go_text(value)}}}")
            return
        _check_map(value, shape, path, found)
    elif shape.container == "list":
        if not isinstance(value, list):
            found.append(f"{show_path(path)}: expected list, got &{{{go_text(value)}}}")
            return
        _check_list(value, shape, path, found)
    elif shape.scalar and (fault := _scalar_fault(value, shape.scalar)):
        found.append(f"{show_path(path)}: {fault}")


def _check_map(value: Json, shape: Shape, path: Path, found: list[str]) -> None:
    for name in sorted(value):
        here = (*path, f"f:{name}")
        if shape.closed and not shape.declares(name):
            found.append(f"{show_path(here)}: field not declared in schema")
            return
        _check(value[name], shape.field(name), here, found)


def _check_list(items: list[Any], shape: Shape, path: Path, found: list[str]) -> None:
    inner = shape.element()
    seen: set[str] = set()
    for number, item in enumerate(items):
        if shape.list_type == "atomic":
            step = f"i:{number}"
        elif fault := _item_fault(item, keyed=shape.list_type == "map"):
            found.append(f"{show_path(path)}: element {number}: {fault}")
            return
        else:
            step = item_step(item, shape)
        if step in seen:
            found.append(f"{show_path(path)}: duplicate entries for key {show_path((step,))}")
        seen.add(step)
        _check(item, inner, (*path, step), found)


def _item_fault(item: Any, *, keyed: bool) -> str:
    if keyed:
        return "" if isinstance(item, dict) else "associative list with keys may not have non-map elements"
    match item:
        case None:
            return "associative list without keys has an element that's an explicit null"
        case dict():
            return "associative list without keys has an element that's a map type"
        case list():
            return "not supported: associative list with lists as elements"
        case _:
            return ""


def _scalar_fault(value: Any, want: str) -> str:
    match want:
        case "numeric":
            fits = isinstance(value, int | float) and not isinstance(value, bool)
            return "" if fits else f"expected numeric (int or float), got {_go_type(value)}"
        case "string":
            return "" if isinstance(value, str) else f"expected string, got &value.valueUnstructured{{Value:{go_text(value)}}}"
        case _:
            return "" if isinstance(value, bool) else f"expected boolean, got &{{{go_text(value)}}}"


def _go_type(value: Any) -> str:
    names = {str: "string", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}"}
    return names.get(type(value), "float64")


def where(config: Json, *, api_version: str) -> str:
    """`ns/name; apps/v1, Kind=Deployment`: how the server names the configuration that it refuses."""
    meta = config.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    group_version = api_version if "/" in api_version else f"/{api_version}"
    return f"{meta.get('namespace') or ''}/{meta.get('name') or ''}; {group_version}, Kind={config.get('kind', '')}"
