"""What is committed under deploy/ is what the slices say."""

from __future__ import annotations

import pytest
import yaml

from tools.deploy import FOLDER, files


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
