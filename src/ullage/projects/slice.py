"""Project quotas as slices: what runs on the master, on every seed, and, to tell its users more, in a user cluster."""

from __future__ import annotations

from functools import partial

from ullage.kube.slices import Part, Slice
from ullage.projects import master as on_master
from ullage.projects import seed as on_seed
from ullage.projects import user_cluster as in_user_cluster
from ullage.projects.api.catalogues import CATALOGUES
from ullage.projects.api.kkp import CLUSTERS, PROJECTS, SEEDS, SETTINGS
from ullage.projects.api.machines import MACHINE_DEPLOYMENTS
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.api.records import MACHINE_RECORDS
from ullage.projects.routes.roles import USER_ROLES
from ullage.projects.routes.routes import ROUTES
from ullage.projects.settings import Settings
from ullage.projects.webhook import quotas as quota_hooks


def master(settings: Settings | None = None) -> Slice:
    """Quotas as administrators set them, what all seeds use, and what each of them may. The other kinds are KKP's."""
    chosen = settings or Settings()
    return Slice(
        name="projects-master",
        kinds=(PROJECT_QUOTAS,),
        served=(PROJECT_QUOTAS, PROJECTS, SEEDS, SETTINGS),
        controllers=Part(
            make=partial(on_master.make_controllers, settings=chosen),
            watches=on_master.WATCHES,
            writes=on_master.WRITES,
            events=True,
            secrets_in=(chosen.seed_namespace,),
            elsewhere=on_master.ELSEWHERE,
        ),
        hooks=Part(make=quota_hooks.make_hooks, watches=quota_hooks.WATCHES),
        routes=ROUTES,
        user_roles=USER_ROLES,
    )


def seed(settings: Settings | None = None) -> Slice:
    """Machines of user clusters, booked and counted. Needs the ledgers of the same process."""
    chosen = settings or Settings()
    return Slice(
        name="projects-seed",
        kinds=(PROJECT_QUOTAS, MACHINE_RECORDS, CATALOGUES),
        served=(PROJECT_QUOTAS, CLUSTERS, SEEDS),
        shared=on_seed.shared(),
        controllers=Part(
            make=partial(on_seed.make_controllers, settings=chosen),
            watches=on_seed.WATCHES,
            writes=on_seed.WRITES,
            events=True,
            secrets_in=(chosen.seed_namespace,),  # the credentials that providers are asked with
        ),
        hooks=Part(make=partial(on_seed.make_hooks, settings=chosen), watches=on_seed.HOOK_WATCHES, writes=on_seed.HOOK_WRITES),
    )


def user_cluster() -> Slice:
    """Events and metrics for the users of a user cluster. It reads, and brings no kinds."""
    return Slice(
        name="projects-user-cluster",
        served=(MACHINE_DEPLOYMENTS,),
        controllers=Part(make=in_user_cluster.make_controllers, watches=in_user_cluster.WATCHES, events=True),
    )
