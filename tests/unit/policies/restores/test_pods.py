"""Which pods use a claim, and how often the API is asked for that."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.clock import FakeClock
from ullage.kube.builtin.core import ClaimVolumeSource, EphemeralVolumeSource, PodVolume
from ullage.kube.builtin.watched_pods import WatchedPod, WatchedPodSpec, WatchedPodStatus
from ullage.kube.client.reader import Listing
from ullage.kube.kinds import Kind, Meta
from ullage.policies.restores.pods import RecentUsers, users_of


class Pods:
    def __init__(self, *pods: WatchedPod) -> None:
        self.pods = pods
        self.lists = 0

    async def list(self, kind: Kind[Any], namespace: str = "") -> Listing[Any]:
        self.lists += 1
        return Listing(list(self.pods), "1")


def pod(*, phase: str = "Running", volume: PodVolume | None = None) -> WatchedPod:
    named = PodVolume(name="v", persistent_volume_claim=ClaimVolumeSource(claim_name="db"))
    return WatchedPod(
        metadata=Meta(name="app", namespace="team", uid="u"),
        spec=WatchedPodSpec(volumes=(volume or named,)),
        status=WatchedPodStatus(phase=phase),
    )


@pytest.mark.parametrize(
    ("found", "claim", "uses"),
    [
        pytest.param(pod(), "db", True, id="one that runs"),
        pytest.param(pod(phase="Pending"), "db", True, id="one that waits"),
        pytest.param(pod(phase=""), "db", True, id="one that was made a moment ago"),
        pytest.param(pod(phase="Succeeded"), "db", False, id="one that is over"),
        pytest.param(pod(), "other", False, id="one with another claim"),
        pytest.param(pod(volume=PodVolume(name="own", ephemeral=EphemeralVolumeSource())), "app-own", True, id="its own claim"),
    ],
)
async def test_who_uses_a_claim(found: WatchedPod, claim: str, uses: bool) -> None:
    assert bool(await users_of(Pods(found), "team", claim)) is uses
    assert bool(await RecentUsers(Pods(found), clock=FakeClock()).of("team", claim)) is uses


async def test_a_thousand_restores_that_wait_cost_one_list_in_three_seconds() -> None:
    api, clock = Pods(pod()), FakeClock()
    recent = RecentUsers(api, clock=clock)
    for _ in range(3):
        for number in range(1000):
            await recent.of("team", f"claim-{number}")
        clock.advance(3.5)
    assert api.lists == 3
