"""The certificates' rotation and the self-test on an API in memory: races, deletions, spoilt Secrets, silence."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.admission.builders import FakeApi, Json
from tests.unit.kube.virtual_time import in_virtual_time
from ullage import pki
from ullage.admission import registration
from ullage.admission.certificate_rotation import CertificateRotation
from ullage.admission.metrics import Metrics
from ullage.admission.registration import ByUrl, Published, Registration
from ullage.admission.selftest import SelfTest, selftest_hook
from ullage.clock import FakeClock
from ullage.kube.builtin.admissionregistration import VALIDATING_WEBHOOKS
from ullage.kube.builtin.core import SECRETS, Secret, secret_data
from ullage.kube.errors import AlreadyExists, ApiError, Forbidden, Unavailable
from ullage.kube.kinds import Kind, Meta
from ullage.pki import BadCertificate
from ullage.serving import certificates
from ullage.serving.certificates import CertificateSet, Step, Terms, to_secret
from ullage.serving.rotation import SecretName
from ullage.serving.server import Certificate

TERMS = Terms(hosts=("127.0.0.1",), settle=60.0, keep=600.0)


class Replica:
    """A rotation with all that it works on."""

    def __init__(self, api: FakeApi, clock: FakeClock) -> None:
        self.api = api
        self.clock = clock
        self.metrics = Metrics()
        self.certificate = Certificate()
        self.registration = Registration("ullage", (selftest_hook("system"),), ByUrl("https://127.0.0.1:1"))
        self.rotation = CertificateRotation(
            api.client,
            self.certificate,
            secret_name=SecretName("system", "tls"),
            terms=TERMS,
            registered=self.registration,
            tokens=self.tokens,
            metrics=self.metrics,
            clock=clock,
        )
        self.nonces = iter(f"n{number}" for number in range(100))
        self.test = SelfTest(
            api.client,
            self.rotation,
            namespace="system",
            status="status",
            nonce=lambda: next(self.nonces),
            metrics=self.metrics,
            clock=clock,
        )

    async def tokens(self, seen: Published) -> dict[str, str]:
        return {"selftest": "t0"}

    async def round(self) -> Step | None:
        return await self.rotation.round(await registration.read(self.api.client, self.registration))

    async def settle(self) -> list[Step]:
        """Rounds until there is nothing to do right now."""
        steps = []
        while (step := await self.round()) is not None:
            steps.append(step)
        return steps

    async def bundle(self) -> bytes | None:
        return (await registration.read(self.api.client, self.registration)).bundle

    @property
    def stored(self) -> CertificateSet:
        data = self.api.objects["Secret", "tls"]["data"]
        return certificates.from_secret({key: base64.b64decode(value) for key, value in data.items()})

    def arriving(self) -> float | None:
        return self.metrics.registry.get_sample_value("ullage_webhook_arriving")

    def condition(self) -> tuple[str, str, str]:
        [found] = json.loads(self.api.objects["ConfigMap", "status"]["data"]["conditions"])
        return found["status"], found["reason"], found["lastTransitionTime"]


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def test_replicas_that_start_together_serve_one_certificate(api: FakeApi, clock: FakeClock) -> None:
    replicas = [Replica(api, clock) for _ in range(3)]
    real_find = api.find
    waiting = asyncio.Barrier(3)

    async def find(kind: Kind[Any], name: str, namespace: str = "") -> Any:
        found = await real_find(kind, name, namespace)
        if found is None:
            await waiting.wait()  # nobody creates before all have seen that there is none
        return found

    api.find = find  # type: ignore[method-assign]
    await asyncio.gather(*(replica.rotation.open() for replica in replicas))

    assert len({replica.certificate.pair for replica in replicas}) == 1
    assert api.writes == ["create Secret tls"]


async def test_a_deleted_secret_comes_back_as_it_was(api: FakeApi, clock: FakeClock) -> None:
    replica = Replica(api, clock)
    await replica.rotation.open()
    before = replica.stored
    await api.delete(SECRETS, "tls")

    assert await replica.settle() == []
    assert replica.stored == before


async def test_a_spoilt_secret_leaves_the_certificate_in_use(api: FakeApi, clock: FakeClock) -> None:
    replica = Replica(api, clock)
    await replica.rotation.open()
    pair = replica.certificate.pair
    secret = await api.get(SECRETS, "tls", "system")
    await api.update(SECRETS, Secret(metadata=secret.metadata, type=secret.type, data=secret_data({"tls.crt": b"rubbish"})))

    with pytest.raises(BadCertificate, match=r"no ca.crt"):
        await replica.round()
    running = asyncio.create_task(replica.rotation.run(0.0))
    for _ in range(5):
        await asyncio.sleep(0)

    assert replica.certificate.pair is pair
    assert not running.done(), "it goes on looking"
    running.cancel()


async def test_an_api_server_that_is_away_ends_nothing(api: FakeApi, clock: FakeClock) -> None:
    replica = Replica(api, clock)
    await replica.rotation.open()
    api.fail = Unavailable("connection refused")
    running = asyncio.create_task(replica.rotation.run(0.0))
    for _ in range(5):
        await asyncio.sleep(0)

    assert api.fail is None, "it was met"
    assert not running.done()
    running.cancel()


async def test_a_rotation_is_published_waited_for_promoted_and_cleaned_up(api: FakeApi, clock: FakeClock) -> None:
    await _aging_secret(api, clock)
    replica, other = Replica(api, clock), Replica(api, clock)
    await replica.rotation.open()
    await replica.rotation.register()
    old = replica.stored

    assert await replica.settle() == [Step.INTRODUCE, Step.PUBLISH]
    assert await other.settle() == []
    assert replica.stored.coming is not None
    assert await replica.bundle() == replica.stored.bundle
    assert replica.certificate.pair == old.serving, "nothing new is shown before it is trusted"

    clock.advance(59.0)
    assert await replica.settle() == []
    clock.advance(1.0)
    assert await replica.settle() == [Step.PROMOTE]
    assert await other.settle() == [], "the second finds it done, and serves it"
    assert replica.certificate.pair == other.certificate.pair == replica.stored.serving
    assert replica.certificate.pair != old.serving

    clock.advance(600.0)
    assert await other.settle() == [Step.RETIRE, Step.PUBLISH]
    assert await replica.bundle() == replica.stored.authority.certificate
    expires = replica.metrics.registry.get_sample_value("ullage_webhook_certificate_expires_timestamp_seconds")
    assert expires == replica.stored.serving.expires.timestamp()


async def _aging_secret(api: FakeApi, clock: FakeClock) -> None:
    authority = pki.make_ca("ullage-webhook", now=clock.now(), lifetime=timedelta(days=100))
    serving = pki.issue_serving(authority, TERMS.hosts, now=clock.now(), lifetime=timedelta(days=100))
    await api.create(
        SECRETS, Secret(metadata=Meta(name="tls"), data=secret_data(to_secret(CertificateSet(authority, serving))))
    )


async def test_the_self_test_believes_only_its_own_nonce(api: FakeApi, clock: FakeClock) -> None:
    replica = Replica(api, clock)

    api.create_answer = Forbidden('admission webhook "x" denied the request: self-test n0 arrived', code=403)
    assert (await replica.test.once()).status == "True"
    assert replica.arriving() == 1.0

    api.create_answer = Forbidden('admission webhook "x" denied the request: self-test n0 arrived', code=403)
    condition = await replica.test.once()
    assert (condition.status, condition.reason) == ("Unknown", "CannotAsk"), "that was the nonce of another time"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(None, ("False", "NotCalled", 0.0), id="the object would have been made"),
        pytest.param(AlreadyExists("taken", code=409), ("False", "NotCalled", 0.0), id="only its name was in the way"),
        pytest.param(Forbidden("no right to create", code=403), ("Unknown", "CannotAsk", None), id="we have no right to ask"),
        pytest.param(Unavailable("refused"), ("Unknown", "CannotAsk", None), id="the API server is away"),
    ],
)
async def test_the_self_test_says_what_it_knows(
    api: FakeApi, clock: FakeClock, answer: ApiError | None, expected: tuple[str, str, float | None]
) -> None:
    replica = Replica(api, clock)
    api.create_answer = answer

    condition = await replica.test.once()

    arriving = replica.arriving()
    shown = None if arriving is None or arriving != arriving else arriving
    assert (condition.status, condition.reason, shown) == expected
    assert replica.condition()[:2] == expected[:2]


async def test_requests_that_arrive_again_after_some_did_not_are_told(api: FakeApi, clock: FakeClock) -> None:
    replica, told = Replica(api, clock), 0

    def came_back() -> None:
        nonlocal told
        told += 1

    replica.test._came_back = came_back

    async def once(number: int, *, arrives: bool) -> int:
        text = f'admission webhook "x" denied the request: self-test n{number} arrived'
        api.create_answer = Forbidden(text, code=403) if arrives else None
        await replica.test.once()
        return told

    assert await once(0, arrives=False) == 0, "API servers have not heard of us yet"
    assert await once(1, arrives=True) == 0
    assert await once(2, arrives=False) == 0
    assert await once(3, arrives=False) == 0
    assert await once(4, arrives=True) == 1
    assert await once(5, arrives=True) == 1


async def test_an_entry_that_was_taken_out_is_noticed(api: FakeApi, clock: FakeClock) -> None:
    replica = Replica(api, clock)
    replica.rotation.published = Published({VALIDATING_WEBHOOKS.kind: "1"}, frozenset(), ("quota.webhook.ullage.io",))
    api.create_answer = Forbidden("self-test n0 arrived", code=403)

    condition = await replica.test.once()

    assert (condition.status, condition.reason) == ("False", "NotRegistered")
    assert "quota.webhook.ullage.io" in condition.message


async def test_a_condition_is_written_only_when_it_changes(api: FakeApi, clock: FakeClock) -> None:
    replica = Replica(api, clock)
    await replica.test.once()
    since = replica.condition()[2]
    clock.advance(60.0)
    await replica.test.once()
    assert api.writes == ["apply ConfigMap status"]

    again = Replica(api, clock)  # a new process reads what the old one wrote
    await again.test.once()
    assert api.writes == ["apply ConfigMap status"]

    api.create_answer = Forbidden("self-test n1 arrived", code=403)
    await again.test.once()
    assert api.writes == ["apply ConfigMap status"] * 2
    assert again.condition()[:2] == ("True", "Called")
    assert again.condition()[2] != since


FOREIGN: dict[str, Any] = {"name": "audit.example.com", "clientConfig": {"url": "https://audit.example.com/"}}


@pytest.mark.parametrize(
    ("trouble", "most_writes", "told"),
    [
        pytest.param("none", 0, "", id="nothing is written where nothing is to be done"),
        pytest.param(
            "foreign",
            0,
            "entries of others in our webhook configuration are left alone",
            id="an entry of somebody else is left alone, and told",
        ),
        pytest.param(
            "opponent",
            30,
            "somebody else undoes what is published: trying again",
            id="somebody who puts another bundle into our entries is not fought without end, and told",
        ),
    ],
)
def test_ten_minutes_with_others_in_the_configuration(
    trouble: str, most_writes: int, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> tuple[FakeApi, list[Json]]:
        api, clock = FakeApi(), FakeClock()
        replica = Replica(api, clock)
        await replica.rotation.open()
        await replica.rotation.register()
        entries = api.objects[VALIDATING_WEBHOOKS.kind, "ullage"]["webhooks"]
        if trouble == "foreign":
            entries.append(FOREIGN)
        if trouble == "opponent":
            api.after_apply = lambda obj: obj["webhooks"][0]["clientConfig"].update(caBundle="b3RoZXI=")
            api.after_apply(api.objects[VALIDATING_WEBHOOKS.kind, "ullage"])
        api.writes.clear()
        running = asyncio.create_task(replica.rotation.run(30.0))
        await asyncio.sleep(600)
        running.cancel()
        return api, api.objects[VALIDATING_WEBHOOKS.kind, "ullage"]["webhooks"]

    api, entries = in_virtual_time(scene())
    assert len(api.writes) <= most_writes
    assert (FOREIGN in entries) == (trouble == "foreign")
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert set(warned) == ({told} if told else set())
    if trouble == "foreign":
        assert len(warned) == 1, "once, and not every half minute"
        assert "audit.example.com" in str(caplog.records[-1].__dict__["entries"])


async def test_who_has_entries_in_our_configuration_is_told_in_the_condition(api: FakeApi, clock: FakeClock) -> None:
    replica = Replica(api, clock)
    replica.rotation.published = Published({}, frozenset(), (), ("audit.example.com",))
    api.create_answer = Forbidden("self-test n0 arrived", code=403)

    condition = await replica.test.once()

    assert (condition.status, condition.reason) == ("True", "Called")
    assert condition.message == (
        "The API server calls this webhook. Entries of others in its configuration are left alone: audit.example.com."
    )


async def test_whether_we_are_registered_is_asked_of_the_api(api: FakeApi, clock: FakeClock) -> None:
    replica = Replica(api, clock)
    await replica.rotation.open()
    assert not await replica.rotation.registered()
    await replica.rotation.register()
    assert await replica.rotation.registered()
    del api.objects["ValidatingWebhookConfiguration", "ullage"]
    assert not await replica.rotation.registered()
