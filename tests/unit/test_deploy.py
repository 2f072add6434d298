"""What is committed under deploy/ is what the slices say."""

from __future__ import annotations

import pytest
import yaml
from typer.main import get_group

import ullage.app.commands.root  # noqa: F401  adds the commands
from tools.deploy import FOLDER, files
from ullage.cli.common import shell


@pytest.mark.parametrize("name", sorted(files()))
def test_a_file_is_as_it_is_generated(name: str) -> None:
    assert (FOLDER / name).read_text() == files()[name], "stale: run `python -m tools.deploy`, and commit what it wrote"


def test_nothing_else_is_there() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(files())


def test_the_role_templates_are_harvesters_to_the_letter() -> None:
    found = {one["metadata"].pop("name"): one for one in yaml.safe_load_all(files()["rancher-role-templates.yaml"])}
    for one in found.values():
        del one["metadata"]
    common: dict[str, object] = {"apiVersion": "management.cattle.io/v3", "kind": "RoleTemplate", "context": "cluster"}
    common |= {"builtin": False, "external": False, "hidden": False}
    rule = {"apiGroups": ["harvesterhci.io"], "resources": ["resourcequotas"]}
    where = "resourcequotas.harvesterhci.io on downstream Harvester cluster"
    assert found == {
        "harvester-resourcequotas-admin": {
            **common,
            "displayName": "Harvester ResourceQuotas Admin Role",
            "description": f"Harvester ResourceQuotas Admin can manage all {where}",
            "rules": [{**rule, "verbs": ["*"]}],
        },
        "harvester-resourcequotas-read-only": {
            **common,
            "displayName": "Harvester ResourceQuotas Read Role",
            "description": f"Harvester ResourceQuotas Read Only can view {where}",
            "rules": [{**rule, "verbs": ["get", "list", "watch"]}],
        },
    }


def test_the_api_runs_as_its_own_account_with_its_own_rights_and_as_nobody_on_the_node() -> None:
    found = list(yaml.safe_load_all(files()["api.yaml"]))
    assert [(one["kind"], one["metadata"]["name"]) for one in found] == [
        ("ServiceAccount", "api"),
        ("Role", "ullage:api"),
        ("RoleBinding", "ullage:api"),
        ("ClusterRole", "ullage:api"),
        ("ClusterRoleBinding", "ullage:api"),
        ("ClusterRole", "ullage:api:space"),
        ("ClusterRoleBinding", "ullage:api:space"),
        ("Service", "api"),
        ("PodDisruptionBudget", "api"),
        ("Deployment", "api"),
    ]
    template = found[-1]["spec"]["template"]
    assert found[-3]["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    pod, container = template["spec"], template["spec"]["containers"][0]
    assert (pod["serviceAccountName"], pod["securityContext"]["runAsNonRoot"]) == ("api", True)
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_command_of_the_deployment_is_one_that_is_understood() -> None:
    [container] = list(yaml.safe_load_all(files()["api.yaml"]))[-1]["spec"]["template"]["spec"]["containers"]
    program, name, *rest = container["command"]
    assert program == "ullage"
    options = {option for one in get_group(shell.app).commands[name].params for option in one.opts}
    assert {word for word in rest if word.startswith("--")} <= options
