"""What an administrator may set about project quotas."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from ullage.projects.machines.surge import STRICT, SurgeSetting

UnknownSize = Literal["refuse", "allow"]  # what becomes of a Machine of unknown size where there is a quota

SEED_NAMESPACE: Final = "kubermatic"  # where KKP has its Seeds, and the Secrets with their kubeconfigs
KUBECONFIG_SECRET: Final = "admin-kubeconfig"  # in the namespace of each user cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`keep_vanished` is for how long a Machine that went counts on where its provider cannot be asked whether its server is
    gone."""

    seed_namespace: str = SEED_NAMESPACE
    surge: SurgeSetting = STRICT
    unknown_size: UnknownSize = "refuse"
    keep_vanished: timedelta = timedelta(minutes=2)
