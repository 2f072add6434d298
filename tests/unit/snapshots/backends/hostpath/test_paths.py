"""Which directories may be volumes, and that nothing else can be reached through their names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ullage.errors import BadInput, Impossible, NotNow
from ullage.snapshots.backends.hostpath.errors import printable
from ullage.snapshots.backends.hostpath.paths import HostPathSettings, VolumePath, check_name, opened, volume_path

ROOTS = (Path("/srv/volumes"), Path("/mnt/fast"))


def settings(
    *,
    volumes: tuple[str, ...] = ("/srv/volumes",),
    snapshots: str = "/srv/snaps",
    restored: str = "/srv/volumes",
    node: str = "n",
) -> HostPathSettings:
    return HostPathSettings(volumes=tuple(map(Path, volumes)), snapshots=Path(snapshots), restored=Path(restored), node=node)


@pytest.mark.parametrize(
    ("handle", "expected"),
    [
        pytest.param("/srv/volumes/a", VolumePath(ROOTS[0], ("a",)), id="right below a root"),
        pytest.param("/mnt/fast/team/a", VolumePath(ROOTS[1], ("team", "a")), id="further below another root"),
        pytest.param("//srv/volumes//a/./", VolumePath(ROOTS[0], ("a",)), id="slashes and dots that mean nothing"),
    ],
)
def test_a_volume_lies_below_a_root(handle: str, expected: VolumePath) -> None:
    assert volume_path(handle, ROOTS) == expected


@pytest.mark.parametrize(
    ("handle", "problem"),
    [
        pytest.param("/srv/volumes", "path /srv/volumes: is a root itself; a directory below it is allowed", id="a root"),
        pytest.param("/srv/volumes/", "path /srv/volumes/: is a root itself; a directory below it is allowed", id="a root, /"),
        pytest.param(
            "/srv/volumes-of-others/a",
            "path /srv/volumes-of-others/a: below /srv/volumes or /mnt/fast is allowed",
            id="a directory whose name begins like a root's",
        ),
        pytest.param("/etc", "path /etc: below /srv/volumes or /mnt/fast is allowed", id="elsewhere"),
        pytest.param("/", "path /: below /srv/volumes or /mnt/fast is allowed", id="the top of everything"),
        pytest.param("/srv/volumes/../../etc", "path /srv/volumes/../../etc: '..' is not allowed", id="a way up"),
        pytest.param("/srv/volumes/a/..", "path /srv/volumes/a/..: '..' is not allowed", id="a way up that leads nowhere bad"),
        pytest.param("srv/volumes/a", "path 'srv/volumes/a': an absolute path is allowed", id="a relative path"),
        pytest.param("", "path '': an absolute path is allowed", id="nothing"),
        pytest.param("/srv/volumes/a\0b", r"path '/srv/volumes/a\\x00b': an absolute path is allowed", id="a null byte"),
        pytest.param(
            "/srv/volumes/.restored/a",
            "path /srv/volumes/.restored/a: names with a dot in front are kept for other uses in /srv/volumes",
            id="what we keep in a root",
        ),
    ],
)
def test_other_paths_are_refused(handle: str, problem: str) -> None:
    with pytest.raises(Impossible) as refused:
        volume_path(handle, ROOTS)
    assert str(refused.value) == problem


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", ".hidden", "a b", "a\n", "ä", "x" * 129, "a\0"])
def test_names_that_cannot_be_directories_of_ours_are_refused(name: str) -> None:
    with pytest.raises(Impossible, match="1 to 128 letters, digits and dashes are allowed"):
        check_name(name)
    assert check_name("x" * 128)


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        pytest.param({"volumes": ("volumes",)}, "volume root volumes: an absolute path", id="a relative volume root"),
        pytest.param({"volumes": ("/",)}, "volume root /: an absolute path", id="everything as a volume root"),
        pytest.param(
            {"snapshots": "/srv/../x"}, "snapshot root /srv/../x: an absolute path", id="a snapshot root with a way up"
        ),
        pytest.param(
            {"restored": "r"}, "root of restored volumes r: an absolute path", id="a relative root of restored volumes"
        ),
        pytest.param({"snapshots": "/srv/volumes/s"}, "overlaps with /srv/volumes", id="snapshots among volumes"),
        pytest.param({"snapshots": "/srv"}, "overlaps with /srv/volumes", id="volumes among snapshots"),
        pytest.param({"restored": "/srv/snaps/r"}, "overlaps with /srv/snaps/r", id="restored volumes among snapshots"),
        pytest.param({"node": ""}, "node '': the name of this node is needed", id="no node"),
    ],
)
def test_settings_that_cannot_be_are_refused(bad: dict[str, object], problem: str) -> None:
    with pytest.raises(BadInput) as refused:
        settings(**bad)  # type: ignore[arg-type]  # one table for all fields
    assert problem in str(refused.value)


def test_a_directory_is_opened_and_closed(tmp_path: Path) -> None:
    (tmp_path / "team" / "a").mkdir(parents=True)
    before = len(os.listdir("/proc/self/fd"))
    with opened(VolumePath(tmp_path, ("team", "a"))) as directory:
        assert os.path.samestat(os.fstat(directory), (tmp_path / "team" / "a").stat())
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_root_may_be_a_link_for_it_comes_from_the_settings(tmp_path: Path) -> None:
    (tmp_path / "disk" / "a").mkdir(parents=True)
    (tmp_path / "root").symlink_to("disk")
    with opened(VolumePath(tmp_path / "root", ("a",))) as directory:
        assert os.path.samestat(os.fstat(directory), (tmp_path / "disk" / "a").stat())


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        pytest.param(("missing",), "ROOT/missing: No such file or directory", id="nothing there"),
        pytest.param(("file",), "ROOT/file is not a directory", id="a file"),
        pytest.param(("out",), "ROOT/out is a symbolic link, which is not followed", id="a link that leads outside"),
        pytest.param(("in",), "ROOT/in is a symbolic link, which is not followed", id="a link that stays inside"),
        pytest.param(("out", "passwd"), "ROOT/out is a symbolic link, which is not followed", id="through a link"),
        pytest.param(("real", "up"), "ROOT/real/up is a symbolic link, which is not followed", id="a link back to the root"),
    ],
)
def test_what_is_in_the_way_is_named(tmp_path: Path, parts: tuple[str, ...], problem: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "up").symlink_to("..")
    (tmp_path / "file").touch()
    (tmp_path / "out").symlink_to("/etc")
    (tmp_path / "in").symlink_to("real")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Impossible) as refused, opened(VolumePath(tmp_path, parts)):
        pass
    path = tmp_path.joinpath(*parts)
    assert str(refused.value) == f"path {path}: {problem.replace('ROOT', str(tmp_path))}"
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_root_that_is_not_mounted_may_be_later(tmp_path: Path) -> None:
    with (
        pytest.raises(NotNow, match="it has to be there, or its file system mounted"),
        opened(VolumePath(tmp_path / "no", ("a",))),
    ):
        pass


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("/srv/größe", "/srv/größe", id="letters of any language"),
        pytest.param(os.fsdecode(b"/a/\xff"), r"/a/\xff", id="a byte that is no letter"),
        pytest.param("/a/\x1b[31m\n", r"/a/\x1b[31m\n", id="what a terminal would obey"),
    ],
)
def test_paths_in_messages_are_printable(path: str, text: str) -> None:
    assert printable(path) == text
