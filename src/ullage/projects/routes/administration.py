"""Quotas for administrators: listed, shown, made, replaced and deleted.

Everything is read from the API itself, and written with our own rights once the caller's have been looked at. What is wrong
with a quota is decided by its webhook, as for everybody else; here a request is only read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import UNSET

from ullage.errors import BadInput
from ullage.kube.client.client import Client
from ullage.kube.errors import AlreadyExists, NotFound
from ullage.kube.kinds import Meta
from ullage.kube.objects import Json
from ullage.kube.routes import Declined, Parameter, Permission, Reply, Route, RouteCall
from ullage.ledger.amounts import Amounts
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.kkp import PROJECTS, Project
from ullage.projects.api.quotas import PROJECT_QUOTAS, ResourceQuota, ResourceQuotaSpec, Subject
from ullage.projects.names import DEFAULT_MARKS, PROJECT, RESOURCES, SUBJECT_NAME, bad_project_id, is_project_id, quota_name
from ullage.projects.quota import readable_of
from ullage.projects.routes.freshness import list_warnings, usage_warnings
from ullage.projects.routes.items import NewQuota, Nothing, QuotaItem, QuotaNumbers, details_of, item_of, total_of
from ullage.projects.webhook.quota_rules import QuotaFacts, unreachable
from ullage.projects.webhook.quota_rules import warnings as quota_warnings

MANAGER: Final = "ullage-api"
COLLECTION: Final = ("/api/v2/quotas",)
ONE: Final = ("/api/v2/quotas/{name}",)
EMPTY_SUBJECT: Final = "subject's name cannot be empty"
WRONG: Final = "What was sent is wrong: the Status names the field."
UNITS: Final = (
    "A GB is 2^30 bytes, and is written to the object as `Gi`. A field that is absent has no limit, 0 allows none, and a field "
    "that is not known is refused."
)
FILTERS: Final = (
    Parameter(name="subjectName", description="Only the quota of the project with this id."),
    Parameter(name="subjectKind", description="Only quotas of this kind of subject.", values=(PROJECT,)),
    Parameter(
        name="accumulate", description="`true`: one item, `totalquota`, that has the sums of all.", values=("true", "false")
    ),
)


class QuotaAdministration:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self, call: RouteCall) -> Reply:
        wanted = call.query.get("subjectName")
        quotas = (await self._client.list(PROJECT_QUOTAS)).items
        found = sorted(
            (one for one in quotas if wanted is None or one.spec.subject.name == wanted), key=lambda one: one.metadata.name
        )
        if call.query.get("accumulate") == "true":
            return Reply((total_of(found),), list_warnings(found))
        projects = await self._projects() if found else {}
        return Reply(tuple(item_of(one, projects.get(one.spec.subject.name)) for one in found), list_warnings(found))

    async def show(self, call: RouteCall) -> Reply:
        quota = await self._quota(call)
        return await self._answer(quota, usage_warnings(quota))

    async def create(self, call: RouteCall) -> Reply:
        given: NewQuota = call.body
        _check_subject(given)
        quota = ResourceQuota(
            metadata=Meta(name=quota_name(given.subject_name)),
            spec=ResourceQuotaSpec(subject=Subject(name=given.subject_name), quota=_details(given.quota, field="quota.")),
        )
        labelled = await self._client.list(PROJECT_QUOTAS, labels=f"{SUBJECT_NAME}={given.subject_name}")
        if any(one.spec.subject == quota.spec.subject for one in labelled.items):
            raise _there_is_one(given.subject_name)
        try:
            made = await self._client.create(PROJECT_QUOTAS, quota)
        except AlreadyExists:
            raise _there_is_one(given.subject_name) from None
        project = await self._project(given.subject_name)
        unknown = () if project is not None else (f"there is no project {given.subject_name} yet: the quota waits for it",)
        away = unreachable((await self._client.list(PROJECT_QUOTAS)).items)
        return Reply(item_of(made, project), (*unknown, *quota_warnings(QuotaFacts(new=made, away=away))))

    async def replace(self, call: RouteCall) -> Reply:
        """The whole of the limits: what is not said has none. Whoever sets a quota has made it his own."""
        old = await self._quota(call)
        details = _details(call.body, before=old.spec.quota)
        merge = {"metadata": {"labels": dict.fromkeys(DEFAULT_MARKS)}, "spec": {"quota": _merge(details)}}
        try:
            new = await self._client.patch(
                PROJECT_QUOTAS, old.metadata.name, merge=merge, uid=old.metadata.uid, field_manager=MANAGER
            )
        except NotFound:
            raise Declined.missing(PROJECT_QUOTAS, old.metadata.name) from None
        used = Amounts(readable_of(new.status.global_usage))
        facts = QuotaFacts(new=new, old=old, used=used, away=unreachable([new]))
        return await self._answer(new, (*quota_warnings(facts), *usage_warnings(new)))

    async def delete(self, call: RouteCall) -> Reply:
        quota = await self._quota(call)
        try:
            await self._client.delete(PROJECT_QUOTAS, quota.metadata.name, uid=quota.metadata.uid)
        except NotFound:
            raise Declined.missing(PROJECT_QUOTAS, quota.metadata.name) from None
        return Reply(Nothing())

    # --- reading ---

    async def _quota(self, call: RouteCall) -> ResourceQuota:
        found = await self._client.find(PROJECT_QUOTAS, call.names["name"])
        if found is None:
            raise Declined.missing(PROJECT_QUOTAS, call.names["name"])
        return found

    async def _answer(self, quota: ResourceQuota, warnings: Iterable[str] = ()) -> Reply:
        return Reply(item_of(quota, await self._project(quota.spec.subject.name)), tuple(warnings))

    async def _project(self, name: str) -> Project | None:
        """A subject may be anything where nobody has checked it."""
        return await self._client.find(PROJECTS, name) if is_project_id(name) else None

    async def _projects(self) -> dict[str, Project]:
        return {one.metadata.name: one for one in (await self._client.list(PROJECTS)).items}


def _check_subject(given: NewQuota) -> None:
    if not given.subject_name:
        raise Declined.invalid("subjectName", EMPTY_SUBJECT)
    if not is_project_id(given.subject_name):
        raise Declined.invalid("subjectName", bad_project_id(given.subject_name))
    if given.subject_kind != PROJECT:
        raise Declined.invalid("subjectKind", f"{given.subject_kind[:64]!r} is not known: {PROJECT} is allowed")


def _there_is_one(project: str) -> Declined:
    message = f"project {project} has a quota already. Next: PUT /api/v2/quotas/{quota_name(project)} to replace it"
    return Declined(409, "AlreadyExists", message)


def _details(given: QuotaNumbers, *, before: ResourceDetails | None = None, field: str = "") -> ResourceDetails:
    try:
        return details_of(given, before=before, field=field)
    except BadInput as error:
        raise Declined.invalid(error.where, f"{error.given}: {error.problem}") from None


def _merge(details: ResourceDetails) -> Json:
    """What is absent is taken out, and what others keep beside it stays."""
    return {name: None if (value := getattr(details, name)) is UNSET else value for name in RESOURCES}


def administration_routes(client: Client) -> Iterable[Route]:
    actions = QuotaAdministration(client)
    return (*_of_all(actions), *_of_one(actions))


def _right(verb: str, word: str) -> Permission:
    return Permission(verb=verb, kind=PROJECT_QUOTAS, words=f"{word} quotas")


def _of_all(actions: QuotaAdministration) -> Iterable[Route]:
    yield Route(
        name="list-quotas",
        method="GET",
        paths=COLLECTION,
        access=_right("list", "list"),
        answer=actions.list,
        query=FILTERS,
        reply=QuotaItem,
        many=True,
        invalid=400,
        summary="List quotas",
        description="All quotas, or those that the filters choose, by name. Memory and disk are rounded to two "
        "places; a GB is 2^30 bytes. Where a usage is not of now there is a header `Warning`.",
    )
    yield Route(
        name="create-quota",
        method="POST",
        paths=COLLECTION,
        access=_right("create", "create"),
        answer=actions.create,
        body=NewQuota,
        reply=QuotaItem,
        code=201,
        invalid=400,
        summary="Create the quota of a project",
        description=f"A project has one quota, which is called `project-<id>`. {UNITS}",
        refusals={400: WRONG, 409: "The project has a quota already."},
    )


def _of_one(actions: QuotaAdministration) -> Iterable[Route]:
    yield Route(
        name="get-quota",
        method="GET",
        paths=ONE,
        access=_right("get", "see"),
        answer=actions.show,
        reply=QuotaItem,
        summary="Show a quota",
        description="One quota, with what is used of it. Where that is not of now there is a header `Warning`.",
    )
    yield Route(
        name="replace-quota",
        method="PUT",
        paths=ONE,
        access=_right("update", "change"),
        answer=actions.replace,
        body=QuotaNumbers,
        reply=QuotaItem,
        invalid=400,
        summary="Replace a quota",
        description=f"Sets all limits of a quota. {UNITS} It does not follow the default of the installation any more. A limit "
        "below present use is accepted, with a header `Warning`; no machine is removed. A number that was shown leaves its "
        "amount as it is, to the byte.",
        refusals={400: WRONG, 409: "It was deleted and made anew meanwhile."},
    )
    yield Route(
        name="delete-quota",
        method="DELETE",
        paths=ONE,
        access=_right("delete", "delete"),
        answer=actions.delete,
        reply=Nothing,
        summary="Delete a quota",
        description="Removes a quota, and its copies on the seeds. Where the installation has a default the project gets that.",
        refusals={403: "The token's owner may not; or it is the default quota, which would be back at once."},
    )
