"""A tenant makes VolumeSnapshots of claims that do not exist, or of one that is never bound, as many as he can. They cost him
next to nothing, and controllers look at them again and again. What a user of another namespace sees of it is measured, in
milliseconds.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from .apart import IS_BORROWED
from .api import Api
from .snapshot_scene import GA, Scene, eventually
from .snapshot_scene import scene as made_scene

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]

MOST = 40  # that may wait in one namespace here
ASKED, AT_ONCE = 600, 16
TIMES = 15  # that the victim asks
CREATED, FORBIDDEN, AGAIN = 201, 403, 429
LEDGERS = "/apis/ullage.io/v1alpha1/namespaces/ullage-system/ledgers"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with made_scene(tmp_path_factory.mktemp("waiting")) as made:
        webhook = [*made.webhook(), "--waiting-snapshots", str(MOST)]
        with made.running(made.world(), made.controller(), webhook):
            yield made


def milliseconds(api: Api, namespace: str, name: str) -> float:
    """For one create of a snapshot. It is asked for again where the server says so: its volume was just measured."""
    for _ in range(20):
        began = time.perf_counter()
        answer = api.call("POST", GA.snapshots(namespace), GA.of_claim(name, "disk"))
        if answer.code != AGAIN:
            break
        time.sleep(float(answer.headers.get("retry-after", 1)))
    assert answer.code == CREATED, answer.raw
    return (time.perf_counter() - began) * 1000


def never_bound(scene: Scene, namespace: str, name: str) -> None:
    """A claim of a byte, whose class nobody has."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "nobody-has-it",
        "resources": {"requests": {"storage": "1"}},
    }
    scene.api.create(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", {"metadata": {"name": name}, "spec": spec})


@pytest.mark.parametrize("exists", [False, True], ids=["claims that do not exist", "a claim that is never bound"])
def test_snapshots_without_a_volume_are_few_and_their_neighbour_hardly_sees_them(
    scene: Scene, capsys: pytest.CaptureFixture[str], exists: bool
) -> None:
    victim, attacker = scene.namespace(), scene.namespace()
    if exists:
        never_bound(scene, attacker, "pending")
    scene.claim(victim, "disk")
    api = Api(scene.plane, connections=AT_ONCE + 1)
    before = statistics.median(milliseconds(api, victim, f"before-{number}") for number in range(TIMES))

    def attack(number: int) -> int:
        claim = "pending" if exists else f"nothing-{number}"
        return api.call("POST", GA.snapshots(attacker), GA.of_claim(f"none-{number}", claim)).code

    with ThreadPoolExecutor(AT_ONCE) as pool:
        told = Counter(pool.map(attack, range(ASKED)))
    # From the moment that the ledger has the limit, nothing passes it; what was asked in the moment before is counted in it.
    ledger = f"{LEDGERS}/ns-{attacker}"
    limits = api.get(ledger).obj["spec"]["limits"]
    assert limits == {"snapshots-waiting/namespace": {"snapshots": str(MOST)}}
    assert told[CREATED] <= MOST + AT_ONCE, told
    assert told.keys() <= {CREATED, FORBIDDEN, AGAIN}, told

    def is_refused() -> bool:
        answer = api.call("POST", GA.snapshots(attacker), GA.of_claim("more", "nothing"))
        assert answer.code in (FORBIDDEN, AGAIN, CREATED, 409)
        return answer.code == FORBIDDEN and "snapshots-waiting/namespace" in answer.message

    fill = iter(range(ASKED, ASKED * 2))
    eventually("the account is full", lambda: attack(next(fill)) == FORBIDDEN)
    eventually("a refusal names the account", is_refused)
    there = len(api.get(GA.snapshots(attacker)).obj["items"])
    assert there <= MOST + AT_ONCE

    after = statistics.median(milliseconds(api, victim, f"after-{number}") for number in range(TIMES))
    with capsys.disabled():
        print(f"\nof {ASKED} asked {there} wait; a create of the victim: {before:.0f} ms before, {after:.0f} ms beside them")
    if exists:
        return

    # The claim comes: its snapshot is paid for before the cut, becomes ready, and gives its place back.
    (name,) = api.get(GA.snapshots(attacker)).obj["items"][:1]
    claim = name["spec"]["source"]["persistentVolumeClaimName"]
    scene.claim(attacker, claim)
    path = f"{GA.snapshots(attacker)}/{name['metadata']['name']}"
    eventually("the snapshot is ready", lambda: GA.ready(api.get(path).obj), seconds=90)
    assert api.get(path).obj["metadata"]["annotations"]["ullage.io/waits-for-source"] == "false"
