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


def test_the_sum_is_told_part_by_part(file: Path) -> None:
    done = CliRunner().invoke(app, ["cost", "-f", str(file)])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines() == [
        "virtualmachine.kubevirt.io/db costs 1 core and 1222Mi of memory",
        "  memory                          1024Mi",
        "  processes beside the guest       180Mi",
        "  1 vCPU                             8Mi",
        "  IO thread                          8Mi",
        "  page tables                        2Mi",
    ]


def test_as_json_the_amounts_are_exact(file: Path) -> None:
    done = CliRunner().invoke(app, ["cost", "-f", str(file), "-o", "json", "--kubevirt", "v1.4"])
    (found,) = json.loads(done.output)
    assert (found["name"], found["cpuMilli"]) == ("db", 1000)
    assert found["memoryBytes"] == (1024 + 220 + 8 + 8 + 32 + 2) << 20 == sum(one["memoryBytes"] for one in found["parts"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--kubevirt", "v9"), "--kubevirt v9: seed, v0.54, v1.1 or v1.4 is allowed"),
        (("-o", "yaml"), "--output yaml: text or json is allowed"),
    ],
    ids=["no such table", "no such format"],
)
def test_wrong_options(file: Path, arguments: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(app, ["cost", "-f", str(file), *arguments])
    assert isinstance(done.exception, BadInput)
    assert str(done.exception) == said


def test_a_file_without_a_vm(tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(VM.partition("---")[2])
    done = CliRunner().invoke(app, ["cost", "-f", str(path)])
    assert isinstance(done.exception, BadInput)
    assert (
        str(done.exception) == "-f configmap/other: there is no VirtualMachine or VirtualMachineInstance of kubevirt.io in it"
    )
