"""Hooks in a cluster whose administrator would rather not be asked: whatever he changes there is put back, and told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from ullage.admission.callers import Callers
from ullage.admission.elsewhere import Elsewhere, ElsewhereRegistration
from ullage.admission.metrics import Metrics
from ullage.admission.registration import ByUrl
from ullage.kube.builtin.admissionregistration import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.projects.machines.registrations import SELECTED, missing
from ullage.projects.webhook.machines import MachineWebhook

from .apart import IS_BORROWED, own_plane
from .api import Api
from .control_plane import ControlPlane

pytestmark = pytest.mark.skipif(IS_BORROWED, reason="Machines of a borrowed cluster are not refused for a test")

Json = dict[str, Any]
NAME = "ullage-elsewhere"
PATHS = {
    kind: f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{NAME}" for kind in ("validating", "mutating")
}
ADMITS = "/webhooks/0"  # the hook that books a new Machine
OTHERS: Json = {
    "name": "audit.example.com",
    "clientConfig": {"url": "https://audit.example.com/"},
    "matchConditions": [{"name": "never", "expression": "false"}],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with own_plane(tmp_path_factory.mktemp("user")) as found:
        yield found


class Scene:
    """The seed's registration in one user cluster, and what its administrator does."""

    def __init__(self, client: Client, api: Api) -> None:
        self.client = client
        self.api = api
        self.metrics = Metrics()
        self.hooks = MachineWebhook(None).hooks()  # type: ignore[arg-type]  # nothing is asked
        callers = Callers(b"k" * 32, lambda cluster: True)
        self.registration = ElsewhereRegistration(
            self.hooks,
            Elsewhere(callers=callers, clients=lambda: {"c-1": client}, news=asyncio.Event()),
            name=NAME,
            address=ByUrl("https://seed.example.com"),
            bundle=lambda: b"PEM",
            metrics=self.metrics,
            at_home=self.at_home,
        )

    async def at_home(self) -> bool:
        return True

    def read(self, kind: str = "validating") -> Json:
        return dict(self.api.get(PATHS[kind]).obj)

    def webhooks(self) -> list[Any]:
        return [self.read(kind)["webhooks"] for kind in PATHS]

    def edit(self, *changes: Json) -> None:
        type_ = {"Content-Type": "application/json-patch+json"}
        answer = self.api.call("PATCH", PATHS["validating"], list(changes), headers=type_)
        assert answer.code == 200, answer.raw

    async def not_asked(self) -> list[str]:
        """What the cluster's own users are told of."""
        found = [await self.client.list(kind, labels=SELECTED) for kind in (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS)]
        return missing(found[0].items, found[1].items)

    def restored(self) -> float | None:
        return self.metrics.registry.get_sample_value("ullage_webhook_restored_total")


@pytest_asyncio.fixture
async def scene(plane: ControlPlane) -> AsyncIterator[Scene]:
    api = Api(plane)
    async with Client(Config.load(plane.kubeconfig, environ={})) as client:
        made = Scene(client, api)
        await made.registration.round()
        yield made
    for path in PATHS.values():
        api.call("DELETE", path)


NEVER = OTHERS["matchConditions"]
FAR = {"service": {"namespace": "mine", "name": "mine"}}
LABELLED: Json = {"matchLabels": {"asked": ""}}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("matchConditions", NEVER, id="a condition that is never true"),
        pytest.param("clientConfig", FAR, id="a service of his own is to be asked"),
        pytest.param("clientConfig", {"url": "https://yes.example.com/"}, id="a server that always says yes is to be asked"),
        pytest.param("objectSelector", LABELLED, id="Machines with an empty label alone"),
        pytest.param("namespaceSelector", {"matchLabels": {"asked": "yes"}}, id="namespaces that there are none of"),
        pytest.param("failurePolicy", "Ignore", id="failures are to pass"),
        pytest.param(
            "rules",
            [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["pods"],
                    "operations": ["CREATE"],
                    "scope": "Namespaced",
                }
            ],
            id="other objects are asked about",
        ),
    ],
)
async def test_an_entry_that_somebody_edits_is_put_back_counted_and_told(
    scene: Scene, caplog: pytest.LogCaptureFixture, field: str, value: Any
) -> None:
    before, version = scene.webhooks(), scene.read("mutating")["metadata"]["resourceVersion"]
    scene.edit({"op": "add", "path": f"{ADMITS}/{field}", "value": value})
    if value != {"url": "https://yes.example.com/"}:  # which the seed alone can tell from its own
        assert await scene.not_asked() == [f"the one that admits Machines (edited: {field})"]
    with caplog.at_level(logging.WARNING):
        await scene.registration.round()
    assert scene.webhooks() == before
    assert scene.read("mutating")["metadata"]["resourceVersion"] == version, "what nobody has changed is not written"
    assert await scene.not_asked() == []
    assert scene.restored() == 1
    (told,) = [one for one in caplog.records if one.message == "hooks were changed in a cluster"]
    assert (told.__dict__["cluster"], told.__dict__["hooks"]) == ("c-1", f"project-machine.webhook.ullage.io ({field})")


async def test_what_nobody_has_changed_is_never_written(scene: Scene) -> None:
    versions = [scene.read(kind)["metadata"]["resourceVersion"] for kind in PATHS]
    for _ in range(3):
        await scene.registration.round()
    assert [scene.read(kind)["metadata"]["resourceVersion"] for kind in PATHS] == versions
    assert scene.restored() == 0


async def test_what_others_have_put_beside_it_stays(scene: Scene) -> None:
    scene.edit({"op": "add", "path": "/webhooks/-", "value": OTHERS})
    theirs = scene.read()["webhooks"][-1]
    scene.edit({"op": "add", "path": f"{ADMITS}/matchConditions", "value": NEVER})
    await scene.registration.round()
    assert [one for one in scene.read()["webhooks"] if one["name"] == OTHERS["name"]] == [theirs]
    assert await scene.not_asked() == []


async def test_without_its_label_it_would_be_found_by_nobody(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.edit({"op": "remove", "path": "/metadata/labels"})
    assert await scene.not_asked() == ["the one that admits Machines"]
    with caplog.at_level(logging.WARNING):
        await scene.registration.round()
    assert await scene.not_asked() == []
    (told,) = [one for one in caplog.records if one.message == "hooks were changed in a cluster"]
    assert told.__dict__["hooks"] == f"ValidatingWebhookConfiguration {NAME} (metadata.labels)"


async def test_whoever_changes_it_all_the_time_does_not_win_by_that(scene: Scene) -> None:
    """He has written again, whenever anything is read."""
    before, busy, stop, changes = scene.webhooks(), asyncio.Event(), asyncio.Event(), 0

    async def keep_changing() -> None:
        nonlocal changes
        while not stop.is_set():
            changes += 1
            patch = {"metadata": {"annotations": {"change": str(changes)}}}
            await scene.client.patch(VALIDATING_WEBHOOKS, NAME, merge=patch, field_manager="mine")
            if changes >= 20:
                busy.set()

    scene.edit({"op": "add", "path": f"{ADMITS}/matchConditions", "value": NEVER})
    changing = [asyncio.create_task(keep_changing()) for _ in range(4)]
    try:
        await busy.wait()
        await scene.registration.round()
        assert scene.webhooks() == before
    finally:
        stop.set()
        await asyncio.gather(*changing)
