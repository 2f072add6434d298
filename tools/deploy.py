"""Writes `deploy/`: manifests that administrators may want to apply, or to read, by themselves. All but the
processes (Deployments and what belongs to them) are among what `ullage install` applies, and `ullage install -o yaml` prints
the rest.

`make verify` runs this.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ullage.app.composition import compose
from ullage.app.drivers import NOTHING_CHOSEN
from ullage.app.installer.api_deployment import api_deployment
from ullage.app.installer.manifests import ROLE_TEMPLATES, manifests, user_roles
from ullage.app.installer.roles import API
from ullage.kube.crds.definitions import crd_of, to_yaml
from ullage.kube.kinds import Kind
from ullage.space.api import HARVESTER_QUOTAS
from ullage.space.slice import space
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.api.restores import VM_RESTORES

DEFINED: tuple[Kind[Any], ...] = (HARVESTER_QUOTAS, VM_BACKUPS, VM_RESTORES)
FOLDER = Path(__file__).parent.parent / "deploy"


def files() -> dict[str, str]:
    """What is in the folder, by name."""
    made = user_roles((space(),))
    account = [one.body for one in manifests(compose(NOTHING_CHOSEN)) if API in one.name.split(":")]
    return {
        "api.yaml": to_yaml(*account, *api_deployment()),
        **{f"{kind.name}.yaml": to_yaml(crd_of(kind)) for kind in DEFINED},
        "quota-roles.yaml": to_yaml(*(one.body for one in made if one.kind is not ROLE_TEMPLATES)),
        "rancher-role-templates.yaml": to_yaml(*(one.body for one in made if one.kind is ROLE_TEMPLATES)),
    }


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
