"""The hook for a quota's copy on a seed: what it makes, when, and which requests come to it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.admission.builders import review
from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.ledger.simulated import Server
from ullage.kube.cache.indexer import Key
from ullage.kube.errors import Unavailable
from ullage.kube.kinds import Kind, Meta
from ullage.kube.review import Review
from ullage.ledger.api import LEDGERS, NAMESPACE, Ledger, LedgerSpec
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.webhook.quota_copies import ONLY_IF, CopyHook
from ullage.standalone.apiserver.schema.cel.loops import Budget
from ullage.standalone.apiserver.schema.cel.program import compile_condition

Json = dict[str, Any]
MOST_CLUSTERS: Json = {"annotations": {"ullage.io/max-clusters": "3"}}
MACHINES = LedgerSpec(limits={"machines": {"cpu": "0"}}, grants={"machines": {"cpu": "10"}})
CLUSTERS = LedgerSpec(limits={"clusters": {"clusters": "0"}}, grants={"clusters": {"clusters": "3"}})
TOLD = LedgerSpec(limits={"machines": {"cpu": "7"}}, grants={"machines": {"cpu": "10"}}, change=4)


def body(limits: Json, *, subject: str = "abc", **meta: Any) -> Json:
    return {
        "apiVersion": PROJECT_QUOTAS.api_version,
        "kind": PROJECT_QUOTAS.kind,
        "metadata": {"name": "project-abc", **meta},
        "spec": {"subject": {"name": subject, "kind": "project"}, "quota": limits},
    }


def asked(new: Json, old: Json | None = None, *, dry_run: bool = False, deadline: float = math.inf) -> Review:
    made = review(
        kind={"group": PROJECT_QUOTAS.group, "version": PROJECT_QUOTAS.version, "kind": PROJECT_QUOTAS.kind},
        name="project-abc",
        namespace="",
        operation="CREATE" if old is None else "UPDATE",
        object=new,
        oldObject=old,
        dryRun=dry_run,
    )
    return replace(made, deadline=deadline)


def with_ledger(spec: LedgerSpec | None = None) -> Server:
    made = Server()
    if spec is not None:
        made.put(LEDGERS, Ledger(metadata=Meta(name="project-abc", namespace=NAMESPACE), spec=spec))
    return made


def ledgers(server: Server) -> dict[str, LedgerSpec]:
    names = ("project-abc", "clusters-abc")
    found = {name: server.get(LEDGERS, Key(NAMESPACE, name)) for name in names}
    return {name: one.spec for name, one in found.items() if one is not None}


@pytest.mark.parametrize(
    ("request_", "there", "then"),
    [
        pytest.param(asked(body({"cpu": "10"})), None, {"project-abc": MACHINES}, id="a first limit"),
        pytest.param(asked(body({"cpu": "10"}), body({})), None, {"project-abc": MACHINES}, id="a limit that is added"),
        pytest.param(asked(body({}, **MOST_CLUSTERS)), None, {"clusters-abc": CLUSTERS}, id="a number of clusters"),
        pytest.param(
            asked(body({"cpu": "10"}, **MOST_CLUSTERS)),
            None,
            {"project-abc": MACHINES, "clusters-abc": CLUSTERS},
            id="limits of machines and clusters",
        ),
        pytest.param(asked(body({"cpu": "10"})), TOLD, {"project-abc": TOLD}, id="the master has told the seed its part"),
        pytest.param(asked(body({"cpu": "10"})), LedgerSpec(change=9), {"project-abc": LedgerSpec(change=9)}, id="lifted"),
        pytest.param(asked(body({})), None, {}, id="no limit"),
        pytest.param(asked(body({"cpu": "10"}, subject="../abc")), None, {}, id="the subject is no project"),
        pytest.param(asked(body({"cpu": "10"}), dry_run=True), None, {}, id="a dry run"),
    ],
)
def test_a_project_without_a_ledger_gets_one_that_grants_nothing(
    request_: Review, there: LedgerSpec | None, then: Mapping[str, LedgerSpec]
) -> None:
    async def run() -> None:
        server = with_ledger(there)
        for _ in range(2):  # admission may be run again
            assert (await CopyHook(server, VirtualClock()).validate(request_)).allowed
        assert ledgers(server) == then

    in_virtual_time(run())


def test_of_two_replicas_that_are_asked_at_once_both_admit() -> None:
    async def run() -> None:
        server = with_ledger()
        hooks = [CopyHook(server, VirtualClock()) for _ in range(2)]
        decided = await asyncio.gather(*(hook.validate(asked(body({"cpu": "10"}))) for hook in hooks))
        assert [one.allowed for one in decided] == [True, True]
        assert ledgers(server) == {"project-abc": MACHINES}

    in_virtual_time(run())


class Silent(Server):
    async def create(self, kind: Kind[Any], obj: Any) -> Any:
        await asyncio.sleep(3600)


@pytest.mark.parametrize(("left", "waits"), [pytest.param(60.0, 3.0, id="3 s"), pytest.param(1.0, 1.0, id="its deadline")])
def test_what_cannot_be_written_in_time_is_to_be_tried_again(left: float, waits: float) -> None:
    async def run() -> None:
        clock = VirtualClock()
        began = clock.monotonic()
        request = asked(body({"cpu": "10"}), deadline=began + left)
        with pytest.raises(Unavailable, match=rf"project-abc could not be made within {waits:.1f} s"):
            await CopyHook(Silent(), clock).validate(request)
        assert clock.monotonic() - began == pytest.approx(waits, abs=0.1)

    in_virtual_time(run())


@pytest.mark.parametrize(
    ("new", "old", "comes"),
    [
        pytest.param(body({"cpu": "1"}), None, True, id="a create"),
        pytest.param(body({"cpu": "1"}), body({"cpu": "2"}), True, id="another limit"),
        pytest.param(body({}, **MOST_CLUSTERS), body({}), True, id="a number of clusters"),
        pytest.param(body({}, labels={"a": "b"}), body({}), False, id="a label"),
        pytest.param({**body({}), "status": {"globalUsage": {"cpu": "1"}}}, body({}), False, id="figures"),
        pytest.param(body({"cpu": "1"}, deletionTimestamp="2026-01-01T00:00:00Z"), body({}), False, id="it goes"),
    ],
)
def test_which_requests_come(new: Json, old: Json | None, comes: bool) -> None:
    found = [compile_condition(rule).evaluate({"object": new, "oldObject": old}, Budget()) for rule in ONLY_IF.values()]
    assert set(found) <= {True, False}
    assert all(found) is comes
