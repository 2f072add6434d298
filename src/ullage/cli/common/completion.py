"""Words that the shell completes: names of what is in the cluster that the rest of the line is about.

A shell that waits is worse than one that does not help: whatever goes wrong, or takes longer than a moment, completes nothing
and says nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ullage.cli.common.session import Session

MOMENT: Final = 2.0  # seconds

Completion = Callable[[Any, str], list[str]]  # Typer's context, and what was typed of the word


def words(*all_: str) -> Completion:
    def complete(ctx: Any, incomplete: str) -> list[str]:
        return [one for one in all_ if one.startswith(incomplete)]

    return complete


def asked(read: Callable[[Session], Awaitable[list[str]]]) -> Completion:
    """Has the cluster asked that the options before the word name."""

    def complete(ctx: Any, incomplete: str) -> list[str]:
        return sorted({one for one in _answer(ctx.params, read) if one.startswith(incomplete)})

    return complete


def _answer(given: dict[str, Any], read: Callable[[Session], Awaitable[list[str]]]) -> list[str]:
    import asyncio

    try:
        from ullage.cli.common import session
        from ullage.cli.common.arguments import At

        at = At(*(given.get(name) for name in ("kubeconfig", "kube_context", "namespace", "dialect")))
        return session.connected(at, lambda found: asyncio.wait_for(read(found), MOMENT))
    except Exception:  # no cluster, no right, no such option: there is nothing to complete, and no place to say why
        return []


async def _names(session: Session, kind: Any, namespace: str = "") -> list[str]:
    return [one.metadata.name for one in (await session.client.list(kind, namespace)).items]


def contexts(ctx: Any, incomplete: str) -> list[str]:
    try:
        from ullage.kube.client.config import context_names

        return [one for one in context_names(ctx.params.get("kubeconfig")) if one.startswith(incomplete)]
    except Exception:  # as above
        return []


# --- kinds -----------------------------------------------------------------------------------------------------------


@asked
async def namespaces(session: Session) -> list[str]:
    from ullage.kube.builtin.core import NAMESPACES

    return await _names(session, NAMESPACES)


@asked
async def claims(session: Session) -> list[str]:
    from ullage.kube.builtin.core import CLAIMS

    return await _names(session, CLAIMS, session.namespace)


@asked
async def volumes(session: Session) -> list[str]:
    from ullage.kube.builtin.core import PERSISTENT_VOLUMES

    return await _names(session, PERSISTENT_VOLUMES)


@asked
async def pods(session: Session) -> list[str]:
    from ullage.kube.builtin.core import PODS

    return await _names(session, PODS, session.namespace)


@asked
async def stateful_sets(session: Session) -> list[str]:
    from ullage.kube.builtin.apps import STATEFUL_SETS

    return await _names(session, STATEFUL_SETS, session.namespace)


@asked
async def storage_classes(session: Session) -> list[str]:
    from ullage.kube.builtin.storage import STORAGE_CLASSES

    return await _names(session, STORAGE_CLASSES)


@asked
async def projects(session: Session) -> list[str]:
    return await known_projects(session)


async def known_projects(session: Session) -> list[str]:
    """As `project/ID`; where projects may not be read, or there are none as on some seeds, those that have a quota."""
    from ullage.kube.errors import Forbidden, NotFound
    from ullage.projects.api.kkp import PROJECTS
    from ullage.projects.api.quotas import PROJECT_QUOTAS

    found: set[str] = set()
    with suppress(Forbidden, NotFound):
        found |= set(await _names(session, PROJECTS))
    if not found:
        with suppress(Forbidden, NotFound):
            found |= {one.spec.subject.name for one in (await session.client.list(PROJECT_QUOTAS)).items}
    return [f"project/{one}" for one in sorted(found)]


@asked
async def seeds(session: Session) -> list[str]:
    from ullage.kube.errors import Forbidden
    from ullage.projects.api.kkp import SEEDS
    from ullage.projects.settings import SEED_NAMESPACE

    try:
        return await _names(session, SEEDS)
    except Forbidden:
        return await _names(session, SEEDS, SEED_NAMESPACE)
