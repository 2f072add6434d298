"""Limits on the number of snapshots: 200 are asked for at once, of both APIs, through two replicas of the webhook; the limit
holds at every instant, and what is protected or in use stays."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from .apart import IS_BORROWED
from .api import Answer, Api
from .slow_hook import GROUP, slow_hook
from .snapshot_scene import BOTH, GA, Dialect, Scene, eventually
from .snapshot_scene import scene as made_scene
from .test_admission import shared_port

Json = dict[str, Any]
ASKED, MOST = 200, 40
KEPT = ("protected-1", "protected-2", "in-use")
PATIENCE = 12.0  # seconds for which a client tries again
CREATED, FORBIDDEN, AGAIN = 201, 403, 429
LATE = 500  # where two hundred ask at once, a webhook on a machine with other work may not answer one in time

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with ExitStack() as stack:
        made = stack.enter_context(made_scene(tmp_path_factory.mktemp("counts")))
        port = stack.enter_context(shared_port())
        command = made.webhook()
        replica = [str(port) if before == "--port" else one for before, one in zip(["", *command], command, strict=False)]
        stack.enter_context(made.running(made.world(), made.controller(), replica, replica))
        yield made


class Limited:
    """A namespace with a claim and a SnapshotLimit."""

    def __init__(self, scene: Scene, **spec: Any) -> None:
        self.scene = scene
        self.api = Api(scene.plane, connections=ASKED, connect=60.0)
        self.namespace = scene.namespace()
        (scene.files(scene.claim(self.namespace, "disk")) / "file").write_text("data")
        self.limits = f"/apis/ullage.io/v1alpha1/namespaces/{self.namespace}/snapshotlimits"
        body = {"apiVersion": "ullage.io/v1alpha1", "kind": "SnapshotLimit", "metadata": {"name": "limit"}, "spec": spec}
        self.api.create(self.limits, body)
        eventually("the limit is in the ledger", lambda: self.reason("Ready") not in ("", "Pending"))

    def status(self) -> Json:
        found: Json = self.api.get(f"{self.limits}/limit").obj.get("status", {})
        return found

    def reason(self, type: str) -> str:
        return next((str(one["reason"]) for one in self.status().get("conditions", ()) if one["type"] == type), "")

    def ask(self, name: str, dialect: Dialect = GA, **annotations: str) -> Answer:
        body = dialect.of_claim(name, "disk")
        body["metadata"]["annotations"] = {f"ullage.io/{key}": value for key, value in annotations.items()}
        answer = self.api.call("POST", dialect.snapshots(self.namespace), body)
        assert answer.code != LATE or "context deadline exceeded" in answer.message, answer.raw
        return answer

    def insist(self, name: str, dialect: Dialect) -> list[Answer]:
        """All that it was answered: it tries again for as long as it is told to, and is patient."""
        end, answers = time.monotonic() + PATIENCE, [self.ask(name, dialect)]
        while answers[-1].code in (AGAIN, LATE) and time.monotonic() < end:
            time.sleep(float(answers[-1].headers.get("retry-after", 1)))
            answers.append(self.ask(name, dialect))
        return answers

    def take(self, name: str, dialect: Dialect = GA, **annotations: str) -> None:
        assert (answer := self.ask(name, dialect, **annotations)).code == CREATED, answer.raw
        path = f"{dialect.snapshots(self.namespace)}/{name}"
        eventually(f"{name} is ready", lambda: dialect.ready(self.api.get(path).obj))

    def names(self) -> set[str]:
        listed = (self.api.get(one.snapshots(self.namespace)).obj["items"] for one in BOTH)
        return {one["metadata"]["name"] for items in listed for one in items}

    @contextmanager
    def followed(self) -> Iterator[list[tuple[int, str, str]]]:
        """What comes and goes meanwhile, of both APIs, in the order in which it does once this is left."""
        seen: list[tuple[int, str, str]] = []
        threads, last = [], "at-the-end"
        for dialect in BOTH:
            path = dialect.snapshots(self.namespace)
            version = self.api.get(path).obj["metadata"]["resourceVersion"]
            args = (f"{path}?resourceVersion={version}", last, seen)
            threads.append(threading.Thread(target=self._follow, args=args, daemon=True))
            threads[-1].start()
        yield seen
        for dialect in BOTH:  # one more of each tells that everything before it was seen
            if self.api.call("POST", dialect.snapshots(self.namespace), dialect.of_claim(last, "disk")).code != CREATED:
                path = f"{dialect.snapshots(self.namespace)}/{sorted(self._own(dialect))[0]}"
                self.api.merge(path, {"metadata": {"labels": {"last": last}}})
        for one in threads:
            one.join(30)
        assert not any(one.is_alive() for one in threads)
        seen.sort()

    def _own(self, dialect: Dialect) -> list[str]:
        return [one["metadata"]["name"] for one in self.api.get(dialect.snapshots(self.namespace)).obj["items"]]

    def _follow(self, path: str, last: str, seen: list[tuple[int, str, str]]) -> None:
        group = path.split("/")[2]
        with self.api.watch(path) as events:
            for event in events:
                meta = event["object"]["metadata"]
                if meta["name"] == last or meta.get("labels", {}).get("last") == last:
                    return
                if event["type"] in ("ADDED", "DELETED"):
                    seen.append((int(meta["resourceVersion"]), event["type"], f"{group}/{meta['name']}"))


def test_of_two_hundred_at_once_exactly_as_many_come_as_may(scene: Scene) -> None:
    tenant = Limited(scene, snapshots=MOST)
    with tenant.followed() as seen, ThreadPoolExecutor(ASKED) as pool:
        answers = list(pool.map(lambda n: tenant.ask(f"s-{n}", BOTH[n % 2]), range(ASKED)))
        answers += list(pool.map(lambda n: tenant.ask(f"t-{n}", BOTH[n % 2]), range(ASKED // 10)))
    codes = Counter(one.code for one in answers)
    assert codes[CREATED] == MOST, codes
    assert set(codes) <= {CREATED, FORBIDDEN, AGAIN, LATE}, codes  # a replica that is too busy asks for patience
    refused = next(one for one in answers if one.code == FORBIDDEN)
    assert f"limit {MOST}, over by 1" in refused.message, refused.message
    assert most_at_once(seen, 0) == MOST
    eventually("the status has the count", lambda: tenant.status().get("used") == MOST)
    assert tenant.status()["limit"] == MOST


def test_with_the_oldest_making_room_the_limit_holds_at_every_instant_and_nothing_goes_that_is_kept(scene: Scene) -> None:
    tenant = Limited(scene, snapshots=MOST, deleteOldest=True)
    for name in ("old-1", *KEPT, "old-2"):
        tenant.take(name, protected=str(name.startswith("protected")).lower())
    fill_for_ever(tenant, "in-use")
    before = len(tenant.names())
    with tenant.followed() as seen, ThreadPoolExecutor(ASKED) as pool:
        told = list(pool.map(lambda n: tenant.insist(f"s-{n}", BOTH[n % 2]), range(ASKED)))
    assert most_at_once(seen, before) == MOST
    gone = {name.partition("/")[2] for _, type, name in seen if type == "DELETED"}
    assert {"old-1", "old-2"} <= gone, "the oldest went"
    assert not gone & set(KEPT)
    assert set(KEPT) <= tenant.names()
    waited = [one for one in told if one[0].code == AGAIN]
    codes = Counter(one[-1].code for one in told)
    assert set(codes) <= {CREATED, AGAIN, FORBIDDEN, LATE}, codes
    assert len(gone) <= len(waited), "no more than were asked for"
    eventually("who is patient comes", lambda: tenant.insist("last", GA)[-1].code == CREATED)
    asked = next(one for answers in told for one in answers if "being deleted" in one.message)
    assert asked.obj["details"]["retryAfterSeconds"] == 1
    assert asked.headers["retry-after"] == "1"


def test_where_everything_is_kept_a_new_one_is_told_why(scene: Scene) -> None:
    tenant = Limited(scene, snapshotsPerClaim=1, deleteOldest=True)
    tenant.take("mine", protected="true")
    refused = tenant.ask("new")
    assert refused.code == FORBIDDEN
    assert "1 is protected by the annotation ullage.io/protected" in refused.message
    tenant.api.merge(f"{GA.snapshots(tenant.namespace)}/mine", {"metadata": {"annotations": {"ullage.io/protected": None}}})
    eventually("it makes room", lambda: tenant.ask("new").code == CREATED)
    assert tenant.names() == {"new"}


def test_nothing_is_deleted_for_what_another_webhook_refuses(scene: Scene, tmp_path: Path) -> None:
    """Each create is tried as a dry run first. A good one makes room for itself, and for itself alone."""
    tenant = Limited(scene, snapshots=3, deleteOldest=True)
    for name in ("old-1", "old-2", "old-3"):
        tenant.take(name)
    with slow_hook(tmp_path) as other:
        other.refusal = "snapshots have to be named by the rules"
        made = other.configuration(
            "ValidatingWebhookConfiguration",
            f"other-{tenant.namespace}",
            namespace=tenant.namespace,
            group=GA.group,
            plural="volumesnapshots",
        )
        path = f"{GROUP}/validatingwebhookconfigurations"
        scene.api.create(path, made)
        try:
            eventually("it is asked", lambda: other.refusal in tenant.ask("probe").message)
            for turn in range(6):
                refused = tenant.ask(f"bad-{turn}")
                assert refused.code == FORBIDDEN, refused.raw
            other.refusal = ""
            assert tenant.names() == {"old-1", "old-2", "old-3"}
            assert tenant.insist("good", GA)[-1].code == CREATED
        finally:
            assert scene.api.call("DELETE", f"{path}/other-{tenant.namespace}").code == 200
    assert tenant.names() == {"old-2", "old-3", "good"}


def test_a_limit_as_kubectl_shows_it(scene: Scene) -> None:
    tenant = Limited(scene, snapshots=5, snapshotsPerClaim=2)
    tenant.take("one")
    eventually("it is counted", lambda: tenant.status().get("used") == 1)
    headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    table = tenant.api.call("GET", tenant.limits, headers=headers).obj
    columns = [one["name"] for one in table["columnDefinitions"] if not one["priority"]]
    assert columns == ["Name", "Limit", "Used", "Per-Claim", "Delete-Oldest", "Within", "Age"]
    assert table["rows"][0]["cells"][1:4] == [5, 1, 2]
    bad = tenant.api.call("POST", tenant.limits, {"metadata": {"name": "none"}, "spec": {"deleteOldest": True}})
    assert bad.code == 400 or "set snapshots (for the namespace), snapshotsPerClaim, or both" in bad.message, bad.raw


def fill_for_ever(tenant: Limited, snapshot: str) -> None:
    """A claim that is to be filled from it, and whose class nobody serves."""
    source = {"apiGroup": GA.group, "kind": "VolumeSnapshot", "name": snapshot}
    tenant.scene.claim(tenant.namespace, "restored", storageClassName="nobody-serves-it", dataSource=source)


def most_at_once(seen: list[tuple[int, str, str]], before: int) -> int:
    """The most that there ever were."""
    most = now = before
    for _, type, _ in seen:
        now += 1 if type == "ADDED" else -1
        most = max(most, now)
    return most
