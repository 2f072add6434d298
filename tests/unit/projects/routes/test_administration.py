"""Quotas over REST, for administrators. Each answer is what goes over the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.projects.builders import default_quota, details, quota, usage
from tests.unit.projects.routes.scene import ADMIN, MEMBER, STRANGER, Api
from ullage.kube.errors import Conflict, Forbidden, Invalid, NotFound
from ullage.kube.objects import Condition
from ullage.projects.api.quotas import ResourceQuota, ResourceQuotaStatus, SeedUsage
from ullage.projects.names import is_default
from ullage.projects.webhook.quota_rules import DEFAULT_STAYS

ALL, ONE = "/api/v2/quotas", "/api/v2/quotas/project-abc"
USED = ResourceQuotaStatus(global_usage=usage("3", "12Gi", "0"))


def api() -> Api:
    found = Api().put(
        quota("xyz", details(memory="10G", storage="0"), status=ResourceQuotaStatus(global_usage=usage("1500m", "1", "5Gi"))),
        quota("abc", details(cpu="5", memory="100Gi", storage="1Ti"), status=USED),
    )
    return found.project("abc", "Alphabet")


ABC = {
    "name": "project-abc",
    "subjectName": "abc",
    "subjectKind": "project",
    "subjectHumanReadableName": "Alphabet",
    "isDefault": False,
    "quota": {"cpu": 5, "memory": 100.0, "storage": 1024.0},
    "status": {"globalUsage": {"cpu": 3, "memory": 12.0}},
}
XYZ = {
    "name": "project-xyz",
    "subjectName": "xyz",
    "subjectKind": "project",
    "isDefault": False,
    "quota": {"memory": 9.31, "storage": 0.0},
    "status": {"globalUsage": {"cpu": 2, "memory": 0.01, "storage": 5.0}},
}


# --- reading ---------------------------------------------------------------------------------------------------------


async def test_quotas_are_listed_by_name_as_numbers() -> None:
    assert await api().get(ALL) == [ABC, XYZ]
    assert await Api().get(ALL) == []


def stale(project: str) -> ResourceQuota:
    fresh = Condition(type="UsageFresh", status="False", reason="Incomplete", message="seed fra: the quota is not there yet")
    return quota(project, details(cpu="5"), status=ResourceQuotaStatus(global_usage=usage("3"), conditions=(fresh,)))


async def test_one_quota_whose_figures_are_not_of_now_comes_with_a_warning() -> None:
    answered = await Api().put(stale("abc")).ask("GET", ONE)
    said = "ResourceQuota project-abc: its usage is not of now: seed fra: the quota is not there yet"
    assert (answered.code, answered.headers["warning"]) == (200, f'299 ullage "{said}"')
    replaced = await Api().put(stale("abc")).ask("PUT", ONE, {"cpu": 9})
    assert replaced.headers["warning"] == f'299 ullage "{said}"'
    assert "warning" not in (await api().ask("GET", ONE)).headers


@pytest.mark.parametrize("query", ["", "?accumulate=true"])
async def test_a_list_with_figures_that_are_not_of_now_comes_with_one_warning_that_names_the_quotas(query: str) -> None:
    found = api().put(stale("a"), quota("b", details(cpu="5")))
    answered = await found.ask("GET", f"{ALL}{query}")
    said = "the usage of these quotas is not of now, or not known: project-a; project-b. Next: GET /api/v2/quotas/project-a"
    assert (answered.code, answered.headers["warning"]) == (200, f'299 ullage "{said} says more"')
    found.put(*(stale(f"p-{number}") for number in range(9)))
    answered = await found.ask("GET", f"{ALL}{query}")
    assert "project-a; project-b; project-p-0; project-p-1; project-p-2; and 6 more. Next" in answered.headers["warning"]
    assert "warning" not in (await api().ask("GET", f"{ALL}{query}")).headers


@pytest.mark.parametrize(
    ("query", "names"),
    [
        pytest.param("?subjectName=abc", ["project-abc"], id="of one project"),
        pytest.param("?subjectName=ab", [], id="not of one whose id begins so"),
        pytest.param("?subjectName=", [], id="of none"),
        pytest.param("?subjectKind=project", ["project-abc", "project-xyz"], id="of projects"),
        pytest.param("?subjectName=xyz&subjectKind=project", ["project-xyz"], id="both filters"),
        pytest.param("?accumulate=false", ["project-abc", "project-xyz"], id="not summed"),
    ],
)
async def test_filters_choose(query: str, names: list[str]) -> None:
    assert [one["name"] for one in await api().get(f"{ALL}{query}")] == names


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param("?subjectname=abc", '"subjectname": there is no such parameter', id="a typing error"),
        pytest.param("?subjectKind=user", 'subjectKind: "user" is not known: project is allowed', id="another kind"),
        pytest.param(
            "?accumulate=yes", 'accumulate: "yes" is not known: true or false is allowed', id="neither true nor false"
        ),
    ],
)
async def test_a_filter_that_is_not_known_is_refused(query: str, message: str) -> None:
    answered = await api().ask("GET", f"{ALL}{query}")
    assert answered.code == 400
    assert answered.status["message"].startswith(message)


async def test_the_total_is_one_item_with_the_sums() -> None:
    [total] = await api().get(f"{ALL}?accumulate=true")
    assert total == {
        "name": "totalquota",
        "isDefault": False,
        "quota": {"cpu": 5, "memory": 109.31, "storage": 1024.0},
        "status": {"globalUsage": {"cpu": 5, "memory": 12.0, "storage": 5.0}},
    }, "1500m and 3 are 4500m, which are 5 cores; what has no limit adds none"
    [one] = await api().get(f"{ALL}?accumulate=true&subjectName=abc")
    assert (one["name"], one["quota"]) == ("totalquota", ABC["quota"])


async def test_the_total_of_nothing_is_nothing() -> None:
    assert await Api().get(f"{ALL}?accumulate=true") == [
        {"name": "totalquota", "isDefault": False, "quota": {}, "status": {"globalUsage": {}}},
    ]


async def test_one_is_shown_by_its_name() -> None:
    assert await api().get(ONE) == ABC
    answered = await api().ask("GET", f"{ALL}/project-none")
    assert (answered.code, answered.status["message"]) == (
        404,
        'resourcequotas.kubermatic.k8c.io "project-none" not found',
    )


async def test_what_follows_the_default_says_so_and_a_seed_s_own_usage_is_shown() -> None:
    status = ResourceQuotaStatus(global_usage=usage("3"), local_usage=usage("0", "1Gi"))
    shown = await Api().put(default_quota("abc", status=status)).get(ONE)
    assert shown["isDefault"] is True
    assert shown["status"] == {"globalUsage": {"cpu": 3}, "localUsage": {"cpu": 0, "memory": 1.0}}


async def test_a_faulty_limit_is_shown_as_0_and_a_faulty_usage_is_left_out() -> None:
    strange = quota("abc", details(cpu="many", memory="1Gi"), status=ResourceQuotaStatus(global_usage=usage("some", "1Gi")))
    shown = await Api().put(strange).get(ONE)
    assert (shown["quota"], shown["status"]["globalUsage"]) == ({"cpu": 0, "memory": 1.0}, {"memory": 1.0})


@pytest.mark.parametrize("amount", ["1e100", "1e999"])
async def test_one_quota_beyond_all_numbers_keeps_no_other_from_being_shown(amount: str) -> None:
    bad = quota("bad", details(memory=amount), status=ResourceQuotaStatus(global_usage=usage(amount, "1Gi")))
    found = api().put(bad).project("bad", "")
    assert [one for one in await found.get(ALL) if one["name"] != "project-bad"] == [ABC, XYZ]
    assert (await found.get("/api/v2/quotas/project-bad"))["quota"] == {"memory": 0.0}
    assert (await found.ask("GET", f"{ALL}?accumulate=true")).code == 200
    assert (await found.ask("PUT", "/api/v2/quotas/project-bad", {"memory": 2})).code == 200
    assert (await found.get("/api/v2/quotas/project-bad"))["quota"] == {"memory": 2.0}


# --- creating --------------------------------------------------------------------------------------------------------


async def test_a_quota_is_made_for_a_project() -> None:
    found = Api().project("new", "Brand new")
    body = {"subjectName": "new", "subjectKind": "project", "quota": {"cpu": 0, "memory": 10.37}}
    answered = await found.ask("POST", ALL, body)
    assert (answered.code, "warning" in answered.headers) == (201, False)
    assert json.loads(answered.body) == {
        "name": "project-new",
        "subjectName": "new",
        "subjectKind": "project",
        "subjectHumanReadableName": "Brand new",
        "isDefault": False,
        "quota": {"cpu": 0, "memory": 10.37},
        "status": {"globalUsage": {}},
    }
    assert found.quota("project-new").spec.quota == details(cpu="0", memory="10.37Gi"), "storage has no limit"


async def test_a_quota_may_be_there_before_its_project_which_is_said() -> None:
    answered = await Api().ask("POST", ALL, {"subjectName": "new", "quota": {}})
    assert answered.code == 201
    assert "there is no project new yet" in answered.headers["warning"]


async def test_seeds_that_will_not_hear_of_a_limit_are_named() -> None:
    """By the quota's own status; of a first quota by those of others."""
    seeds = (SeedUsage(name="us", stale_since="2026-05-01T10:00:00Z"), SeedUsage(name="eu"))
    status = ResourceQuotaStatus(global_usage=usage("3"), seeds=seeds)
    found = Api().put(quota("abc", details(cpu="5"), status=status)).project("new", "Brand new")
    requests: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("PUT", ONE, {"cpu": 9}),
        ("POST", ALL, {"subjectName": "new", "quota": {"cpu": 1}}),
    )
    for method, path, body in requests:
        said = (await found.ask(method, path, body)).headers["warning"]
        assert "these seeds cannot be reached" in said
        assert "until they can: us (since 2026-05-01T10:00:00Z); Ready is False" in said
    assert "warning" not in (await found.ask("PUT", ONE, {"cpu": 9})).headers, "the limits stay"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param({"quota": {"cpu": 1}}, "subjectName: subject's name cannot be empty", id="no subject"),
        pytest.param({"subjectName": ""}, "subjectName: subject's name cannot be empty", id="an empty subject"),
        pytest.param({"subjectName": "A b"}, "subjectName: 'A b' is no id of a project", id="no id"),
        pytest.param({"subjectName": "n", "subjectKind": "user"}, "subjectKind: 'user' is not known", id="another kind"),
        pytest.param({"subjectName": "n", "quota": {"cpu": -1}}, "quota.cpu: -1: a whole number from 0", id="negative"),
        pytest.param({"subjectName": "n", "quota": {"cpu": 1.5}}, "quota.cpu: Expected `int | null`", id="half a core"),
        pytest.param({"subjectName": "n", "quota": {"memory": "1Gi"}}, "quota.memory: Expected `int | float", id="a text"),
        pytest.param({"subjectName": "n", "quota": {"storage": 0.001}}, "quota.storage: 0.001: a number of GB", id="places"),
        pytest.param(
            {"subjectName": "n", "quota": {"gpu": 1}}, "quota: Object contains unknown field `gpu`", id="unknown, inside"
        ),
        pytest.param({"subjectname": "n"}, "Object contains unknown field `subjectname`", id="unknown, outside"),
        pytest.param([], "Expected `object`, got `array`", id="no object"),
    ],
)
async def test_what_is_wrong_with_a_new_quota_is_answered_400_with_the_field(body: Any, message: str) -> None:
    found = Api()
    answered = await found.ask("POST", ALL, body)
    assert (answered.code, found.objects) == (400, {})
    assert answered.status["message"].startswith(message), answered.status["message"]


async def test_a_project_has_one_quota() -> None:
    answered = await api().ask("POST", ALL, {"subjectName": "abc"})
    assert answered.code == 409
    assert "project abc has a quota already" in answered.status["message"]


async def test_one_of_another_name_counts_too() -> None:
    found = Api().put(quota("abc", name="by-hand", labels={"subject-name": "abc", "subject-kind": "project"}))
    assert (await found.ask("POST", ALL, {"subjectName": "abc"})).code == 409


async def test_what_the_webhook_says_is_passed_on() -> None:
    found = Api(error=Invalid("spec.quota.cpu: no", code=422))
    answered = await found.ask("POST", ALL, {"subjectName": "abc"})
    assert (answered.code, answered.status["message"]) == (400, "spec.quota.cpu: no")


async def test_a_body_of_megabytes_is_not_read() -> None:
    assert (await Api().ask("POST", ALL, {"subjectName": "x" * 10**6})).code == 413


# --- replacing -------------------------------------------------------------------------------------------------------


async def test_all_limits_are_replaced() -> None:
    found = api()
    answered = await found.ask("PUT", ONE, {"cpu": 8, "memory": 0})
    assert (answered.code, json.loads(answered.body)["quota"]) == (200, {"cpu": 8, "memory": 0.0})
    assert found.quota("project-abc").spec.quota == details(cpu="8", memory="0"), "storage has no limit any more"


async def test_a_default_quota_that_is_set_is_one_of_its_own() -> None:
    found = Api().put(default_quota("abc", details(cpu="5")))
    await found.ask("PUT", ONE, {"cpu": 5})
    labels = found.quota("project-abc").metadata.labels
    assert not is_default(found.quota("project-abc").metadata)
    assert labels == {}, "neither mark is left"


async def test_what_is_shown_can_be_sent_back() -> None:
    found = Api().put(quota("abc", details(cpu="1500m", memory="1T", storage="0")))
    shown = (await found.get(ONE))["quota"]
    assert shown == {"cpu": 1, "memory": 931.32, "storage": 0.0}
    await found.ask("PUT", ONE, shown)
    assert found.quota("project-abc").spec.quota == details(cpu="1500m", memory="1T", storage="0")


async def test_a_quota_below_present_use_is_accepted_with_a_warning() -> None:
    answered = await api().ask("PUT", ONE, {"cpu": 2})
    assert answered.code == 200
    assert "3 cores used, 1 core more than the quota of 2 cores" in answered.headers["warning"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param({"cpu": -1}, "cpu: -1: a whole number from 0", id="negative"),
        pytest.param({"quota": {"cpu": 1}}, "Object contains unknown field `quota`", id="the body is the quota itself"),
    ],
)
async def test_what_is_wrong_with_new_limits_is_answered_400(body: Any, message: str) -> None:
    found = api()
    answered = await found.ask("PUT", ONE, body)
    assert (answered.code, found.writes) == (400, [])
    assert answered.status["message"].startswith(message)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(NotFound("gone", code=404), 404, id="it went meanwhile"),
        pytest.param(Conflict("another", code=409), 409, id="it was made anew meanwhile"),
    ],
)
async def test_one_that_goes_meanwhile_is_not_replaced(error: Exception, code: int) -> None:
    found = api()
    found.error = error
    assert (await found.ask("PUT", ONE, {"cpu": 1})).code == code


# --- deleting --------------------------------------------------------------------------------------------------------


async def test_a_quota_is_deleted_once() -> None:
    found = api()
    answered = await found.ask("DELETE", ONE)
    assert (answered.code, answered.body) == (200, b"{}")
    assert (await found.ask("DELETE", ONE)).code == 404
    found = api()
    found.error = NotFound("gone", code=404)
    assert (await found.ask("DELETE", ONE)).code == 404


async def test_that_a_default_stays_is_said_in_the_webhook_s_words() -> None:
    found = Api(error=Forbidden(DEFAULT_STAYS, code=403)).put(default_quota("abc"))
    answered = await found.ask("DELETE", ONE)
    assert (answered.code, answered.status["message"]) == (403, DEFAULT_STAYS)


# --- rights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [MEMBER, STRANGER])
@pytest.mark.parametrize(
    ("method", "url"), [("GET", ALL), ("POST", ALL), ("GET", ONE), ("PUT", ONE), ("DELETE", ONE), ("GET", f"{ALL}/none")]
)
async def test_nobody_else_may(method: str, url: str, token: str) -> None:
    found = api()
    before = dict(found.objects)
    answered = await found.ask(method, url, {"subjectName": "new"} if method == "POST" else {}, token=token)
    assert (answered.code, found.objects, found.listed) == (403, before, 0)


@pytest.mark.parametrize("token", [None, "expired"])
async def test_without_a_token_that_is_known_there_is_no_answer(token: str | None) -> None:
    assert (await api().ask("GET", ALL, token=token)).code == 401
    assert (await api().ask("GET", ALL, token=ADMIN)).code == 200
