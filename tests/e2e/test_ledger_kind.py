"""The Ledger's definition: accepted by the API server, guarded by its schema and rules, and readable for people."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from tests.unit.kube.cache.reader import HANG, ScriptedReader, Watch, added, initial_end
from ullage.kube.cache.cache import Cache
from ullage.kube.client.client import Client
from ullage.kube.crds.definitions import crd_of, to_yaml
from ullage.kube.kinds import Kind, Meta, Object
from ullage.ledger.amounts import NOTHING, Cell, Takings
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.book import Attempt, Observed, Slot, key_of
from ullage.ledger.codec import book_of, status_of
from ullage.ledger.service.views import Evaluator, KindView
from ullage.quantity import Format, Quantity

from .api import Api
from .conftest import DEFINITIONS, wait_served
from .kubectl import Kubectl

Json = dict[str, Any]
# Names of this process's own: workers that share a cluster make and delete the kind independently.
MARK = uuid.uuid4().hex[:6]
ONE = f"ledger{MARK}"
KIND = dataclasses.replace(
    LEDGERS, group=f"l{MARK}.example.com", kind=f"Ledger{MARK}", plural=f"ledgers{MARK}", short_names=(), categories=()
)
SNAPSHOTS = "volumesnapshots.snapshot.storage.k8s.io"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONFIRMED, MACHINES = 100_000, 100


@pytest.fixture(scope="module")
def kubectl_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kubectl-ledger")


@pytest.fixture(scope="module")
def served(api: Api, kubectl_home: Path) -> Iterator[Api]:
    admin = Kubectl(api.plane, namespace="default", home=kubectl_home)
    ran = admin("apply", "--server-side", "--field-manager=ullage", "-f", "-", stdin=to_yaml(crd_of(KIND)))
    assert ran.err == "", "no warnings"
    wait_served(api, KIND.path())
    yield api
    api.call("DELETE", f"{DEFINITIONS}/{KIND.name}")


@pytest.fixture
def kubectl(served: Api, namespace: str, kubectl_home: Path) -> Kubectl:
    return Kubectl(served.plane, namespace=namespace, home=kubectl_home)


def ledger(limits: Json) -> Json:
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": {"name": "ns-lab"},
        "spec": {"limits": limits},
    }


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({}, id="none"),
        pytest.param({"snapshots/namespace": {"storage": "100Gi", "snapshots": "0"}}, id="a limit, and a limit of zero"),
        pytest.param({"snapshots/vm/db-1.example": {"limits.memory": "1e3"}, "machines": {}}, id="names with dots and dashes"),
    ],
)
def test_limits_that_can_be(kubectl: Kubectl, limits: Json) -> None:
    kubectl("create", "-f", "-", stdin=ledger(limits))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        pytest.param({"machines": {"cpu": "-1"}}, "spec.limits.machines.cpu", id="a negative limit"),
        pytest.param({"machines": {"cpu": "1 core"}}, "spec.limits.machines.cpu", id="a limit that is no quantity"),
        pytest.param({"Machines": {"cpu": "1"}}, "names in lower case, separated by slashes", id="an account in upper case"),
        pytest.param({"snapshots/": {"storage": "1"}}, "names in lower case, separated by slashes", id="an empty part"),
    ],
)
def test_limits_that_cannot_be(kubectl: Kubectl, limits: Json, message: str) -> None:
    assert message in kubectl.fails("create", "-f", "-", stdin=ledger(limits))


def put_status(api: Api, namespace: str, change: Json) -> Json:
    """As a writer does it: the whole status, with the version that was read."""
    path = KIND.path(namespace, "ns-lab")
    found = api.get(path).obj
    return api.replace(f"{path}/status", {**found, "status": change})


def observed(view: int) -> Json:
    return {"pods": {"view": view, "time": "2026-01-01T00:00:00Z"}}


def test_a_count_never_goes_back_to_an_older_view(served: Api, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=ledger({}))
    put_status(served, kubectl.namespace, {"observed": observed(7)})
    put_status(served, kubectl.namespace, {"observed": observed(7)})
    with pytest.raises(AssertionError, match="a count cannot go back to an older view"):
        put_status(served, kubectl.namespace, {"observed": observed(6)})
    put_status(served, kubectl.namespace, {"observed": {}})
    put_status(served, kubectl.namespace, {"observed": observed(1)})


def test_a_sum_is_never_negative(served: Api, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=ledger({}))
    less = {"pods": {**observed(1)["pods"], "accounts": {"cups": {"pieces": "-90"}}}}
    with pytest.raises(AssertionError, match=r"status\.observed\.pods\.accounts\.cups\.pieces"):
        put_status(served, kubectl.namespace, {"observed": less})


def attempts(number: int) -> dict[str, Slot]:
    one = Takings({Cell("snapshots/namespace", "storage"): Quantity.parse("1Gi")})
    return {
        key_of(SNAPSHOTS, namespace="lab", name=f"nightly-{uuid.uuid4().hex[:5]}-{index}"): Slot(
            {str(uuid.uuid4()): Attempt(one, 1_767_225_600_000 + index, None)}, NOTHING
        )
        for index in range(number)
    }


class Snapshot(Object):
    """A snapshot of a machine's volume: a gibibyte, and a byte for each that came before it, so that sums are long numbers."""


SNAPSHOT_KIND = Kind("snapshot.storage.k8s.io", "v1", "VolumeSnapshot", "volumesnapshots", Snapshot)


def snapshot(number: int) -> Snapshot:
    labels = {"machine": f"machine-{number % MACHINES}"}
    meta = Meta(name=f"s{number}", namespace="lab", uid=f"uid-{number}", resource_version=str(number + 1), labels=labels)
    return Snapshot(metadata=meta)


def taken(found: Snapshot) -> Takings:
    """As a snapshot pays: into its namespace's account and its machine's."""
    size = Quantity.of((1 << 30) + int(found.metadata.resource_version), Format.BINARY_SI)
    accounts = ("snapshots/namespace", f"snapshots/vm/{found.metadata.labels['machine']}")
    return Takings({Cell(account, "storage"): size for account in accounts})


async def counted(number: int) -> Takings:
    """What a cache that has read so many snapshots counts for the ledger."""
    reader = ScriptedReader([Watch([*(added(snapshot(index)) for index in range(number)), initial_end(number)], end=HANG)])
    cache = Cache(reader, SNAPSHOT_KIND)
    nobody = cast("Client", None)  # nothing is past expiry here, so nothing is read live
    view = KindView(cache, Evaluator(lambda found: "ns-lab", taken), client=nobody)
    reading = asyncio.create_task(cache.run())
    await cache.synced.wait()
    reading.cancel()
    assert view.usable("ns-lab")
    return view.of("ns-lab").sums


def test_a_busy_ledger_is_kept_as_it_was_written_and_stays_small(served: Api, kubectl: Kubectl) -> None:
    """100,000 confirmed charges, on as many accounts as a namespace with a hundred machines has, and 500 pending."""
    sums = asyncio.run(counted(CONFIRMED))
    assert sums[Cell("snapshots/namespace", "storage")].value() == sum((1 << 30) + index + 1 for index in range(CONFIRMED))
    kubectl("create", "-f", "-", stdin=ledger({cell.account: {cell.resource: "200Ti"} for cell in sums}))
    path = KIND.path(kubectl.namespace, "ns-lab")
    read = msgspec.convert(served.get(path).obj, Ledger)
    book = dataclasses.replace(
        book_of(read, now=NOW),
        observed={SNAPSHOTS: Observed(CONFIRMED, NOW, sums)},
        pending=attempts(500),
    )
    status = status_of(book, read, sources={SNAPSHOTS}, now=NOW)
    written = put_status(served, kubectl.namespace, msgspec.to_builtins(status))
    assert book_of(msgspec.convert(written, Ledger), now=NOW) == book
    assert len(sums.cells) == 1 + MACHINES, "what was confirmed is a sum for each account, however many objects there are"
    assert len(json.dumps(written)) < 64 * 1024, "managedFields included"


def test_what_people_see(served: Api, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=ledger({"machines": {"cpu": "8"}, "snapshots/namespace": {"storage": "100Gi"}}))
    read = msgspec.convert(served.get(KIND.path(kubectl.namespace, "ns-lab")).obj, Ledger)
    sums = Takings.parse({"machines": {"cpu": "1"}, "snapshots/namespace": {"storage": "51712Mi"}})
    book = book_of(read, now=NOW)
    found = {SNAPSHOTS: Observed(7, NOW, sums)}
    book = type(book).of(
        limits=book.limits,
        observed=found,
        pending=attempts(2),
        limited=book.limited,
        since=book.since,
        exact_from={SNAPSHOTS: 7},
    )
    status = status_of(book, read, sources={SNAPSHOTS}, now=NOW)
    put_status(served, kubectl.namespace, msgspec.to_builtins(status))
    table = kubectl("get", ONE)
    assert table.lines[0].split() == ["NAME", "USED", "LIMIT", "%", "RESERVED", "READY", "AGE"]
    assert table.row("ns-lab")[1:6] == ["50.5Gi", "100Gi", "52%", "2Gi", "True"]
    wide = kubectl("get", ONE, "-o", "wide").row("ns-lab")
    assert wide[6:9] == ["snapshots/namespace", "storage", "True"]


def test_explain_says_which_units(served: Api, kubectl: Kubectl) -> None:
    for _ in range(200):  # kube-apiserver publishes the schema a moment after it serves the kind
        if kubectl.run("explain", KIND.name).code == 0:
            break
    said = " ".join(kubectl("explain", f"{ONE}.spec.limits").out.split())
    assert "bytes for storage and memory, cores for cpu, pieces for everything else" in said
    assert "absent has no limit, 0 allows none" in said
