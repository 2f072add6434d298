"""A tenant's pod on the cluster network posts AdmissionReviews in another user's name, to fill a victim's limit.

The webhook answers only under paths that the API server alone was given. What the victim sees is counted: how much is reserved
in its ledger, and how many of its snapshots are admitted.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import ssl
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from ullage.clock import SystemClock
from ullage.ledger.accounts import accounts
from ullage.ledger.api import Ledger
from ullage.ledger.codec import book_of
from ullage.ledger.keys import ledger_name

from .apart import IS_BORROWED
from .snapshot_scene import GA, Scene, eventually, scene
from .test_space_charging import KIB, Team, post

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="the cluster's own webhooks and quotas would answer too"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]
Json = dict[str, Any]
REGISTRATION = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations/ullage"
FORGED_EACH = 6  # reviews under each path that is tried
CHARGE = "space-ga-snapshot-charge"
LEDGERS = "/apis/ullage.io/v1alpha1/namespaces/ullage-system/ledgers"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("reviews")) as made:
        made.storage_class("any", "csi.example.com")
        yield made


def urls(stage: Scene) -> dict[str, str]:
    """What is registered, by hook: only an administrator may read it."""
    return {
        entry["name"].partition(".")[0]: entry["clientConfig"]["url"]
        for phase in ("validating", "mutating")
        for entry in stage.api.get(REGISTRATION.format(phase)).obj["webhooks"]
    }


def wait_served(stage: Scene) -> None:
    probe = stage.namespace()

    def admitted() -> bool:
        stage.api.call("DELETE", f"{GA.snapshots(probe)}/probe")
        made = post(stage, GA.snapshots(probe), GA.of_claim("probe", "none"))
        return made.code == 201 and "ullage.io/takes" in made.obj["metadata"].get("annotations", {})

    eventually("new snapshots are stamped", admitted)


def ask(url: str, body: bytes, *, verb: str = "POST", send_body: bool = True) -> tuple[int, bytes]:
    """A client that trusts any certificate, as an attacker does. Returns the code and the body of the answer."""
    address, context = urlsplit(url), ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection((address.hostname or "", address.port or 443), 10)
    with context.wrap_socket(plain) as sock, sock.makefile("rb") as file:
        head = (
            f"{verb} {address.path}?timeout=10s HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        sock.sendall(head.encode() + (body if send_body else b""))
        status = file.readline()
        length = 0
        while (line := file.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return int(status.split()[1]), file.read(length)


def forged(stamped: Json) -> bytes:
    """A create like that of `stamped`, under another name, in its owner's name."""
    name, namespace = f"forged-{uuid.uuid4().hex[:8]}", stamped["metadata"]["namespace"]
    group, _, version = stamped["apiVersion"].partition("/")
    resource = {"group": group, "version": version, "resource": "volumesnapshots"}
    kind = {"group": group, "version": version, "kind": stamped["kind"]}
    request = {
        "uid": str(uuid.uuid4()),
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": name,
        "namespace": namespace,
        "operation": "CREATE",
        "userInfo": {"username": f"owner-of-{namespace}"},
        "object": {**stamped, "metadata": {**stamped["metadata"], "name": name, "uid": str(uuid.uuid4())}},
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}).encode()


class Victim(Team):
    """A namespace in which two snapshots of 4Ki fit."""

    def __init__(self, stage: Scene) -> None:
        super().__init__(stage)
        self.claim("disk", holds=4 * KIB)
        self.limit(8 * KIB)
        self.path = GA.snapshots(self.namespace)
        tried: list[Json] = []

        def stamped() -> bool:
            answer = post(stage, f"{self.path}?dryRun=All", GA.of_claim("tried", "disk"))
            tried.append(answer.obj)
            return answer.code == 201 and "4Ki" in answer.obj["metadata"]["annotations"]["ullage.io/takes"]

        eventually("its measure is known", stamped)
        self.example = tried[-1]

    def reserved(self) -> int:
        found = msgspec.convert(self.api.get(f"{LEDGERS}/{ledger_name(self.namespace)}").obj, Ledger)
        listed = accounts(book_of(found, now=SystemClock().now()))
        return sum(one.reserved.value() for one in listed if one.resource == "storage")

    def admitted(self, count: int) -> Counter[int]:
        """How its own creates are answered."""
        return Counter(post(self.scene, self.path, GA.of_claim(f"own-{number}", "disk")).code for number in range(count))


def tokens(found: dict[str, str]) -> set[str]:
    return {url.rpartition("/")[2] for url in found.values()}


def guesses(found: dict[str, str]) -> Iterator[str]:
    """What an attacker may try who knows our code, our names and the port, and paths of a hook that are not of this one."""
    base, _, _ = found[CHARGE].partition("/hooks/")
    token = found[CHARGE].rpartition("/")[2]
    plain = f"{base}/hooks/{CHARGE}"
    yield from (plain, f"{plain}/", f"{plain}//", f"{plain}/{token[:-1]}", f"{plain}/{token}/", f"{plain}/{token.upper()}")
    yield from (f"{plain}/clusters/far/{token}", f"{plain}/clusters//{token}", f"{base}/hooks//{token}", f"{base}/{token}")
    yield from (f"{plain}/{'0' * 64}", f"{plain}/{hashlib.sha256(CHARGE.encode()).hexdigest()}")
    yield from (f"{plain}/{url.rpartition('/')[2]}" for hook, url in found.items() if hook != CHARGE)


def test_a_review_that_no_api_server_sent_holds_nothing_of_a_victims_limit(stage: Scene) -> None:
    with stage.running(stage.webhook()):
        wait_served(stage)
        found = urls(stage)
        shown, victim = Victim(stage), Victim(stage)

        # Under the path that only the API server was given, such a review is believed: the attack is a real one.
        code, body = ask(found[CHARGE], forged(shown.example))
        assert (code, json.loads(body)["response"]["allowed"]) == (200, True)
        assert shown.reserved() == 4 * KIB
        assert shown.admitted(2) == {201: 1, 403: 1}

        answers = Counter(ask(url, forged(victim.example))[0] for url in guesses(found) for _ in range(FORGED_EACH))
        assert set(answers) == {404}, answers
        assert answers[404] >= 100
        unread = ask(f"{found[CHARGE]}0", b"x" * 1_000_000, send_body=False)
        assert unread[0] == 404, "it is answered before a body is read"

        assert victim.reserved() == 0
        assert victim.admitted(3) == {201: 2, 403: 1}
        print(
            f"{answers[404]} forged reviews were answered 404 and reserved 0 of a victim's limit; 2 of 2 of his own creates fit"
        )


def test_a_path_that_was_printed_while_the_webhook_was_away_is_another_when_it_is_back(stage: Scene) -> None:
    with stage.running(stage.webhook()):
        wait_served(stage)
        victim, before = Victim(stage), urls(stage)
    printed = post(stage, victim.path, GA.of_claim("away", "disk"))
    assert (printed.code, "failed calling webhook" in printed.message) == (500, True)

    with stage.running(stage.webhook()):
        wait_served(stage)
        after = urls(stage)
        assert before.keys() == after.keys()
        assert not tokens(before) & tokens(after)
        assert not set(re.findall(r"[0-9a-f]{64}", printed.message)) & tokens(after)
        assert victim.admitted(1) == {201: 1}
        base = after[CHARGE].partition("/hooks/")[0]
        pages = [ask(f"{base}{page}", b"", verb="GET")[1].decode() for page in ("/metrics", "/healthz", "/readyz")]
        system = "/api/v1/namespaces/ullage-system"
        kept = [stage.api.get(f"{system}/configmaps").raw, stage.api.get("/apis/events.k8s.io/v1/events").raw]
    log = (stage.directory / "processes.log").read_text()
    assert "paths of hooks: there are new paths" in log
    for text in (*pages, *kept, log):
        assert not [token for token in tokens(before) | tokens(after) if token in str(text)]
