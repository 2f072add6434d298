"""What a container's words mean, and which of them are refused."""

from __future__ import annotations

import pytest

from tests.unit.standalone.world.builders import container
from ullage.kube.builtin.core import Container, VolumeMount
from ullage.standalone.world.controllers.pod.commands import (
    CannotRun,
    Copy,
    CopySource,
    MountedPath,
    Nothing,
    Sleep,
    Step,
    parse_command,
)


def in_(volume: str, *parts: str, shown: str) -> MountedPath:
    return MountedPath(volume, parts, shown)


def copy(*sources: CopySource, to: MountedPath, inside: bool = True, recursive: bool = True, keep: bool = True) -> Copy:
    return Copy(sources, to, inside, recursive, keep)


ALL = CopySource(in_("src", shown="/mnt/data/."), contents=True)
BACKUP = in_("dst", shown="/backup/")


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        pytest.param(("cp", "-a", "/mnt/data/.", "/backup/"), [copy(ALL, to=BACKUP)], id="all that is in it"),
        pytest.param(("/bin/cp", "-a", "/mnt/data/.", "/backup/"), [copy(ALL, to=BACKUP)], id="a program with its path"),
        pytest.param(("sh", "-c", "cp -a /mnt/data/. /backup/"), [copy(ALL, to=BACKUP)], id="in a shell's words"),
        pytest.param(("sh", "-c", "cp -a '/mnt/data/.' \"/backup/\""), [copy(ALL, to=BACKUP)], id="in quotes"),
        pytest.param(("cp", "-rv", "/mnt/data/.", "/backup/"), [copy(ALL, to=BACKUP, keep=False)], id="without the times"),
        pytest.param(
            ("cp", "/mnt/data/a", "/backup/b"),
            [
                copy(
                    CopySource(in_("src", "a", shown="/mnt/data/a"), contents=False),
                    to=in_("dst", "b", shown="/backup/b"),
                    inside=False,
                    recursive=False,
                    keep=False,
                )
            ],
            id="one file under another name",
        ),
        pytest.param(
            ("rsync", "-av", "/mnt/data/", "/backup"),
            [copy(CopySource(in_("src", shown="/mnt/data/"), contents=True), to=in_("dst", shown="/backup"))],
            id="rsync with what is in it",
        ),
        pytest.param(
            ("rsync", "-av", "/mnt/data", "/backup"),
            [copy(CopySource(in_("src", shown="/mnt/data"), contents=False), to=in_("dst", shown="/backup"))],
            id="rsync with itself",
        ),
        pytest.param(
            ("cp", "-a", "/mnt/data//deep/./x", "/backup/y/"),
            [
                copy(
                    CopySource(in_("src", "deep", "x", shown="/mnt/data//deep/./x"), contents=False),
                    to=in_("dst", "y", shown="/backup/y/"),
                )
            ],
            id="deeper paths",
        ),
        pytest.param(("true",), [Nothing()], id="true"),
        pytest.param(("sh", "-c", "true"), [Nothing()], id="true in a shell"),
        pytest.param(
            ("sh", "-ec", "set -e\necho begin\nsleep 2m && true"), [Nothing(), Nothing(), Sleep(120.0), Nothing()], id="several"
        ),
        pytest.param(("sleep", "1.5"), [Sleep(1.5)], id="half a second more"),
        pytest.param(("sleep", "infinity"), [Sleep(float("inf"))], id="for ever"),
    ],
)
def test_what_is_understood(words: tuple[str, ...], steps: list[Step]) -> None:
    assert list(parse_command(container(*words, src="/mnt/data", dst="/backup"))) == steps


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param((), "the container names no command", id="no command"),
        pytest.param(("mysqldump", "--all"), "mysqldump: not understood", id="another program"),
        pytest.param(
            ("sh", "-c", "mysqldump | gzip > /backup/x"), "'|' in 'mysqldump | gzip > /backup/x' needs a shell", id="a pipe"
        ),
        pytest.param(("sh", "-c", "echo x > /backup/x"), "'>' in 'echo x > /backup/x' needs a shell", id="a redirection"),
        pytest.param(("sh", "-c", "cp -a /mnt/data/* /backup"), "'*' in '/mnt/data/*' needs a shell", id="a pattern"),
        pytest.param(("sh", "-c", "echo $(id)"), "'$' in '$' needs a shell", id="a command in a command"),
        pytest.param(("sh", "-c", "echo `id`"), "'`' in '`id`' needs a shell", id="the same in the old way"),
        pytest.param(("sh", "-c", "cp -a $SRC /backup"), "'$' in '$SRC' needs a shell", id="a variable"),
        pytest.param(("sh", "-c", "cp 'a"), '"cp \'a": No closing quotation', id="an open quote"),
        pytest.param(("sh", "script.sh"), "sh script.sh: only sh -c", id="a script"),
        pytest.param(
            ("cp", "-a", "/mnt/data/../../etc", "/backup"), "'/mnt/data/../../etc': a path that leads", id="a way out"
        ),
        pytest.param(("cp", "-a", "/etc", "/backup"), "/etc: not below a volume", id="the machine's own files"),
        pytest.param(("cp", "-a", "/mnt/database", "/backup"), "/mnt/database: not below a volume", id="a longer name"),
        pytest.param(("cp", "-a", "mnt/data", "/backup"), "mnt/data: not below a volume", id="a path from somewhere"),
        pytest.param(("cp", "-a", "/mnt/data"), "cp: a source and a target", id="no target"),
        pytest.param(("cp", "-aL", "/mnt/data", "/backup"), "cp -aL: L is not understood", id="links that are to be followed"),
        pytest.param(("rsync", "-a", "--delete", "/mnt/data/", "/backup"), "rsync --delete: delete", id="a deletion"),
        pytest.param(
            ("rsync", "-av", "/mnt/data", "alice@backup.example.com:mysql"),
            "alice@backup.example.com:mysql: not below",
            id="another machine",
        ),
        pytest.param(("cp", "-a", "/backup/.", "/readonly"), "/readonly: mounted read-only", id="a volume that is read-only"),
        pytest.param(
            ("cp", "-a", "/odd/.", "/backup"), "volumeMounts odd: only a plain subPath", id="a subPath that leads out"
        ),
        pytest.param(("sleep", "soon"), "sleep soon: a number of seconds", id="no number"),
    ],
)
def test_what_is_refused_says_why_and_what_can_be_done(words: tuple[str, ...], problem: str) -> None:
    mounts = (
        VolumeMount(name="src", mount_path="/mnt/data"),
        VolumeMount(name="dst", mount_path="/backup"),
        VolumeMount(name="fixed", mount_path="/readonly", read_only=True),
        VolumeMount(name="odd", mount_path="/odd", sub_path="../x"),
    )
    with pytest.raises(CannotRun) as raised:
        parse_command(Container(command=words, volume_mounts=mounts))
    assert str(raised.value).startswith(problem)
    assert str(raised.value).endswith("a job can do cp -a, cp -r, rsync -a, sleep, echo and true")


def test_the_innermost_mount_counts_and_a_sub_path_leads_below_it() -> None:
    mounts = (VolumeMount(name="outer", mount_path="/a"), VolumeMount(name="inner", mount_path="/a/b", sub_path="x/y"))
    (step,) = parse_command(Container(command=("cp", "-a", "/a/c"), args=("/a/b/d",), volume_mounts=mounts))
    assert isinstance(step, Copy)
    assert (step.sources[0].place.volume, step.sources[0].place.parts) == ("outer", ("c",))
    assert (step.target.volume, step.target.parts) == ("inner", ("x", "y", "d"))
