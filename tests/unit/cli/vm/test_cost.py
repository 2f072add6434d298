"""What `ullage vm cost` prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ullage.cli.vm.command import app
from ullage.errors import BadInput

VM = """
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: db, namespace: shop}
spec:
  runStrategy: Halted
  template:
    spec:
      domain:
        memory: {guest: 924Mi}
        resources: {limits: {cpu: "1", memory: 1Gi}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "vm.yaml"
    path.write_text(VM)
    return path


def printed(file: Path, *arguments: str) -> list[str]:
    done = CliRunner().invoke(app, ["cost", "-f", str(file), *arguments])
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def test_the_sum_is_told_part_by_part(file: Path) -> None:
    """60M of the guest-console-log are 57.23Mi."""
    assert printed(file, "--kubevirt", "v1.6.0") == [
        "virtualmachine.kubevirt.io/db costs 1.015 cores and 1451.23Mi of memory",
        "  guest                           1024Mi  1 core",
        "  processes beside the guest       220Mi",
        "  1 vCPU                             8Mi",
        "  IO thread                          8Mi",
        "  page tables                        2Mi",
        "  screen                            32Mi",
        "  guaranteed resources             100Mi",
        "  guest-console-log              57.23Mi  0.015 cores",
    ]


def test_the_formula_of_the_design_stays_by_its_name(file: Path) -> None:
    assert printed(file, "--kubevirt", "seed") == [
        "virtualmachine.kubevirt.io/db costs 1 core and 1222Mi of memory",
        "  memory                          1024Mi  1 core",
        "  processes beside the guest       180Mi",
        "  1 vCPU                             8Mi",
        "  IO thread                          8Mi",
        "  page tables                        2Mi",
    ]


def test_as_json_the_amounts_are_exact(file: Path) -> None:
    """A byte count that Harvester itself shows for such a VM, at its ratio."""
    done = CliRunner().invoke(app, ["cost", "-f", str(file), "-o", "json", "--kubevirt", "v1.4.0", "--overhead-ratio", "1.5"])
    (found,) = json.loads(done.output)
    assert (found["name"], found["cpuMilli"]) == ("db", 1015)
    around = (210 + 8 + 8 + 2 + 16 + 100) << 20
    more = int(-(-around // 1000) * 0.5) * 1000
    assert found["memoryBytes"] == (1024 << 20) + around + more + 60 * 10**6
    assert sum(one["memoryBytes"] for one in found["parts"]) == found["memoryBytes"]


def test_a_core_quota_gives_limits_to_vms_without(file: Path) -> None:
    file.write_text(VM.replace('cpu: "1", memory: 1Gi', ""))
    without, within = printed(file), printed(file, "--core-quota")
    assert without[0] == "virtualmachine.kubevirt.io/db costs 1.015 cores and 1251.03Mi of memory"
    assert within[-2:] == ["  limit above the request      1193.81Mi", without[-1]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--kubevirt", "v0.9"), "--kubevirt v0.9: v0.53.0 or later is allowed; so are auto and seed"),
        (
            ("--kubevirt", "newest"),
            "--kubevirt newest: a version of KubeVirt is allowed, such as v1.6.0 or 1.6; so are auto and seed",
        ),
        (("--overhead-ratio", "nan"), "--overhead-ratio nan: a number from 0 to 1000 is allowed"),
        (("-o", "yaml"), "--output yaml: text or json is allowed"),
    ],
    ids=["a version that is too old", "no version", "no ratio", "no such format"],
)
def test_wrong_options(file: Path, arguments: tuple[str, ...], message: str) -> None:
    done = CliRunner().invoke(app, ["cost", "-f", str(file), *arguments])
    assert isinstance(done.exception, BadInput)
    assert str(done.exception) == message


def test_a_file_without_a_vm(tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(VM.partition("---")[2])
    done = CliRunner().invoke(app, ["cost", "-f", str(path)])
    assert isinstance(done.exception, BadInput)
    assert (
        str(done.exception) == "-f configmap/other: there is no VirtualMachine or VirtualMachineInstance of kubevirt.io in it"
    )


TYPED = """
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: typed, namespace: shop}
spec:
  instancetype: {name: u1.2xlarge}
  preference: {name: plain, kind: VirtualMachinePreference}
  template: {spec: {domain: {devices: {}}}}
"""
TYPES = """
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: u1.2xlarge}
spec: {cpu: {guest: 8}, memory: {guest: 32Gi}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachinePreference
metadata: {name: plain, namespace: shop}
spec: {devices: {preferredAutoattachGraphicsDevice: false}}
"""


def test_a_vm_with_an_instance_type_costs_what_the_type_says(tmp_path: Path) -> None:
    (vm := tmp_path / "vm.yaml").write_text(TYPED)
    (types := tmp_path / "types.yaml").write_text(TYPES)
    told = printed(vm, "-f", str(types), "--kubevirt", "v1.6.0")
    assert told[0].startswith("virtualmachine.kubevirt.io/typed costs 8.015 cores and 33")
    assert told[1] == "  guest                          32768Mi  8 cores"
    assert not any("screen" in line for line in told), "the preference takes it away"


def test_a_vm_whose_instance_type_is_in_no_file_has_no_cost_that_could_be_told(tmp_path: Path) -> None:
    (vm := tmp_path / "vm.yaml").write_text(TYPED)
    done = CliRunner().invoke(app, ["cost", "-f", str(vm)])
    assert isinstance(done.exception, BadInput)
    assert str(done.exception) == (
        "spec.instancetype VirtualMachineClusterInstancetype u1.2xlarge: no file has it. Next: name its file with -f, too"
    )
