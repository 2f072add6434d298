"""Scenarios 1 to 5 of the document on quotas that leave room to migrate, beside KubeVirt's own virt-api and virt-controller."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.built import built
from tests.e2e.test_headroom_scenarios import (
    test_scenario_1_a_vm_is_migrated_although_the_vms_have_all_of_their_share,
    test_scenario_2_a_vm_is_migrated_while_another_is_stopped_started_and_restarted,
    test_scenario_3_what_does_not_run_for_a_while_keeps_its_place,
    test_scenario_4_a_second_migration_waits_until_the_reserve_is_free,
    test_scenario_4_of_a_half_two_migrations_fit_as_two_vms_do,
    test_scenario_5_a_backup_is_restored_as_a_new_vm_where_there_is_room,
)
from tools.peers.kubevirt.build import kubevirt

from .kubevirt_scene import KubeVirtScene, kubevirt_scene

__all__ = [
    "test_scenario_1_a_vm_is_migrated_although_the_vms_have_all_of_their_share",
    "test_scenario_2_a_vm_is_migrated_while_another_is_stopped_started_and_restarted",
    "test_scenario_3_what_does_not_run_for_a_while_keeps_its_place",
    "test_scenario_4_a_second_migration_waits_until_the_reserve_is_free",
    "test_scenario_4_of_a_half_two_migrations_fit_as_two_vms_do",
    "test_scenario_5_a_backup_is_restored_as_a_new_vm_where_there_is_room",
]

pytestmark = [pytest.mark.peers, pytest.mark.timeout(1200)]  # the first time includes the build


@pytest.fixture(scope="module")
def scene() -> Iterator[KubeVirtScene]:
    with kubevirt_scene(built(kubevirt)) as (made, _):
        yield made
