"""Hooks in other clusters: registered where they can be, put back where somebody took them out."""

from __future__ import annotations

import asyncio
import logging
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.admission.builders import FakeApi
from ullage.admission.callers import Callers
from ullage.admission.elsewhere import Elsewhere, ElsewhereRegistration
from ullage.admission.metrics import Metrics
from ullage.admission.registration import ByUrl
from ullage.kube.builtin.core import CONFIG_MAPS
from ullage.kube.errors import Unavailable
from ullage.kube.review import Decision, Hook, Review, Target

PLACE = ("ValidatingWebhookConfiguration", "ullage-elsewhere")


async def allow(review: Review) -> Decision:
    return Decision.allow()


class Scene:
    def __init__(self, *clusters: str) -> None:
        self.apis = {name: FakeApi() for name in clusters}
        self.metrics = Metrics()
        self.callers = Callers(b"k" * 32, lambda cluster: True)
        self.news = asyncio.Event()
        self.bundle = b"PEM"
        self.at_home = True
        hook = Hook(name="guard", phase="validate", targets=(Target.of(CONFIG_MAPS, "CREATE"),), answer=allow, elsewhere=True)
        self.registration = ElsewhereRegistration(
            [hook],
            Elsewhere(
                callers=self.callers,
                clients=lambda: {name: api.client for name, api in self.apis.items()},
                news=self.news,
            ),
            name=PLACE[1],
            address=ByUrl("https://seed.example.com"),
            bundle=lambda: self.bundle,
            metrics=self.metrics,
            at_home=self.is_at_home,
        )

    async def is_at_home(self) -> bool:
        return self.at_home

    def url(self, cluster: str) -> str:
        found: str = self.apis[cluster].objects[PLACE]["webhooks"][0]["clientConfig"]["url"]
        return found


async def test_every_cluster_gets_a_path_of_its_own() -> None:
    scene = Scene("far", "near")
    await scene.registration.round()
    for cluster in ("far", "near"):
        token = scene.callers.caller(cluster).token
        assert scene.url(cluster) == f"https://seed.example.com/hooks/guard/clusters/{cluster}/{token}"


async def test_what_somebody_took_out_is_put_back_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene("far", "near")
    await scene.registration.round()
    assert caplog.text == ""
    del scene.apis["far"].objects[PLACE]
    await scene.registration.round()
    assert PLACE in scene.apis["far"].objects
    assert scene.metrics.registry.get_sample_value("ullage_webhook_restored_total") == 1
    assert "hooks were taken out of a cluster" in caplog.text


NEVER = [{"name": "never", "expression": "false"}]


def webhook(scene: Scene, cluster: str = "far") -> dict[str, Any]:
    found: dict[str, Any] = scene.apis[cluster].objects[PLACE]["webhooks"][0]
    return found


async def test_what_somebody_has_changed_is_put_back_counted_and_told_without_what_is_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene("far", "near")
    await scene.registration.round()
    before = deepcopy(webhook(scene))
    webhook(scene)["matchConditions"] = NEVER
    webhook(scene)["clientConfig"] = {"service": {"namespace": "mine", "name": "mine"}}
    await scene.registration.round()
    assert webhook(scene) == before
    assert scene.metrics.registry.get_sample_value("ullage_webhook_restored_total") == 1
    (told,) = caplog.records
    assert told.message == "hooks were changed in a cluster"
    assert told.__dict__["hooks"] == "guard.webhook.ullage.io (clientConfig, matchConditions)"
    assert scene.callers.caller("far").token not in str(vars(told))


class Leaving:
    """The clusters that have left, as the registration sees them."""

    def __init__(self, scene: Scene, *names: str) -> None:
        self.names = set(names)
        self.counts = True  # whether the API says that they count after all
        self._apis = {name: scene.apis.pop(name) for name in names}
        scene.registration._elsewhere = replace(scene.registration._elsewhere, leaving=self)  # type: ignore[arg-type]

    def clients(self) -> dict[str, Any]:
        return {name: self._apis[name].client for name in self.names}

    async def counts_no_more(self, name: str) -> bool:
        return not self.counts

    def done(self, name: str) -> None:
        self.names.discard(name)


async def test_hooks_are_taken_out_of_a_cluster_that_counts_no_more_once_the_api_says_so() -> None:
    scene = Scene("far", "near")
    await scene.registration.round()
    left = scene.apis["far"]
    leaving = Leaving(scene, "far")
    await scene.registration.round()
    assert PLACE in left.objects
    assert leaving.names == {"far"}
    leaving.counts = False
    await scene.registration.round()
    assert PLACE not in left.objects
    assert PLACE in scene.apis["near"].objects
    assert leaving.names == set()


async def test_entries_of_others_stay_in_a_cluster_that_counts_no_more() -> None:
    scene = Scene("far")
    await scene.registration.round()
    left = scene.apis["far"]
    left.objects[PLACE]["webhooks"].append({"name": "audit.example.com"})
    leaving = Leaving(scene, "far")
    leaving.counts = False
    await scene.registration.round()
    assert left.objects[PLACE]["webhooks"] == [{"name": "audit.example.com"}]
    assert leaving.names == set()
    writes = list(left.writes)
    leaving.names = {"far"}
    await scene.registration.round()
    assert left.writes == writes


async def test_what_is_as_it_was_is_not_written_again() -> None:
    scene = Scene("far")
    for _ in range(3):
        await scene.registration.round()
    assert scene.apis["far"].writes == ["apply ValidatingWebhookConfiguration ullage-elsewhere"]


async def test_one_that_somebody_has_made_before_us_gets_none_of_what_is_in_it() -> None:
    """It was not there when it was looked for."""
    scene = Scene("far")
    await scene.registration.round()
    made = deepcopy(scene.apis["far"].objects[PLACE])
    del scene.apis["far"].objects[PLACE]

    def comes_first() -> None:
        made["webhooks"][0]["matchConditions"] = NEVER
        scene.apis["far"].objects[PLACE] = made

    scene.apis["far"].before_write.append(comes_first)
    await scene.registration.round()
    assert "matchConditions" not in webhook(scene)


async def test_whoever_deletes_it_between_look_and_write_does_not_win_by_that() -> None:
    scene = Scene("far")
    await scene.registration.round()
    api = scene.apis["far"]
    webhook(scene)["failurePolicy"] = "Ignore"
    api.before_write.append(lambda: api.objects.pop(PLACE))
    await scene.registration.round()
    assert webhook(scene)["failurePolicy"] == "Fail"
    assert scene.metrics.registry.get_sample_value("ullage_webhook_restored_total") == 1, "one look, one alarm"


async def test_what_another_release_has_left_is_replaced_and_nobody_is_blamed(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene("far")
    await scene.registration.round()
    webhook(scene)["rules"][0]["operations"] = ["UPDATE"]
    old = {"name": "before.webhook.ullage.io", "clientConfig": {"url": "https://seed.example.com"}}
    scene.apis["far"].objects[PLACE]["webhooks"].append(old)
    after = Scene()
    after.apis = scene.apis
    await after.registration.round()
    assert [one["name"] for one in scene.apis["far"].objects[PLACE]["webhooks"]] == ["guard.webhook.ullage.io"]
    assert webhook(scene)["rules"][0]["operations"] == ["CREATE"]
    assert (caplog.text, after.metrics.registry.get_sample_value("ullage_webhook_restored_total")) == ("", 0)


async def test_nothing_is_put_back_once_our_own_cluster_has_us_no_more(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene("far", "near")
    await scene.registration.round()
    scene.at_home = False
    del scene.apis["far"].objects[PLACE]
    webhook(scene, "near")["failurePolicy"] = "Ignore"
    await scene.registration.round()
    assert PLACE not in scene.apis["far"].objects
    assert webhook(scene, "near")["failurePolicy"] == "Ignore"
    assert PLACE in scene.apis["near"].objects, "what is there is not for a webhook to take out"
    assert "our own cluster's were taken out" in caplog.text
    scene.at_home = True
    await scene.registration.round()
    assert PLACE in scene.apis["far"].objects


async def test_a_new_authority_is_told_to_all(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene("far")
    await scene.registration.round()
    before = scene.apis["far"].objects[PLACE]["webhooks"][0]["clientConfig"]["caBundle"]
    scene.bundle = b"PEM, and another"
    await scene.registration.round()
    assert scene.apis["far"].objects[PLACE]["webhooks"][0]["clientConfig"]["caBundle"] != before
    assert caplog.text == "", "nobody else has done that"


async def test_a_cluster_that_cannot_be_reached_keeps_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    scene = Scene("far", "near")
    scene.apis["far"].fail = Unavailable("no connection")
    await scene.registration.round()
    assert PLACE not in scene.apis["far"].objects
    assert PLACE in scene.apis["near"].objects
    await scene.registration.round()
    assert PLACE in scene.apis["far"].objects
    tokens = [scene.callers.caller(name).token for name in scene.apis]
    assert not any(token in str(vars(record)) for token in tokens for record in caplog.records)


async def until_registered(scene: Scene, cluster: str) -> None:
    for _ in range(100):
        if PLACE in scene.apis[cluster].objects:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{cluster} is not registered")


async def test_a_cluster_that_comes_is_registered_without_waiting_for_the_next_round() -> None:
    scene = Scene("near")
    running = asyncio.create_task(scene.registration.run(every=3600))
    await until_registered(scene, "near")
    scene.apis["far"] = FakeApi()
    scene.news.set()
    await until_registered(scene, "far")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
