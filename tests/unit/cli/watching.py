"""Commands with `-w` against a cluster in memory: it changes step by step, and Ctrl-C comes when all steps were shown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from copy import deepcopy
from functools import partial
from typing import Any, cast

import msgspec
import pytest
import typer

from tests.unit.cli.snapshot.cluster import Cluster, Json
from ullage.cli.common import session, watching
from ullage.cli.common.arguments import At
from ullage.cli.common.session import BOTH, Session
from ullage.kube.client.client import Client, WatchEvent
from ullage.kube.client.codec import INITIAL_END
from ullage.kube.kinds import Kind, Object
from ullage.selectors import FieldSelector, LabelSelector, field_text

SECONDS = 30.0  # for a change to be shown
INTERRUPTED = 130
Key = tuple[str, str, str]


class Watched:
    """The client of a cluster in memory, with watches: each is told what differs from what it was told before."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._moved = asyncio.Condition()
        self.version = 1
        self.followed: list[tuple[str, str, str]] = []  # kind, namespace and selectors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def move(self, step: Callable[[], object]) -> None:
        async with self._moved:
            step()
            self.version += 1
            self._moved.notify_all()

    async def latest(self, kind: Kind[Any], namespace: str = "", *, fields: str = "") -> str:
        await self._cluster.list(kind, namespace, fields=fields)
        return str(self.version)

    async def absent(self, kind: Kind[Any]) -> str:
        return str(self.version) if kind.name in self._cluster.absent else ""

    async def watch(
        self, kind: Kind[Any], namespace: str = "", *, labels: str = "", fields: str = "", **_: Any
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        await self._cluster.list(kind, namespace)  # whether that may be read
        self.followed.append((kind.name, namespace, labels or fields))
        told: dict[Key, Json] = {}
        for event in self._news(kind, told, namespace, labels, fields):
            yield event
        yield self._event(kind, "BOOKMARK", {"metadata": {"annotations": {INITIAL_END: "true"}}})
        while True:
            async with self._moved:
                events = self._news(kind, told, namespace, labels, fields)
                if not events:
                    await self._moved.wait()
            for event in events:
                yield event

    def _news(self, kind: Kind[Any], told: dict[Key, Json], namespace: str, labels: str, fields: str) -> list[WatchEvent[Any]]:
        there = {
            key: deepcopy(body)
            for key, body in self._cluster.objects.items()
            if key[0] == kind.name
            and namespace in ("", key[1])
            and LabelSelector.parse(labels).matches(body["metadata"].get("labels"))
            and FieldSelector.parse(fields).matches(partial(field_text, body))
        }
        events = [self._event(kind, "MODIFIED", body) for key, body in there.items() if told.get(key) != body]
        events += [self._event(kind, "DELETED", body) for key, body in told.items() if key not in there]
        told.clear()
        told.update(there)
        return events

    def _event(self, kind: Kind[Any], type: str, body: Json) -> WatchEvent[Any]:
        meta = {**body["metadata"], "resourceVersion": str(self.version)}
        whole = Object if type == "BOOKMARK" else kind.type  # as the client has it
        return WatchEvent(type, msgspec.convert({**body, "metadata": meta}, whole))


class Watcher:
    """Calls a command that watches, and notes what it says after each step."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.server = Watched(cluster)
        self.errors: list[str] = []  # as `called` gives what was printed
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        monkeypatch.setattr(watching, "REST_SECONDS", 0.0)

    def called(self, app: typer.Typer, *arguments: str, steps: list[Callable[[], object]]) -> list[str]:
        """What is printed at first, and after each step."""
        said: list[tuple[str, str]] = []

        def connected(where: At, work: Callable[[Any], Any]) -> None:
            here = Session(cast(Client, self.server), where.namespace or "shop", BOTH)
            asyncio.run(self._run(work(here), steps, said))
            raise KeyboardInterrupt

        self._monkeypatch.setattr(session, "connected", connected)
        with pytest.raises(SystemExit) as ended:
            app(args=list(arguments), standalone_mode=False)
        assert ended.value.code == INTERRUPTED
        self._capsys.readouterr()
        self.errors = [error for _, error in said]
        return [out for out, _ in said]

    async def _run(self, work: Any, steps: list[Callable[[], object]], said: list[tuple[str, str]]) -> None:
        task = asyncio.ensure_future(work)
        try:
            said.append(await self._words(task))
            for step in steps:
                await self.server.move(step)
                said.append(await self._words(task))
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _words(self, task: asyncio.Future[Any]) -> tuple[str, str]:
        """Waits until something is said. A command that ends by itself does not watch."""
        async with asyncio.timeout(SECONDS):
            while True:
                found = self._capsys.readouterr()
                if found.out or found.err:
                    return found.out, found.err
                if task.done():
                    task.result()
                    raise AssertionError("it has ended by itself")
                await asyncio.sleep(0.001)
