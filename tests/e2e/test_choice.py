"""Where the real control plane comes from, and what is said where it cannot come."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tools.peers.kube import build

from .choice import NoControlPlane, provide

NAMES = ("etcd", "kube-apiserver", "kube-controller-manager")


def filled(directory: Path, *names: str) -> Path:
    directory.mkdir(parents=True)
    for name in names:
        (directory / name).write_text("#!/bin/sh\n")
        (directory / name).chmod(0o755)
    return directory


def a_go(directory: Path, script: str) -> Path:
    """A `go` that notes its calls; `-o` is followed by the file to write."""
    directory.mkdir()
    (directory / "go").write_text(f'#!/bin/sh\necho "$@" >> "{directory}/calls"\n{script}\n')
    (directory / "go").chmod(0o755)
    return directory


WRITES = 'while [ "$1" != -o ]; do shift; done; : > "$2"; chmod +x "$2"'


def test_named_programs_come_before_cached_ones(tmp_path: Path) -> None:
    given = filled(tmp_path / "given", *NAMES)
    filled(tmp_path / "ullage" / "kube" / build.key(), *NAMES)
    assert build.programs({"KUBEBUILDER_ASSETS": str(given), "XDG_CACHE_HOME": str(tmp_path)}) == given


def test_cached_programs_need_no_go(tmp_path: Path) -> None:
    place = filled(tmp_path / "ullage" / "kube" / build.key(), *NAMES)
    assert build.programs({"XDG_CACHE_HOME": str(tmp_path), "PATH": ""}) == place
    assert build.programs({"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "PATH": ""}) == place


def test_go_builds_what_is_nowhere_once(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path), "PATH": f"{a_go(tmp_path / 'bin', WRITES)}:/usr/bin:/bin"}
    place = build.programs(environ)
    assert build.programs(environ) == place
    assert sorted(path.name for path in place.iterdir()) == sorted(NAMES)
    assert len((tmp_path / "bin" / "calls").read_text().splitlines()) == len(NAMES)


def test_a_build_that_fails_leaves_nothing_to_be_taken_for_a_whole_one(tmp_path: Path) -> None:
    script = f'case "$*" in *controller*) exit 3;; esac; {WRITES}'
    environ = {"XDG_CACHE_HOME": str(tmp_path), "PATH": f"{a_go(tmp_path / 'bin', script)}:/usr/bin:/bin"}
    with pytest.raises(build.NoPrograms, match="failed with exit code 3"):
        build.programs(environ)
    assert [path for path in (tmp_path / "ullage" / "kube").iterdir() if path.is_dir()] == []


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        pytest.param({"E2E_CONTROL_PLANE": "kind"}, "E2E_CONTROL_PLANE=kind: it is 'embedded' or 'kube'", id="another name"),
        pytest.param(
            {"E2E_CONTROL_PLANE": "kube", "KUBEBUILDER_ASSETS": "/nowhere"},
            "KUBEBUILDER_ASSETS=/nowhere has no etcd, no kube-apiserver, no kube-controller-manager",
            id="a directory without the programs",
        ),
        pytest.param(
            {"E2E_CONTROL_PLANE": "kube", "XDG_CACHE_HOME": "{tmp}", "PATH": "/nowhere"},
            "no Go on the PATH to build kube-apiserver with; or name a directory in KUBEBUILDER_ASSETS",
            id="no programs and no Go",
        ),
        pytest.param(
            {"E2E_CONTROL_PLANE": "kube", "E2E_CLUSTER": "1"},
            "E2E_CLUSTER=1 needs KUBECONFIG: no cluster is taken by accident",
            id="a cluster without its name",
        ),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, environ: dict[str, str], problem: str) -> None:
    given = {name: value.replace("{tmp}", str(tmp_path)) for name, value in environ.items()}
    before = dict(given)
    with pytest.raises(NoControlPlane) as refused:
        provide(given)
    assert str(refused.value) == problem
    assert given == before


def test_a_program_that_ends_at_once_is_blamed_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = filled(tmp_path / "temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    programs = filled(tmp_path / "given", *NAMES)
    (programs / "etcd").write_text("#!/bin/sh\necho out of paper; exit 1\n")
    (programs / "kube-apiserver").write_text("#!/bin/sh\nexec sleep 600\n")
    with pytest.raises(NoControlPlane, match=r"(?s)etcd ended before it served.*out of paper"):
        provide({"E2E_CONTROL_PLANE": "kube", "KUBEBUILDER_ASSETS": str(programs)})
    assert list(place.iterdir()) == []
