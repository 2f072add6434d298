"""Twenty times SIGKILL under load: what was acknowledged stays, nothing is half there, watches go on without a gap.

Writers own their names, so each knows what must be stored. A write whose answer never came may have happened or not: its
name is put aside, and at the end must hold the old value or the new one, whole.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import urllib3

from .api import Api, Json
from .control_plane import EmbeddedServer
from .kinds import OWN_MAPS

pytestmark = pytest.mark.skipif("E2E_KUBECONFIG" in os.environ, reason="only a server of our own may be killed")

KILLS = 20
WRITERS = 4
PADDING = "x" * 1500
NAMESPACE = "/api/v1/namespaces/crash"
MAPS = f"{NAMESPACE}/configmaps"
PATIENCE = 60.0


def content(value: int) -> dict[str, str]:
    """Two copies around a padding: a torn write would show."""
    return {"a": str(value), "padding": PADDING, "z": str(value)}


@dataclass(slots=True)
class Journal:
    """What was acknowledged and what is in doubt, over all writers."""

    stored: dict[str, int] = field(default_factory=dict)  # name to value
    deleted: set[str] = field(default_factory=set)
    versions: list[tuple[str, str, int, int]] = field(default_factory=list)  # event type, name, value, resourceVersion
    doubtful: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)  # name to (before, after)
    count: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def acknowledged(self, kind: str, name: str, value: int, *, version: int = 0) -> None:
        with self.changed:
            if kind == "DELETED":
                self.stored.pop(name)
                self.deleted.add(name)
            else:
                self.stored[name] = value
                self.versions.append((kind, name, value, version))
            self.count += 1
            self.changed.notify_all()

    def in_doubt(self, name: str, after: int | None) -> None:
        with self.changed:
            self.doubtful[name] = (self.stored.pop(name, None), after)

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.count >= count, PATIENCE), f"only {self.count} of {count} writes"


class Writer(threading.Thread):
    """Creates, replaces and deletes ConfigMaps as fast as it is answered."""

    def __init__(self, number: int, api: Api, journal: Journal) -> None:
        super().__init__(daemon=True)
        self.number = number
        self.api = api
        self.journal = journal
        self.serving = threading.Event()
        self.done = threading.Event()
        self.mine: dict[str, int] = {}  # name to value, all acknowledged
        self.errors: list[str] = []

    def run(self) -> None:
        for step in itertools.count():
            if self.done.is_set():
                return
            if not self.serving.wait(0.2):
                continue
            name, kind = self._choose(step)
            try:
                self._write(kind, name, value=step)
            except (urllib3.exceptions.HTTPError, OSError):
                self.mine.pop(name, None)
                self.journal.in_doubt(name, None if kind == "DELETE" else step)

    def _choose(self, step: int) -> tuple[str, str]:
        if step % 3 == 0 or not self.mine:
            return f"w{self.number}-{step:06}", "POST"
        names = sorted(self.mine)
        return names[step % len(names)], "DELETE" if step % 9 == 8 else "PUT"

    def _write(self, kind: str, name: str, *, value: int) -> None:
        path = MAPS if kind == "POST" else f"{MAPS}/{name}"
        body = None if kind == "DELETE" else {"metadata": {"name": name}, "data": content(value)}
        answer = self.api.call(kind, path, body)
        if answer.code not in {200, 201}:
            self.errors.append(f"{kind} {name}: {answer.code} {answer.message}")
            return
        if kind == "DELETE":
            del self.mine[name]
            self.journal.acknowledged("DELETED", name, value)
            return
        self.mine[name] = value
        version = int(answer.obj["metadata"]["resourceVersion"])
        self.journal.acknowledged("ADDED" if kind == "POST" else "MODIFIED", name, value, version=version)


class Follower(threading.Thread):
    """A watcher that comes back after each crash, from the last version it saw."""

    def __init__(self, api: Api, start: str) -> None:
        super().__init__(daemon=True)
        self.api = api
        self.version = start
        self.events: list[tuple[str, str, int, int]] = []
        self.resumed = 0
        self.failure = ""
        self.serving = threading.Event()
        self.finished = threading.Event()

    def run(self) -> None:
        while not self.finished.is_set() and not self.failure:
            if not self.serving.wait(0.2):
                continue
            try:
                self._follow()
            except (urllib3.exceptions.HTTPError, OSError, ValueError):
                self.resumed += 1  # ValueError: the last line was cut by the crash

    def _follow(self) -> None:
        with self.api.watch(f"{MAPS}?{OWN_MAPS}&resourceVersion={self.version}&timeoutSeconds=60") as watch:
            if watch.code != 200:
                self.failure = f"the watch answered {watch.code}"
                return
            for event in watch:
                if event["type"] == "ERROR":
                    self.failure = f"the watch failed: {event['object']}"
                    return
                self._take(event)
                if self.finished.is_set():
                    return
        self.resumed += 1

    def _take(self, event: Json) -> None:
        obj = event["object"]
        self.version = obj["metadata"]["resourceVersion"]
        name = obj["metadata"]["name"]
        if name == "end":
            self.finished.set()
            return
        self.events.append((event["type"], name, int(obj["data"]["a"]), int(self.version)))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    durable = EmbeddedServer(tmp_path / "data", ephemeral=False)
    durable.data_dir.mkdir()
    durable.start()
    yield durable
    durable.kill()


@pytest.mark.slow
def test_acknowledged_writes_survive_twenty_kills(server: EmbeddedServer) -> None:
    plane = server.control_plane()
    api = Api(plane)
    api.create("/api/v1/namespaces", {"metadata": {"name": "crash"}})
    journal = Journal()
    follower = Follower(Api(plane), str(api.get(MAPS).obj["metadata"]["resourceVersion"]))
    writers = [Writer(number, Api(plane), journal) for number in range(WRITERS)]
    threads: list[Writer | Follower] = [follower, *writers]
    for thread in threads:
        thread.serving.set()
        thread.start()
    try:
        kill_and_restart(server, journal, threads)
    finally:
        for writer in writers:
            writer.done.set()
        for writer in writers:
            writer.join(PATIENCE)
    assert [error for writer in writers for error in writer.errors] == []
    api.create(MAPS, {"metadata": {"name": "end"}})
    assert follower.finished.wait(PATIENCE), follower.failure or "the watcher never saw the end"
    check_stored(journal, api)
    check_followed(journal, follower, api)


def kill_and_restart(server: EmbeddedServer, journal: Journal, threads: list[Writer | Follower]) -> None:
    chance = random.Random(20)
    for _ in range(KILLS):
        journal.wait_for(journal.count + chance.randint(20, 120))
        for thread in threads:
            thread.serving.clear()
        server.kill()
        server.start()
        for thread in threads:
            thread.serving.set()


def listed(api: Api) -> dict[str, dict[str, str]]:
    items = api.get(f"{MAPS}?{OWN_MAPS}").obj["items"]
    return {item["metadata"]["name"]: item["data"] for item in items if item["metadata"]["name"] != "end"}


def check_stored(journal: Journal, api: Api) -> None:
    found = listed(api)
    for name, value in journal.stored.items():
        assert found.get(name) == content(value), f"{name}: acknowledged {value}, found {found.get(name)}"
    assert not journal.deleted & set(found), "an acknowledged deletion came back"
    for name, (before, after) in journal.doubtful.items():
        allowed = [None if value is None else content(value) for value in (before, after)]
        assert found.get(name) in allowed, f"{name} is half there"
    strangers = set(found) - set(journal.stored) - set(journal.doubtful)
    assert not strangers, "objects that nobody wrote"
    assert len(journal.doubtful) >= 1, "no write was under way at any kill: the test showed nothing"


def check_followed(journal: Journal, follower: Follower, api: Api) -> None:
    assert follower.failure == ""
    versions = [event[3] for event in follower.events]
    assert versions == sorted(set(versions)), "events out of order or twice"
    seen = set(follower.events)
    missing = [change for change in journal.versions if change not in seen]
    assert missing == [], f"{len(missing)} acknowledged changes were never seen"
    gone = {name for kind, name, _, _ in follower.events if kind == "DELETED"}
    assert journal.deleted <= gone
    state: dict[str, dict[str, str]] = {}
    for kind, name, value, _ in follower.events:
        if kind == "DELETED":
            del state[name]
        else:
            state[name] = content(value)
    assert state == listed(api), "replaying the watch does not give the list"
    assert follower.resumed >= KILLS // 2, "the watcher was hardly ever cut off"


def test_a_clean_stop_keeps_everything(server: EmbeddedServer) -> None:
    api = Api(server.control_plane())
    made = api.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}, "data": {"k": "v"}})
    assert server.stop() == 0
    server.start()
    api = Api(server.control_plane())
    found = api.get("/api/v1/namespaces/default/configmaps/a").obj
    assert found == made
    later = api.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "b"}})
    assert int(later["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    start = made["metadata"]["resourceVersion"]
    with api.watch(f"/api/v1/namespaces/default/configmaps?resourceVersion={start}&timeoutSeconds=10") as watch:
        assert [event["object"]["metadata"]["name"] for event in watch.take(1)] == ["b"]


def test_custom_kinds_and_accounts_survive_a_kill(server: EmbeddedServer) -> None:
    from .conftest import DEFINITIONS, wait_served
    from .kinds import GAUGES, gauge

    plane = server.control_plane()
    api = Api(plane)
    api.create(DEFINITIONS, GAUGES)
    path = "/apis/e2e.example.com/v1/namespaces/default/gauges"
    wait_served(api, path)
    made = api.create(path, gauge("a"))
    api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "robot"}})
    token = api.create("/api/v1/namespaces/default/serviceaccounts/robot/token", {})["status"]["token"]
    server.kill()
    server.start()
    again = server.control_plane()
    assert (again.admin_token, again.url) == (plane.admin_token, plane.url), "the kubeconfig that people hold still works"
    api = Api(again)
    wait_served(api, path)
    assert api.get(f"{path}/a").obj == made
    assert api.call("POST", path, gauge("b", capacity=0)).code == 422
    review = Api(again, token=token).call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert review.obj["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"
