"""What the columns of built-in kinds are made of: the `Printer` type, column shorthand and the small texts that many share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ullage.standalone.apiserver.kinds.resources import Column
from ullage.standalone.apiserver.objects import Json, dig

NONE = "<none>"
UNSET = "<unset>"
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta#"

Cells = Callable[[Json, datetime], list[Any]]


@dataclass(frozen=True, slots=True)
class Printer:
    """The columns of one kind and the function that fills a row of them."""

    columns: tuple[Column, ...]
    cells: Cells
    conditions: Callable[[Json], list[Json]] | None = None


def col(name: str, about: str = "", *, type: str = "string", format: str = "", wide: bool = False) -> Column:
    """`about` is a text, or a field of the published definitions (`core.v1.PodSpec#nodeName`) whose text is taken."""
    description = f"io.k8s.api.{about}" if "#" in about and not about.startswith("io.k8s.") else about
    return Column(name, type, format, description, priority=int(wide))


NAME = col("Name", META + "name", format="name")
AGE = col("Age", META + "creationTimestamp")
CREATED = col("Created At", META + "creationTimestamp", type="date")
CONTAINERS = col("Containers", "Names of the template's containers", wide=True)
IMAGES = col("Images", "Images of the template's containers", wide=True)


def name(obj: Json) -> str:
    return str(dig(obj, "metadata", "name") or "")


def many(obj: Any, *path: str) -> list[Any]:
    """The list at a path; empty where there is none."""
    found = dig(obj, *path)
    return found if isinstance(found, list) else []


def text(obj: Any, *path: str, empty: str = "") -> str:
    """The value at a path as text, or `empty` where there is none."""
    found = dig(obj, *path)
    return empty if found is None or found == "" else str(found)


def number(obj: Any, *path: str) -> int:
    found = dig(obj, *path)
    return found if isinstance(found, int) else 0


def deleting(obj: Json) -> bool:
    return bool(dig(obj, "metadata", "deletionTimestamp"))


def condition(obj: Json, kind: str) -> Json | None:
    """The entry of status.conditions of one type."""
    return next((found for found in many(obj, "status", "conditions") if found.get("type") == kind), None)


def holds(obj: Json, kind: str) -> bool:
    found = condition(obj, kind)
    return found is not None and found.get("status") == "True"


def pairs(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) if labels else NONE


def selector(found: Json | None) -> str:
    """A label selector in the form that `kubectl get -l` would take, ordered by key."""
    if not found:
        return NONE
    parts = [(key, f"{key}={value}") for key, value in (found.get("matchLabels") or {}).items()]
    for each in found.get("matchExpressions") or ():
        key, values = each["key"], ",".join(sorted(each.get("values") or ()))
        match each["operator"]:
            case "In":
                parts.append((key, f"{key} in ({values})"))
            case "NotIn":
                parts.append((key, f"{key} notin ({values})"))
            case "Exists":
                parts.append((key, key))
            case _:
                parts.append((key, f"!{key}"))
    return ",".join(shown for _, shown in sorted(parts, key=lambda part: part[0])) or NONE


def shortened(shown: Iterable[str], limit: int = 3) -> str:
    """The first few of many, and how many more there are."""
    items = list(shown)
    more = f" + {len(items) - limit} more..." if len(items) > limit else ""
    return ",".join(items[:limit]) + more


def template_cells(pod_template: Any) -> list[str]:
    """Names and images of a pod template's containers: two columns that every workload ends with."""
    containers = many(pod_template, "spec", "containers")
    return [",".join(text(each, "name") for each in containers), ",".join(text(each, "image") for each in containers)]
