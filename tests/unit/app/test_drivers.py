"""Which drivers are ours, by the options that were given: every refusal with its text."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ullage.app import backends
from ullage.app.backends import backends_of
from ullage.app.drivers import Chosen, HostPaths, chosen, options_of
from ullage.errors import BadInput
from ullage.kube.slices import Wiring
from ullage.snapshots.backends.hostpath import HostPathBackend, copy_notes

HERE = {"volumes": [Path("/data/volumes")], "snapshots": Path("/data/snapshots"), "node": "n1"}


def choose(*drivers: str, **given: Any) -> Chosen:
    return chosen(
        list(drivers), **({"provisions": None, "volumes": None, "snapshots": None, "node": None, "alone": False} | given)
    )


def test_a_driver_has_a_socket_or_a_sidecar() -> None:
    found = choose("a.example.com=unix:///run/a.sock", "b.example.com=sidecar")
    assert found.sockets == {"a.example.com": Path("/run/a.sock"), "b.example.com": None}
    assert dict(options_of(found).settings.drivers) == {"a.example.com": "here", "b.example.com": "sidecar"}


def test_claims_are_left_to_a_drivers_own_provisioner_unless_it_has_none() -> None:
    named = ["a.example.com=/run/a.sock", "b.example.com=/run/b.sock", "c.example.com=sidecar"]
    found = choose(*named, provisions=["a.example.com"], **HERE)
    assert options_of(found).settings.elsewhere == {"b.example.com", "c.example.com"}


def test_directories_make_hostpath_ours() -> None:
    found = choose(**HERE)
    assert found.hostpath == HostPaths((Path("/data/volumes"),), Path("/data/snapshots"), "n1")
    assert dict(options_of(found).settings.drivers) == {"ullage.io/hostpath": "here"}


def test_volumes_without_node_affinity_are_this_nodes_only_where_that_is_said() -> None:
    found = choose(**HERE, single_node=True).hostpath
    assert found is not None
    assert found.single_node
    with pytest.raises(BadInput, match=r"--hostpath-single-node \(given\): it is about hostPath volumes"):
        choose(single_node=True)


def test_longhorns_claims_are_left_to_its_own_provisioner_unless_it_has_none() -> None:
    found = choose(longhorn=True)
    assert dict(options_of(found).settings.drivers) == {"driver.longhorn.io": "here"}
    assert options_of(found).settings.elsewhere == {"driver.longhorn.io"}
    alone = choose(longhorn=True, provisions=["driver.longhorn.io"])
    assert options_of(alone).settings.elsewhere == frozenset()
    assert set(backends_of(alone, Wiring(None))) == {"driver.longhorn.io"}  # type: ignore[arg-type]


def test_nothing_is_ours_by_default() -> None:
    settings = options_of(choose()).settings
    assert not settings.drivers
    assert not settings.alone


@pytest.mark.parametrize(
    ("drivers", "given", "text"),
    [
        (["a.example.com"], {}, "--driver a.example.com: NAME=SOCKET or NAME=sidecar is allowed"),
        (["=sidecar"], {}, "--driver =sidecar: NAME=SOCKET or NAME=sidecar is allowed"),
        (
            ["ullage.io/hostpath=sidecar"],
            {},
            "--driver ullage.io/hostpath=sidecar: ullage.io/hostpath is no CSI driver; --hostpath-volumes sets it up",
        ),
        (["a=sidecar", "a=unix:///run/a.sock"], {}, "--driver a=unix:///run/a.sock: a is named twice; a driver has one owner"),
        (
            ["a=run/a.sock"],
            {},
            "--driver run/a.sock: it has to be the absolute path of a socket, such as unix:///run/csi/socket",
        ),
        (
            ["a=/run/a.sock", "b=sidecar"],
            {"provisions": ["b"]},
            "--provision b: a --driver with a socket is allowed (a); a sidecar has an option of its own",
        ),
        (
            [],
            {"provisions": ["driver.longhorn.io"]},
            "--provision driver.longhorn.io: a --driver with a socket is allowed (none); a sidecar has an option of its own",
        ),
        (
            ["driver.longhorn.io=sidecar"],
            {"longhorn": True},
            "--longhorn with --driver driver.longhorn.io: only one of them is allowed; a driver has one owner",
        ),
        (
            [],
            HERE | {"node": None},
            "--node (absent): hostPath volumes need --hostpath-volumes, --hostpath-snapshots and --node",
        ),
        (
            [],
            HERE | {"volumes": None},
            "--hostpath-volumes (absent): hostPath volumes need --hostpath-volumes, --hostpath-snapshots and --node",
        ),
    ],
    ids=[
        "a driver without a place",
        "a place without a driver",
        "hostpath as a CSI driver",
        "a driver with two owners",
        "a socket by a relative path",
        "provisioning for a driver that is called elsewhere",
        "provisioning for Longhorn without it",
        "Longhorn with two owners",
        "hostpath without a node",
        "hostpath without volumes",
    ],
)
def test_what_cannot_be_is_refused(drivers: list[str], given: dict[str, Any], text: str) -> None:
    with pytest.raises(BadInput) as caught:
        choose(*drivers, **given)
    assert str(caught.value) == text


async def test_backends_are_those_that_are_called_from_here(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    (tmp_path / "volumes").mkdir()
    places = {"volumes": [tmp_path / "volumes"], "snapshots": tmp_path / "snapshots", "node": "n1"}
    found = choose(f"a.example.com={tmp_path}/a.sock", "b.example.com=sidecar", **places)
    wiring = Wiring(None)  # type: ignore[arg-type]
    assert set(backends_of(found, wiring)) == {"a.example.com", "ullage.io/hostpath"}
    assert len(wiring.held) == 3  # the connection to the driver is closed at the end, its socket looked at, files swept before
    assert (tmp_path / "snapshots").is_dir()
    made = [one.__dict__["directory"] for one in caplog.records if one.getMessage() == "made a directory that was missing"]
    assert made == [str(tmp_path / "snapshots")]


async def test_interrupted_copies_are_kept_at_the_start_until_nobody_has_asked_for_them_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = {"volumes": [tmp_path / "volumes"], "snapshots": tmp_path / "snapshots", "node": "n1"}
    wiring = Wiring(None)  # type: ignore[arg-type]  # nothing is asked of the API
    backends_of(choose(**roots), wiring)
    interrupted = tmp_path / "snapshots" / ".staging-s"
    interrupted.mkdir()
    copy_notes.begin(tmp_path / "snapshots" / ".notes-s", copy_notes.heading("v", interrupted.stat()))
    (tmp_path / "snapshots" / ".staging-t").mkdir()
    sweep, left, over = HostPathBackend.sweep, list[set[str]](), asyncio.Event()

    async def followed(backend: HostPathBackend, **options: bool) -> None:
        await sweep(backend, **options)
        left.append({path.name for path in (tmp_path / "snapshots").iterdir()} - {".locks"})
        if len(left) == 2:
            over.set()

    monkeypatch.setattr(backends, "INTERRUPTED_KEPT", 0.0)
    monkeypatch.setattr(HostPathBackend, "sweep", followed)
    async with wiring.holding(asyncio.Event()), asyncio.timeout(10):
        await over.wait()
    assert left[:2] == [{".staging-s", ".notes-s"}, set()]
