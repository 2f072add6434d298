"""The Ledger's definition: accepted by the API server, guarded by its schema and rules, and readable for people."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from tests.unit.kube.cache.reader import HANG, ScriptedReader, Watch, added, initial_end
from ullage.kube.cache.cache import Cache
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.crds.definitions import crd_of, to_yaml
from ullage.kube.errors import Conflict
from ullage.kube.kinds import Kind, Meta, Object
from ullage.ledger.amounts import NOTHING, Cell, Takings, parse_limits
from ullage.ledger.anew import rebuilt
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.book import Attempt, Observed, Slot
from ullage.ledger.codec import book_of, status_of
from ullage.ledger.keys import key_of
from ullage.ledger.packing.strings import PackedError
from ullage.ledger.service import limits as setting
from ullage.ledger.service.limits import Outdated, set_limits
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
def test_limits_that_cannot_be(served: Api, kubectl: Kubectl, limits: Json, message: str) -> None:
    assert message in kubectl.fails("create", "-f", "-", stdin=ledger(limits))
    kubectl("create", "-f", "-", stdin={**ledger({}), "spec": AT_FIVE})
    for change in (5, 6):
        with pytest.raises(AssertionError, match=message if change > 5 else "a change number that rises|" + message):
            served.merge(KIND.path(kubectl.namespace, "ns-lab"), {"spec": {"change": change, "limits": limits}})


# --- limits change ---

AT_FIVE = {"change": 5, "limits": {"machines": {"cpu": "8"}, "cups": {"pieces": "1"}}}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"change": 6, "limits": {"machines": {"cpu": "4"}}}, id="a lower limit with the next number"),
        pytest.param({"change": 9, "limits": {"machines": None, "cups": {"pieces": None, "size": "2"}}}, id="limits that go"),
        pytest.param({"change": 6}, id="a number alone"),
        pytest.param({"change": 6, "grants": {"machines": {"cpu": "100"}}}, id="a limit that becomes a grant"),
        pytest.param({}, id="nothing at all"),
        pytest.param(AT_FIVE, id="the same once more, as after an answer that was lost"),
    ],
)
def test_a_change_that_is_taken(served: Api, kubectl: Kubectl, change: Json) -> None:
    kubectl("create", "-f", "-", stdin={**ledger({}), "spec": AT_FIVE})
    path = KIND.path(kubectl.namespace, "ns-lab")
    served.merge(path, {"spec": change})
    put_status(served, kubectl.namespace, {"observed": observed(7)})
    assert served.get(path).obj["spec"]["change"] == change.get("change", 5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"change": 5, "limits": {"machines": {"cpu": "9"}}}, "a change number that rises", id="the same number"),
        pytest.param({"change": 4, "limits": {"machines": {"cpu": "9"}}}, "a change number that rises", id="an older number"),
        pytest.param({"limits": {"machines": {"cpu": "9"}}}, "a change number that rises", id="no number"),
        pytest.param({"limits": None}, "a change number that rises", id="no limits"),
        pytest.param({"change": None}, "a change number that rises", id="a number taken back"),
        pytest.param({"change": 4}, "a change number that rises", id="an older number alone"),
        pytest.param({"change": -1, "limits": {}}, "spec.change", id="a negative number"),
        pytest.param({"grants": {"machines": {"cpu": "9"}}}, "a change number that rises", id="a limit that becomes a grant"),
        pytest.param({"change": 6, "grants": {"machines": {"cpu": "-9"}}}, "spec.grants.machines.cpu", id="a negative whole"),
        pytest.param(None, "the limits and their change number stay", id="nothing left"),
    ],
)
def test_a_change_that_is_refused(served: Api, kubectl: Kubectl, change: Json | None, message: str) -> None:
    kubectl("create", "-f", "-", stdin={**ledger({}), "spec": AT_FIVE})
    path = KIND.path(kubectl.namespace, "ns-lab")
    with pytest.raises(AssertionError, match=message):
        served.merge(path, {"spec": change})
    assert served.get(path).obj["spec"] == AT_FIVE


def test_a_ledger_without_a_number_takes_a_first_one(served: Api, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=ledger({"machines": {"cpu": "8"}}))
    path = KIND.path(kubectl.namespace, "ns-lab")
    with pytest.raises(AssertionError, match="a change number that rises"):
        served.merge(path, {"spec": {"limits": {"machines": {"cpu": "9"}}}})
    assert served.merge(path, {"spec": {"change": 1, "limits": {"machines": {"cpu": "9"}}}})["spec"]["change"] == 1


def test_limits_are_set_without_a_version_and_switch_managed_fields_off(
    served: Api, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a ledger that is written all the time, as a client of the project sets them."""
    monkeypatch.setattr(setting, "LEDGERS", KIND)
    path = KIND.path(kubectl.namespace, "ns-lab")
    config = Config.load(str(served.plane.kubeconfig))
    kubectl("create", "-f", "-", stdin=ledger({"machines": {"cpu": "9"}}))
    assert "managedFields" in served.get(path).obj["metadata"]

    async def run() -> None:
        async with Client(config) as client:
            change = partial(set_limits, client, "ns-lab", namespace=kubectl.namespace)
            first = parse_limits({"machines": {"cpu": "8"}, "cups": {"pieces": "1"}})
            seen = await change(first)
            assert (seen.spec.change, seen.spec.limits) == (1, {"machines": {"cpu": "8"}, "cups": {"pieces": "1"}})
            await set_limits(client, "ns-new", first, namespace=kubectl.namespace)
            writing = asyncio.create_task(book_on(client, seen, times=50))
            for pieces in range(2, 12):
                await change(parse_limits({"cups": {"pieces": str(pieces)}}), about="cups")
            last = await change(parse_limits({"cups": {"pieces": "3"}}), number=90)
            assert (last.spec.change, last.spec.limits) == (90, {"cups": {"pieces": "3"}})
            with pytest.raises(Outdated, match="change 89 comes too late, it has change 90 already"):
                await change(parse_limits({"cups": {"pieces": "9"}}), number=89)
            await writing

    asyncio.run(run())
    found, new = served.get(path).obj, served.get(KIND.path(kubectl.namespace, "ns-new")).obj
    assert "managedFields" not in {**found["metadata"], **new["metadata"]}
    assert found["status"]["pending"] == "50"


async def book_on(client: Client, ledger: Ledger, *, times: int) -> None:
    """Writes of the status, one after the other, each on the version that the one before had or that was read since."""
    for number in range(1, times + 1):
        while True:
            status = msgspec.structs.replace(ledger.status, pending=str(number))
            try:
                ledger = await client.update_status(KIND, msgspec.structs.replace(ledger, status=status))
                break
            except Conflict:
                ledger = await client.get(KIND, "ns-lab", ledger.metadata.namespace)


def put_status(api: Api, namespace: str, change: Json | None) -> Json:
    """As a writer does it: the whole status, with the version that was read."""
    path = KIND.path(namespace, "ns-lab")
    found = api.get(path).obj
    return api.replace(f"{path}/status", {**found, "status": change})


def observed(view: int) -> Json:
    return {"pods": {"view": view, "time": "2026-01-01T00:00:00Z"}}


def said(*, epoch: int = 0, anew: Json | None = None, **views: int) -> Json:
    """A status with counts at these positions. `anew`: the epochs that counts are of."""
    found = {name.replace("_", "/"): {"view": view, "time": "2026-01-01T00:00:00Z"} for name, view in views.items()}
    return {"observed": found, "epoch": epoch, "epochs": anew or {}}


AT_SEVEN = said(pods=7, pods_east=7, epoch=2, anew={"jobs": 2})


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(AT_SEVEN, id="the same once more"),
        pytest.param(said(pods=8, pods_east=7, jobs=1, epoch=2), id="later ones, and one more"),
        pytest.param(said(pods=7, epoch=2), id="a cluster is gone"),
        pytest.param(said(pods=0, pods_east=7, epoch=3, anew={"pods": 3}), id="one goes back in a new epoch of its own"),
        pytest.param(said(epoch=3, anew={"pods": 3, "pods/east": 3}), id="all are gone in a new epoch"),
    ],
)
def test_what_may_be_said_after_a_count(served: Api, kubectl: Kubectl, status: Json) -> None:
    kubectl("create", "-f", "-", stdin=ledger({}))
    put_status(served, kubectl.namespace, AT_SEVEN)
    put_status(served, kubectl.namespace, status)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        pytest.param(said(pods=6, pods_east=7, epoch=2), "back to an older view", id="an older view"),
        pytest.param(said(pods=7, pods_east=6, epoch=2), "back to an older view", id="an older view of another cluster"),
        pytest.param(said(pods_east=7, epoch=2), "back to an older view", id="no view, so that any might come next"),
        pytest.param({"epoch": 2}, "back to an older view", id="no views at all"),
        pytest.param(said(pods=6, pods_east=7, epoch=3), "back to an older view", id="a new epoch of nothing"),
        pytest.param(
            said(pods=6, pods_east=6, epoch=3, anew={"pods/east": 3}), "back to an older view", id="a new epoch of another"
        ),
        pytest.param(
            said(pods=6, pods_east=7, epoch=2, anew={"pods": 2}), "back to an older view", id="an epoch that is not new"
        ),
        pytest.param(
            said(pods=6, pods_east=7, epoch=4, anew={"pods": 3}), "back to an older view", id="an epoch that is not the last"
        ),
        pytest.param(said(pods=7, pods_east=7, epoch=1), "the epoch never goes down", id="an older epoch"),
        pytest.param(said(pods=7, pods_east=7, epoch=-1), "status.epoch", id="less than no epoch"),
        pytest.param(None, "what was counted stays", id="nothing left"),
    ],
)
def test_what_may_not_be_said_after_a_count(served: Api, kubectl: Kubectl, status: Json | None, message: str) -> None:
    kubectl("create", "-f", "-", stdin=ledger({}))
    put_status(served, kubectl.namespace, AT_SEVEN)
    with pytest.raises(AssertionError, match=message):
        put_status(served, kubectl.namespace, status)


def test_a_count_of_before_sums_were_packed_is_not_taken_for_nothing(served: Api, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=ledger({}))
    before = {"pods": {**observed(1)["pods"], "accounts": {"cups": {"pieces": "90"}}}}
    written = put_status(served, kubectl.namespace, {"observed": before})
    with pytest.raises(PackedError, match="pods was counted, and has no sums; `ullage ledger rebuild ns-lab`"):
        book_of(msgspec.convert(written, Ledger), now=NOW)
    assert book_of(rebuilt(msgspec.convert(written, Ledger), now=NOW), now=NOW).observed == {}


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
    assert "snapshots/namespace storage: used 50.5Gi, reserved 2Gi, limit 100Gi" in kubectl("describe", ONE, "ns-lab").out


def test_explain_says_which_units(served: Api, kubectl: Kubectl) -> None:
    for _ in range(200):  # kube-apiserver publishes the schema a moment after it serves the kind
        if kubectl.run("explain", KIND.name).code == 0:
            break
    said = " ".join(kubectl("explain", f"{ONE}.spec.limits").out.split())
    assert "bytes for storage and memory, cores for cpu, pieces for everything else" in said
    assert "absent has no limit, 0 allows none" in said
    said = " ".join(kubectl("explain", f"{ONE}.spec.grants").out.split())
    assert "waited for as long as the request lasts, where any other limit refuses at once" in said
