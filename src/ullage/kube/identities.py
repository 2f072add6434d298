"""Who we are, as the API server sees us: the accounts of our own processes. The same on a cluster and on one machine."""

from __future__ import annotations

from typing import Final

from ullage.kube.review import Review

NAMESPACE: Final = "ullage-system"
CONTROLLER: Final = "controller"
WEBHOOK: Final = "webhook"
API: Final = "api"  # serves what people ask for beside the Kubernetes API; what it writes is written for others
WORLD: Final = "world"  # on one machine only: plays the parts of a cluster's own controllers


def account(name: str) -> str:
    """One of our service accounts, as a user."""
    return f"system:serviceaccount:{NAMESPACE}:{name}"


OWN: Final = frozenset(map(account, (CONTROLLER, WEBHOOK)))


def is_own(review: Review) -> bool:
    """Whether one of our own processes asks: only the API server says who somebody is, so nobody else can claim it. In another
    cluster anybody can: whoever administers it makes accounts of any name."""
    return not review.cluster and review.user.username in OWN
