"""All routes of the slice: what the document says of them, whom their rights belong to, and what they need of the API."""

from __future__ import annotations

from typing import Any

from tests.unit.ledger.simulated import Server
from tests.unit.ledger.slices import wired
from ullage.kube.routes import Route
from ullage.kube.slices import Slice
from ullage.projects.api.catalogues import CATALOGUES
from ullage.projects.api.kkp import PROJECTS
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.routes.roles import ADMIN, USER_ROLES, VIEWER
from ullage.projects.routes.routes import ROUTES
from ullage.rest.openapi import document

PATHS = {
    "/api/v2/quotas": {"get", "post"},
    "/api/v2/quotas/{name}": {"get", "put", "delete"},
    "/api/v2/projects/{id}/quota": {"get"},
    "/api/v2/projects/{id}/quotacalculation": {"post"},
}


def routes() -> list[Route]:
    return wired(Server()).routes((Slice(name="projects", routes=ROUTES),))


def schema(told: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = told["components"]["schemas"][name]
    return found


def test_the_document_has_every_path_with_its_answers() -> None:
    told = document(routes())
    assert {path: set(methods) - {"parameters"} for path, methods in told["paths"].items()} == PATHS
    made = told["paths"]["/api/v2/quotas"]["post"]
    assert {"201", "400", "401", "403", "409"} <= set(made["responses"])
    assert "422" not in made["responses"]
    listed = told["paths"]["/api/v2/quotas"]["get"]
    assert [one["name"] for one in listed["parameters"]] == ["subjectName", "subjectKind", "accumulate"]


def test_everybody_who_sends_or_reads_numbers_is_told_what_a_gb_is() -> None:
    told = document(routes())
    for name in ("QuotaNumbers", "QuotaItem", "NewQuota", "CalculationRequest", "CalculatedQuota"):
        assert "2^30" in str(schema(told, name)), name
    for path, method in (("/api/v2/quotas", "post"), ("/api/v2/quotas/{name}", "put")):
        assert "A GB is 2^30 bytes, and is written to the object as `Gi`" in told["paths"][path][method]["description"]
    assert "diskSizeGB" in schema(told, "CalculationRequest")["properties"]


def test_members_need_a_right_on_the_one_quota_and_administrators_on_all() -> None:
    rights = {route.name: (route.access.verb, route.access.name) for route in routes()}
    assert rights == {
        "list-quotas": ("list", ""),
        "create-quota": ("create", ""),
        "get-quota": ("get", ""),
        "replace-quota": ("update", ""),
        "delete-quota": ("delete", ""),
        "get-project-quota": ("get", "project-{id}"),
        "calculate-project-quota": ("get", "project-{id}"),
    }


def test_an_administrator_has_every_right_that_is_asked_for_and_a_viewer_may_look() -> None:
    admin, viewer = USER_ROLES
    assert (admin.name, viewer.name) == (ADMIN, VIEWER)
    assert {route.access.verb for route in routes()} <= set(admin.verbs)
    assert set(viewer.verbs) == {"get", "list", "watch"}


def test_what_is_done_to_the_api_is_declared() -> None:
    assert set(ROUTES.watches) == {PROJECT_QUOTAS, PROJECTS, CATALOGUES}
    assert {one.kind: set(one.verbs) for one in ROUTES.writes} == {
        PROJECT_QUOTAS: {"get", "create", "patch", "delete"},
        PROJECTS: {"get"},
    }
