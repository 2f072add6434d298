"""Two clusters in one process, whose ledgers are in a third: one is cut off and comes back, one is removed and comes again."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.unit.ledger.counted import counted
from tools.peers.kube.build import programs
from ullage.kube.crds.definitions import crd_of
from ullage.kube.kinds import Kind
from ullage.ledger.api import LEDGERS, NAMESPACE

from .api import Answer, Api
from .choice import DISPOSABLE
from .cluster_slice import YARDS, secret_of
from .conftest import DEFINITIONS, wait_served
from .control_plane import ControlPlane, EmbeddedServer
from .leash import put_down
from .ledger_slice import CELL, CUPS
from .real import RealControlPlane
from .test_ledger import EXPIRY, REQUEST_TIMEOUT, until

Json = dict[str, Any]
OURS, OTHERS = "project-ours", "project-others"
LAB = "lab"
HASTE = ("--request-timeout", str(REQUEST_TIMEOUT))


class Place:
    """A cluster that cups stand in."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._stirs = 0
        self.server = EmbeddedServer(folder / "data", ephemeral=False, options=HASTE)
        self.server.data_dir.mkdir()
        self.server.start()
        self.api = Api(self.server.control_plane())
        define(self.api, CUPS)
        self.api.create("/api/v1/namespaces", {"metadata": {"name": LAB}})

    def create(self, name: str, size: int, *, dry_run: bool = False) -> Answer:
        body = {"apiVersion": CUPS.api_version, "kind": CUPS.kind, "metadata": {"name": name}, "spec": {"size": size}}
        return self.api.call("POST", CUPS.path(LAB) + ("?dryRun=All" if dry_run else ""), body)

    def delete(self, name: str) -> None:
        assert self.api.call("DELETE", CUPS.path(LAB, name)).code == 200

    def stir(self) -> None:
        """The watch of an idle kind moves on about once a minute. Something that takes nothing moves it on at once."""
        if self.server.alive():
            self._stirs += 1
            assert self.create(f"nothing-{self._stirs}", 0).code in (201, 429, 500)

    def total(self) -> int:
        return sum(cup["spec"]["size"] for cup in self.api.get(CUPS.path(LAB)).obj["items"])


class Home:
    """Where the ledgers are, and the process that serves them."""

    def __init__(self, api: Api, folder: Path) -> None:
        self.api = api
        self.log = folder / "process.log"
        self.places: list[Place] = []
        self._running: list[subprocess.Popen[bytes]] = []

    def limit(self, name: str, pieces: int) -> None:
        limits = {CELL.account: {CELL.resource: str(pieces)}}
        body = {"apiVersion": LEDGERS.api_version, "kind": LEDGERS.kind, "metadata": {"name": name}, "spec": {"limits": limits}}
        self.api.create(LEDGERS.path(NAMESPACE), body)

    def add(self, name: str, place: Place, ledger: str = OURS) -> None:
        text = base64.b64encode(place.server.kubeconfig.read_bytes()).decode()
        path = f"/api/v1/namespaces/{NAMESPACE}/secrets"
        self.api.call("DELETE", f"{path}/{secret_of(name)}")
        self.api.create(path, {"metadata": {"name": secret_of(name)}, "data": {"kubeconfig": text}})
        body = {"apiVersion": YARDS.api_version, "kind": YARDS.kind, "metadata": {"name": name}, "spec": {"ledger": ledger}}
        self.api.create(YARDS.path(NAMESPACE), body)
        self.places.append(place)

    def remove(self, name: str) -> None:
        assert self.api.call("DELETE", YARDS.path(NAMESPACE, name)).code == 200

    def serve(self) -> None:
        command = [sys.executable, "-m", "tests.e2e.cluster_slice", "--namespace", NAMESPACE]
        command += ["--kubeconfig", str(self.api.plane.kubeconfig)]
        command += ["--request-timeout", str(REQUEST_TIMEOUT), "--expiry", str(EXPIRY)]
        with self.log.open("ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self._running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline(), self.log.read_text()[-4000:]

    def ready(self, ledger: str = OURS) -> str:
        status = self.api.get(LEDGERS.path(NAMESPACE, ledger)).obj.get("status", {})
        found = [one for one in status.get("conditions", ()) if one["type"] == "Ready"]
        return f"{found[0]['status']}: {found[0]['message']}" if found else ""

    def used(self) -> dict[str, int]:
        """By cluster, what is counted."""
        status = self.api.get(LEDGERS.path(NAMESPACE, OURS)).obj.get("status", {})
        sums = counted(status.get("sums", ""))
        found = {name.partition("/")[2]: takings.get(CELL.account, {}) for name, takings in sums.items()}
        return {name: int(cells.get(CELL.resource, "0")) for name, cells in found.items()}

    def settled(self, **used: int) -> None:
        """Everything is counted, and nothing is on its way."""

        def holds() -> bool:
            for place in self.places:
                place.stir()
            status = self.api.get(LEDGERS.path(NAMESPACE, OURS)).obj.get("status", {})
            return self.used() == used and not status.get("pending") and self.ready() == "True: everything is counted"

        try:
            until(holds, f"{used} is counted", seconds=60)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.used()}, {self.ready()}\n{self.log.read_text()[-4000:]}") from error

    def end(self) -> None:
        put_down(self._running)


def define(api: Api, *kinds: Kind[Any]) -> None:
    for kind in kinds:
        assert api.call("POST", DEFINITIONS, crd_of(kind)).code == 201
        wait_served(api, kind.path())


@pytest.fixture
def home(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Home]:
    server: EmbeddedServer | RealControlPlane
    if control_plane.embedded:
        server = EmbeddedServer(tmp_path / "home" / "data")
        server.data_dir.mkdir(parents=True)
    elif os.environ.get(DISPOSABLE):
        server = RealControlPlane(programs(os.environ))
    else:
        pytest.skip("the ledgers of a cluster are its owner's")
    server.start()
    try:
        api = Api(server.control_plane())
        define(api, LEDGERS, YARDS)
        api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        found = Home(api, tmp_path)
        yield found
        found.end()
    finally:
        server.stop()


@pytest.fixture
def places(tmp_path: Path) -> Iterator[list[Place]]:
    with ExitStack() as stack:
        found = [Place(tmp_path / name) for name in ("near", "far", "again")]
        for place in found:
            stack.callback(place.server.stop)
        yield found


def asked(place: Place) -> None:
    """Waits until the hook is called: what is far too large is refused."""
    until(lambda: place.create("probe", 1000, dry_run=True).code == 403, "the hook is called", seconds=60)


def fits(place: Place, name: str, size: int) -> bool:
    """Whether it is admitted; refused for any other reason than that it does not fit, it is an error."""
    answer = place.create(name, size)
    if answer.code != 201:
        # Room that a create of a moment ago holds is told to be waited for.
        advice = any(step in answer.obj["message"] for step in ("take one away", "those requests"))
        assert (answer.code, advice) == (403, True), answer.raw
    return answer.code == 201


def crowd(places: list[Place], names: str, count: int) -> Counter[int]:
    """How many of those who ask at once, for one each, are answered what."""
    with ThreadPoolExecutor(16) as pool:
        asks = [pool.submit(places[n % len(places)].create, f"{names}-{n}", 1) for n in range(count)]
        return Counter(one.result().code for one in asks)


@pytest.mark.slow
def test_usage_is_right_at_every_step_while_clusters_come_are_cut_off_and_go(home: Home, places: list[Place]) -> None:
    near, far, again = places
    home.limit(OURS, 20)
    home.limit(OTHERS, 5)
    assert far.create("old", 3).code == 201, "before anybody asked"
    home.add("near", near)
    home.add("far", far)
    home.serve()
    asked(near)
    asked(far)
    home.settled(near=0, far=3)

    # Both at once, up to the last piece.
    assert fits(near, "a", 4)
    assert fits(far, "b", 2)
    assert crowd([near, far], "n", 30) == {201: 11, 403: 19}
    assert near.total() + far.total() == 20
    home.settled(near=near.total(), far=far.total())

    # One is cut off: what it has stays counted, and the other's admissions are exact.
    there = far.total()
    assert far.server.stop() == 0
    near.delete("a")
    home.settled(near=near.total(), far=there)
    assert crowd([near], "m", 10) == {201: 4, 403: 6}
    home.settled(near=near.total(), far=there)
    assert near.total() + there == 20
    assert home.ready(OTHERS) == "True: everything is counted"

    # It comes back.
    far.server.start()
    wait_served(far.api, CUPS.path())
    assert far.total() == there
    far.delete("old")
    home.settled(near=near.total(), far=there - 3)
    asked(far)
    assert fits(far, "c", 3)
    assert not fits(near, "d", 1)
    home.settled(near=near.total(), far=there)

    # It is removed on purpose, though it is there: what it has counts no more, and nobody asks for it.
    home.remove("far")
    home.settled(near=near.total())
    until(lambda: far.create("e", 1).code == 429, "it is told that it is not followed any more")
    assert crowd([near], "o", 30) == {201: there, 403: 30 - there}
    home.settled(near=20)

    # Another one comes under its name, whose positions are lower; what it brings is counted, past the limit too.
    assert again.create("new", 2).code == 201
    home.add("far", again)
    asked(again)
    home.settled(near=20, far=2)
    assert not fits(again, "f", 1)
    again.delete("new")
    near.delete("n-0")
    home.settled(near=19, far=0)
    assert fits(again, "g", 1)
    assert not fits(near, "h", 1)
    home.settled(near=19, far=1)
    log = home.log.read_text()
    assert "Traceback" not in log, log
