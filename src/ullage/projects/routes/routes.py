"""All routes of the slice, and what they do to the API. They are served where the quotas are: on the master."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ullage.kube.routes import Route
from ullage.kube.slices import Part, Wiring, Write
from ullage.projects.api.catalogues import CATALOGUES
from ullage.projects.api.kkp import PROJECTS
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.routes.administration import administration_routes
from ullage.projects.routes.membership import membership_routes


def quota_routes(wiring: Wiring) -> Iterable[Route]:
    return (*administration_routes(wiring.client), *membership_routes(wiring.client))


ROUTES: Final = Part(
    make=quota_routes,
    watches=(PROJECT_QUOTAS, PROJECTS, CATALOGUES),  # no cache is kept: they are listed
    writes=(Write(PROJECT_QUOTAS, ("get", "create", "patch", "delete")), Write(PROJECTS, ("get",))),
)
