"""The few calls that the typed client has no method for: whole bodies, bindings, and deletes without grace."""

from __future__ import annotations

from typing import Any

import msgspec

from ullage.kube.builtin.core import PODS, Pod
from ullage.kube.client.client import Client
from ullage.kube.client.codec import collection_path, object_path
from ullage.kube.errors import AlreadyExists, Conflict, NotFound
from ullage.kube.kinds import Kind, Meta
from ullage.kube.objects import Json


async def create(client: Client, kind: Kind[Any], body: Json) -> bool:
    """Creates an object as it stands. False: there is one of that name."""
    path = collection_path(kind, body["metadata"].get("namespace", ""), needed=kind.namespaced)
    try:
        await client.request("POST", path, body=msgspec.json.encode(body))
    except AlreadyExists:
        return False
    return True


async def ensure(client: Client, kind: Kind[Any], body: Json) -> bool:
    """Creates an object where there is none of its name, and asks for it first.

    A create passes the hooks of the last run, and those refuse all while their server is not there yet. An object that is
    there must not wait for them: what serves them may be started only after it."""
    metadata = body["metadata"]
    path = object_path(kind, metadata["name"], metadata.get("namespace", ""))
    try:
        await client.request("GET", path)
    except NotFound:  # of the object or of its kind: the create tells which
        return await create(client, kind, body)
    return False


async def read(client: Client, kind: Kind[Any], name: str, namespace: str = "") -> Json:
    """The whole object, with all that our types do not know of."""
    found: Json = msgspec.json.decode(await client.request("GET", object_path(kind, name, namespace)))
    return found


async def bind_pod(client: Client, pod: Pod, node: str) -> None:
    """Puts a pod onto a node, as a scheduler does."""
    meta = pod.metadata
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await client.request("POST", object_path(PODS, meta.name, meta.namespace, "binding"), body=msgspec.json.encode(body))


async def delete(client: Client, kind: Kind[Any], meta: Meta, *, at_once: bool = False) -> None:
    """Asks for the end of this very object. One that is gone, or is another by now, is as good."""
    options: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": meta.uid}}
    if at_once:
        options["gracePeriodSeconds"] = 0
    try:
        await client.request("DELETE", object_path(kind, meta.name, meta.namespace), body=msgspec.json.encode(options))
    except (NotFound, Conflict):
        return
