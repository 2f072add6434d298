"""What a machine costs, written on it."""

from __future__ import annotations

import pytest

from tests.unit.headroom.builders import ONE, ONE_COST, SEED, domain, instance, machine, made, stamped
from ullage.errors import BadInput
from ullage.headroom.accounts import MAINTENANCE, VMS, amounts_in, limits_for, stamp_for
from ullage.headroom.cost import instance_cost, machine_cost, read_cost, write_cost
from ullage.ledger.amounts import Amounts
from ullage.ledger.charging.stamps import BadStamp
from ullage.vms.api.machines import INSTANCES
from ullage.vms.pricing import Pricing, PricingChoice


def test_a_machine_and_its_instance_cost_the_same() -> None:
    assert write_cost(machine_cost(machine(), SEED)) == write_cost(instance_cost(instance(), SEED)) == ONE_COST
    assert str(stamp_for(VMS, machine_cost(machine(), SEED))) == ONE


def test_what_is_written_is_read_again() -> None:
    cost = machine_cost(
        machine(template=domain(cpu="1500m", memory="3Gi", guest="2Gi")),
        Pricing(PricingChoice(version="v1.4").settings_by(None)),
    )
    assert read_cost(made(INSTANCES, instance(annotations=stamped("{}", cost=write_cost(cost)))).metadata) == cost
    assert cost.written()["cpu"] == "1515m"


@pytest.mark.parametrize("cost", ["", "nonsense", "{}x", '{"cpu":"-1"}', '{"cpu":"many"}', '{"cpu":1}'])
def test_a_cost_that_is_missing_or_makes_no_sense_is_said(cost: str) -> None:
    with pytest.raises(BadStamp, match=r"metadata\.annotations\[ullage\.io/cost\]"):
        read_cost(made(INSTANCES, instance(annotations=stamped("{}", cost=cost))).metadata)


def test_a_fault_names_the_field_as_the_kind_has_it() -> None:
    wrong = domain(memory="much")
    with pytest.raises(BadInput, match=r"^spec\.template\.spec\.domain\.resources\.limits\.memory much: "):
        machine_cost(machine(template=wrong), SEED)
    with pytest.raises(BadInput, match=r"^spec\.domain\.resources\.limits\.memory much: "):
        instance_cost(instance(given=wrong), SEED)


@pytest.mark.parametrize("body", [{}, {"spec": None}, {"spec": {"template": []}}, {"spec": {"template": {"spec": "x"}}}])
def test_a_template_that_is_no_template_costs_what_an_empty_one_does(body: dict[str, object]) -> None:
    assert machine_cost(body, SEED) == machine_cost({}, SEED)


def test_accounts_are_told_apart_and_zero_is_a_limit() -> None:
    cost = Amounts.parse({"cpu": "1"})
    stamp = stamp_for(MAINTENANCE, cost)
    assert (amounts_in(stamp, MAINTENANCE), amounts_in(stamp, VMS)) == (cost, Amounts())
    assert str(stamp) == '{"compute/maintenance":{"cpu":"1","memory":"0"}}', "the account is there: it may grow"
    assert {cell.resource: str(value) for cell, value in limits_for(VMS, cost).items()} == {"cpu": "1", "memory": "0"}
    assert len(limits_for(VMS, cost, limited=("cpu",))) == 1


def test_annotations_count_as_kubevirt_makes_sidecars_of_them() -> None:
    """Each takes 200m and 64M of a guaranteed VM."""
    pricing, hook = Pricing(PricingChoice().settings_by(None)), {"hooks.kubevirt.io/hookSidecars": '[{"image": "a"}]'}
    vm = machine()
    vm["spec"]["template"]["metadata"] = {"annotations": hook}
    more = Amounts.parse({"cpu": "200m", "memory": "64M"})
    assert machine_cost(vm, pricing) == machine_cost(machine(), pricing) + more
    assert instance_cost(instance(annotations=hook), pricing) == instance_cost(instance(), pricing) + more
