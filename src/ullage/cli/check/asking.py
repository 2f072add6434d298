"""Asks the server whether objects would be admitted: each by itself, as a dry run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from ullage.cli.check.documents import Document
from ullage.errors import Terminal
from ullage.kube.client.client import Client
from ullage.kube.client.codec import APPLY_PATCH
from ullage.kube.errors import ApiError, Conflict, Forbidden, Invalid
from ullage.kube.kinds import Kind, Meta, Object
from ullage.kube.objects import Json
from ullage.ledger.charging.stamps import STAMP, stamp_of
from ullage.space.quota import spelled

MANAGER: Final = "ullage-check"
Outcome = Literal["admitted", "refused", "error"]


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of one object."""

    document: Document
    outcome: Outcome
    message: str = ""


async def ask(client: Client, document: Document, *, namespace: str) -> Checked:
    """`namespace` is where an object goes that names none."""
    try:
        kind = await _kind(client, document)
        answer = await _dry_run(client, kind, document, document.namespace or namespace)
    except (Forbidden, Invalid, Conflict) as error:
        outcome: Outcome = "error" if isinstance(error, Forbidden) and error.lacks_right else "refused"
        return Checked(document, outcome, error.message)
    except ApiError as error:
        return Checked(document, "error", error.message)
    except Terminal as error:
        return Checked(document, "error", str(error))
    return Checked(document, "admitted", _takes(answer))


async def _kind(client: Client, document: Document) -> Kind[Object]:
    group, version = document.group, document.version
    served = await client.resources(group, version)
    if served is None:
        raise Terminal(f"the cluster does not serve {document.body['apiVersion']}")
    for one in served:
        if one.kind == document.kind and "/" not in one.name:
            return Kind(group, version, document.kind, one.name, Object, namespaced=one.namespaced)
    raise Terminal(f"the cluster has no kind {document.kind} in {document.body['apiVersion']}")


async def _dry_run(client: Client, kind: Kind[Object], document: Document, namespace: str) -> Json:
    """A create; or, where there is such an object already, what applying it would do."""
    place = namespace if kind.namespaced else ""
    body = msgspec.json.encode(document.body)
    query = {"dryRun": "All", "fieldManager": MANAGER}
    there = bool(document.name) and await client.find(kind, document.name, place) is not None
    if there:
        path, query = kind.path(place, document.name), query | {"force": "true"}
        answer = await client.request("PATCH", path, query=query, body=body, content_type=APPLY_PATCH)
    else:
        answer = await client.request("POST", kind.path(place), query=query, body=body)
    found: Json = msgspec.json.decode(answer)
    return found


def _takes(answer: Json) -> str:
    """What it would be charged with, if anything."""
    annotations: dict[str, Any] = answer.get("metadata", {}).get("annotations") or {}
    if STAMP not in annotations:
        return ""
    try:
        cells = stamp_of(Meta(annotations=annotations)).cells
    except Terminal:
        return ""
    amounts = [f"{spelled(amount.value())} of {cell.account}" for cell, amount in sorted(cells.items())]
    return f"takes {', '.join(amounts)}" if amounts else "takes nothing"
