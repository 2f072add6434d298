"""The four loads: creates, patches, one long list, and a fan-out to watchers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bench.apiserver.wire import Connection, Json, Target

GROUP = "bench.example.com"
SAMPLES = f"/apis/{GROUP}/v1/namespaces/{{ns}}/samples"
SIZE = 2900  # bytes of one object as it is answered
MERGE = "application/merge-patch+json"

DEFINITION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"samples.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "samples", "singular": "sample", "kind": "Sample", "listKind": "SampleList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["volume"],
                                "properties": {
                                    "volume": {"type": "string", "maxLength": 63},
                                    "size": {"type": "integer", "minimum": 0},
                                    "text": {"type": "string"},
                                    "parents": {"type": "array", "items": {"type": "string"}},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
                "subresources": {"status": {}},
            }
        ],
    },
}


def sample(number: int) -> bytes:
    """A custom object that is answered with about `SIZE` bytes; the server adds some 470 of metadata."""
    body = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Sample",
        "metadata": {"name": f"sample-{number:06}", "labels": {"volume": f"v{number % 1000}"}},
        "spec": {"volume": f"v{number % 1000}", "size": number, "parents": [f"p{number}"], "text": "x" * (SIZE - 620)},
    }
    return json.dumps(body).encode()


def configmap(name: str) -> bytes:
    return json.dumps({"metadata": {"name": name}, "data": {"key": "x" * 200}}).encode()


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests over a time, with the latencies that half and almost all of them kept."""

    per_second: float
    p50: float
    p99: float


async def hammer(target: Target, clients: int, jobs: list[Callable[[Connection], Awaitable[object]]]) -> Rate:
    """Runs the jobs on as many connections as there are clients, as fast as they are answered."""
    context = target.context()
    connections = [await Connection(target).open(context) for _ in range(clients)]
    waiting = iter(jobs)
    spent: list[float] = []

    async def work(connection: Connection) -> None:
        for job in waiting:
            begun = time.perf_counter()
            await job(connection)
            spent.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    await asyncio.gather(*(work(connection) for connection in connections))
    whole = time.perf_counter() - begun
    for connection in connections:
        await connection.close()
    spent.sort()
    return Rate(len(jobs) / whole, spent[len(spent) // 2], spent[int(len(spent) * 0.99)])


async def creates(target: Target, path: str, bodies: list[bytes], *, clients: int) -> Rate:
    def job(body: bytes) -> Callable[[Connection], Awaitable[object]]:
        return lambda connection: connection.call("POST", path, body)

    return await hammer(target, clients, [job(body) for body in bodies])


async def patches(target: Target, path: str, *, count: int, objects: int, clients: int) -> Rate:
    def job(number: int) -> Callable[[Connection], Awaitable[object]]:
        body = json.dumps({"spec": {"size": number + 1_000_000}}).encode()
        name = f"{path}/sample-{number % objects:06}"
        return lambda connection: connection.call("PATCH", name, body, content_type=MERGE)

    return await hammer(target, clients, [job(number) for number in range(count)])


@dataclass(frozen=True, slots=True)
class Listing:
    """One list, in one answer or in pages."""

    seconds: float
    megabytes: float


async def whole_list(target: Target, path: str, *, page: int = 0) -> Listing:
    connection = await Connection(target).open(target.context())
    query = f"?limit={page}" if page else ""
    size = 0
    begun = time.perf_counter()
    while True:
        body = await connection.call("GET", f"{path}{query}")
        size += len(body)
        token = _continue(body) if page else ""
        if not token:
            break
        query = f"?limit={page}&continue={token}"
    seconds = time.perf_counter() - begun
    await connection.close()
    return Listing(seconds, size / 1e6)


def _continue(body: bytes) -> str:
    """The list's token, without decoding the objects: it stands before them or behind them, and no sample has such a field."""
    mark = b'"continue":"'
    place = body.find(mark)
    return body[place + len(mark) :].partition(b'"')[0].decode() if place >= 0 else ""
