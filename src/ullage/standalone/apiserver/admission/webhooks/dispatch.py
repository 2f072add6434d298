"""Admission webhooks, in the order that the API promises.

Mutating ones are asked one after the other, by the name of their configuration and then in its order, each seeing what the one
before left. Those that ask for it (`reinvocationPolicy: IfNeeded`) are asked once more if a later one changed the object.
Validating ones are asked side by side, and all must agree.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ullage.standalone.apiserver.admission.attributes import Attributes
from ullage.standalone.apiserver.admission.match import Index, Match, NamespaceOf, conditions_hold, selected
from ullage.standalone.apiserver.admission.review import (
    CallFailure,
    Verdict,
    admission_request,
    apply_patch,
    convert,
    encode_review,
    read_verdict,
    refusal,
    warning_headers,
)
from ullage.standalone.apiserver.admission.webhooks.calls import Caller, ResolveService, no_services
from ullage.standalone.apiserver.kinds.resources import Registry
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError, bad_request, internal_error, json_string

__all__ = ["Attributes", "Webhooks", "warning_headers"]

Judge = Callable[[Attributes], list[str]]  # gives warnings, or raises the refusal
Configurations = Callable[[], tuple[list[Json], list[Json]]]
SAFE_TO_TRY = ("None", "NoneOnDryRun")


@dataclass(slots=True)
class _Reinvocation:
    """Who was asked already and wants to be asked again, should the object still change."""

    asked: set[str] = field(default_factory=set)
    again: set[str] = field(default_factory=set)

    def changed(self) -> None:
        self.again |= self.asked
        self.asked.clear()


class Webhooks:
    """`configurations` returns (mutating, validating); while nothing changed it must return the very same two lists."""

    def __init__(
        self,
        configurations: Configurations,
        namespace_of: NamespaceOf,
        registry: Registry,
        *,
        resolve_service: ResolveService = no_services,
        new_uid: Callable[[], str] = lambda: str(uuid.uuid4()),
        policies: Judge = lambda attrs: [],
    ) -> None:
        self._configurations = configurations
        self._namespace_of = namespace_of
        self._registry = registry
        self._caller = Caller(resolve_service)
        self._new_uid = new_uid
        self._policies = policies
        self._sources: tuple[list[Json], list[Json]] = ([], [])
        self._mutating = self._validating = Index((), registry)

    async def close(self) -> None:
        await self._caller.close()

    async def mutate(self, attrs: Attributes) -> list[str]:
        """Lets mutating webhooks replace `attrs.object`; returns their warnings. Raises ApiError where one refuses."""
        self._refresh()
        matches = self._mutating.candidates(attrs.resource, attrs.subresource, attrs.operation)
        if not matches:
            return []
        warnings: list[str] = []
        state = _Reinvocation()
        try:
            for match in matches:
                await self._mutate_with(match, attrs, state, warnings)
            for match in matches:
                if match.hook.key in state.again:  # asked of each in its turn: what is changed now calls for later ones too
                    await self._mutate_with(match, attrs, state, warnings)
        except ApiError as error:
            raise _with_warnings(error, warnings) from error.__cause__
        return warnings

    async def validate(self, attrs: Attributes) -> list[str]:
        """Asks the policies, then all validating webhooks at once; returns their warnings. Raises the first refusal."""
        said = self._policies(attrs)
        self._refresh()
        matches = self._validating.candidates(attrs.resource, attrs.subresource, attrs.operation)
        if not matches:
            return said
        wanted = [match for match in matches if self._wants(match, attrs)]
        refusals: list[ApiError] = []
        verdicts = await asyncio.gather(*(self._judge(match, attrs, refusals) for match in wanted))
        warnings = said + [text for verdict in verdicts if verdict is not None for text in verdict.warnings]
        if refusals:
            raise _with_warnings(refusals[0], warnings)
        return warnings

    def _refresh(self) -> None:
        mutating, validating = self._configurations()
        if mutating is not self._sources[0]:
            self._mutating = Index(mutating, self._registry)
        if validating is not self._sources[1]:
            self._validating = Index(validating, self._registry)
        self._sources = (mutating, validating)

    def _wants(self, match: Match, attrs: Attributes) -> bool:
        hook = match.hook
        if not selected(hook, attrs, self._namespace_of):
            return False
        if hook.conditions:
            variables = {
                "object": convert(attrs.object, attrs.resource, match.resource),
                "oldObject": convert(attrs.old, attrs.resource, match.resource),
                "request": admission_request(attrs, match.resource, uid=""),
            }
            if not conditions_hold(hook, attrs, variables):
                return False
        if attrs.dry_run and hook.side_effects not in SAFE_TO_TRY:
            raise bad_request(f"admission webhook {json_string(hook.name)} does not support dry run")
        return True

    async def _mutate_with(self, match: Match, attrs: Attributes, state: _Reinvocation, warnings: list[str]) -> None:
        if not self._wants(match, attrs):
            return
        verdict = await self._ask(match, attrs, mutating=True)
        if verdict is None:
            return
        warnings += verdict.warnings
        if not verdict.allowed:
            raise refusal(match.hook.name, verdict.status)
        if verdict.patch and attrs.object is not None:
            shown = convert(attrs.object, attrs.resource, match.resource) or {}
            patched = apply_patch(shown, verdict.patch)
            if patched != shown:
                attrs.object = convert(patched, match.resource, attrs.resource)
                state.changed()
        if match.hook.reinvoke:
            state.asked.add(match.hook.key)

    async def _judge(self, match: Match, attrs: Attributes, refusals: list[ApiError]) -> Verdict | None:
        try:
            verdict = await self._ask(match, attrs, mutating=False)
        except ApiError as error:
            refusals.append(error)
            return None
        if verdict is not None and not verdict.allowed:
            refusals.append(refusal(match.hook.name, verdict.status))
        return verdict

    async def _ask(self, match: Match, attrs: Attributes, *, mutating: bool) -> Verdict | None:
        """The webhook's verdict, or None where it failed and its failurePolicy is Ignore."""
        uid, hook = self._new_uid(), match.hook
        body = encode_review(
            admission_request(attrs, match.resource, uid=uid),
            convert(attrs.object, attrs.resource, match.resource),
            convert(attrs.old, attrs.resource, match.resource),
        )
        try:
            return read_verdict(await self._caller.post(hook, body), uid=uid, mutating=mutating)
        except CallFailure as failure:
            if hook.ignore_failure:
                return None
            raise internal_error(f"failed calling webhook {json_string(hook.name)}: {failure}") from failure


def _with_warnings(error: ApiError, texts: Iterable[str]) -> ApiError:
    """What webhooks had to say reaches the client, even if one of them refused."""
    error.headers = (*error.headers, *warning_headers(texts))
    return error
