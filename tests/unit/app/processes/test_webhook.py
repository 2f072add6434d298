"""Hooks that would have to answer before they can be served."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.app.processes.webhook import refuse_self_locking
from ullage.kube.review import Decision, Hook, Review, Target


async def allow(review: Review) -> Decision:
    return Decision.allow()


def hook(resources: tuple[str, ...], *, group: str = "", **more: Any) -> Hook:
    target = Target(groups=(group,), versions=("v1",), resources=resources, operations=("CREATE",), scope="Namespaced")
    return Hook(name="h", phase="validate", targets=(target,), answer=allow, **more)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(hook(("secrets",)), id="the certificate is a secret"),
        pytest.param(hook(("pods", "configmaps")), id="one of several"),
        pytest.param(hook(("serviceaccounts/token",)), id="tokens are asked for at every start"),
        pytest.param(hook(("serviceaccounts/*",)), id="all subresources"),
        pytest.param(hook(("*/*",)), id="everything"),
        pytest.param(hook(("leases",), group="*"), id="in every group"),
        pytest.param(hook(("secrets",), only_in=("ullage-system",)), id="only there"),
        pytest.param(hook(("ledgers/status",), group="ullage.io"), id="what answers are written in"),
        pytest.param(hook(("secrets",), not_in=("kube-system",)), id="another namespace is left out"),
    ],
)
def test_a_hook_that_would_wait_for_itself_is_refused(bad: Hook) -> None:
    with pytest.raises(ValueError, match="exclude that namespace"):
        refuse_self_locking([hook(("pods",)), bad])


@pytest.mark.parametrize(
    "good",
    [
        pytest.param(hook(("pods",)), id="what we do not write"),
        pytest.param(hook(("secrets",), group="example.com"), id="the same word in another group"),
        pytest.param(hook(("secrets",), not_in=("ullage-system",)), id="our namespace is left out"),
        pytest.param(hook(("secrets",), only_in=("a",)), id="only elsewhere"),
        pytest.param(hook(("secrets",), failure_policy="Ignore"), id="one that nobody waits for"),
        pytest.param(hook(("serviceaccounts/status",)), id="another subresource"),
    ],
)
def test_other_hooks_are_taken(good: Hook) -> None:
    refuse_self_locking([good])
