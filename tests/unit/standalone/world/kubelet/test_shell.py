"""Commands that are played in containers: what is read, what each does to the volumes, and that none leaves them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.errors import Terminal
from ullage.kube.builtin.core import Container, VolumeMount
from ullage.standalone.world.kubelet.scripts import CannotPlay, ScriptStep, parse_script
from ullage.standalone.world.kubelet.shell import MOST_OUTPUT, Freezes, Shell, VolumePlace


@pytest.mark.parametrize(
    ("command", "steps"),
    [
        pytest.param(["echo", "a b", ">"], [ScriptStep(("echo", "a b", ">"))], id="without a shell, words are words"),
        pytest.param(["sh", "-c", "a b"], [ScriptStep(("a", "b"))], id="one command"),
        pytest.param(
            ["/bin/sh", "-ec", "a && b; c"],
            [ScriptStep(("a",)), ScriptStep(("b",), only_after_success=True), ScriptStep(("c",))],
            id="joined",
        ),
        pytest.param(["sh", "-c", "a\nb"], [ScriptStep(("a",)), ScriptStep(("b",))], id="a line is a command"),
        pytest.param(["sh", "-c", "a >> /f"], [ScriptStep(("a",), into="/f", append=True)], id="into a file"),
        pytest.param(["sh", "-c", ""], [ScriptStep(("true",))], id="nothing is true"),
    ],
)
def test_what_is_read(command: list[str], steps: list[ScriptStep]) -> None:
    assert list(parse_script(command)) == steps


@pytest.mark.parametrize(
    "command",
    [
        pytest.param([], id="nothing"),
        pytest.param(["sh"], id="a shell that would ask"),
        pytest.param(["sh", "-c", "a | b"], id="a pipe"),
        pytest.param(["sh", "-c", "echo $HOME"], id="a variable"),
        pytest.param(["sh", "-c", "a > b > c"], id="two files"),
        pytest.param(["sh", "-c", "> b"], id="a file and no command"),
        pytest.param(["sh", "-c", "'"], id="half a quote"),
        pytest.param(["sh", "-c", "true;" * 200], id="too many"),
    ],
)
def test_what_needs_a_shell_is_refused(command: list[str]) -> None:
    with pytest.raises(CannotPlay, match="no containers are run here"):
        parse_script(command)


class Volumes:
    """One volume on /data, one on /ro that is read only, one on /disk that is no directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.data, self.notes = root / "pv", root / "notes"
        for one in (self.data, self.notes):
            one.mkdir()
        mounts = (
            VolumeMount(name="data", mount_path="/data"),
            VolumeMount(name="data", mount_path="/ro", read_only=True),
            VolumeMount(name="disk", mount_path="/disk"),
        )
        self.container = Container(name="main", volume_mounts=mounts)

    def place(self, name: str) -> VolumePlace:
        if name == "disk":
            return VolumePlace("pv-disk", "its volume is no directory of this machine")
        if name != "data":
            raise Terminal(f"volume {name}: only claims hold data here")
        return VolumePlace("pv", self.data)

    async def run(self, *command: str, stdin: bytes = b"") -> tuple[int, str, str]:
        async def given() -> bytes:
            return stdin

        found = await Shell(self.container, self.place, Freezes(self.notes), given).run(command)
        return found.exit_code, found.stdout.decode(), found.stderr.decode()


@pytest.fixture
def volumes(tmp_path: Path) -> Volumes:
    return Volumes(tmp_path)


async def test_what_commands_do(volumes: Volumes) -> None:
    assert await volumes.run("echo", "a", "b") == (0, "a b\n", "")
    assert await volumes.run("false") == (1, "", "")
    assert await volumes.run("sh", "-c", "false && echo a; echo b") == (0, "b\n", "")
    assert await volumes.run("sh", "-c", "echo a > /data/f && echo b >> /data/f && cat /data/f") == (0, "a\nb\n", "")
    assert await volumes.run("tee", "/data/g", stdin=b"in") == (0, "in", "")
    assert (volumes.data / "g").read_bytes() == b"in"
    assert (await volumes.run("touch", "/data/h"))[0] == 0
    assert (await volumes.run("psql"))[0] == 127


async def test_what_a_command_prints_is_bounded_however_often_it_names_a_file(volumes: Volumes) -> None:
    (volumes.data / "f").write_bytes(b"a" * 1024 * 1024)
    code, out, err = await volumes.run("cat", *["/data/f"] * 50)
    assert (code, len(out) <= MOST_OUTPUT) == (1, True)
    assert f"more than {MOST_OUTPUT} bytes" in err
    code, out, _ = await volumes.run("sh", "-c", " ; ".join(["cat /data/f"] * 50))
    assert (code, len(out) <= MOST_OUTPUT) == (1, True)


async def test_what_commands_may_not(volumes: Volumes) -> None:
    outside = volumes.root / "secret"
    outside.write_text("secret")
    (volumes.data / "link").symlink_to(outside)
    (volumes.data / "up").symlink_to(volumes.root)
    for path in ("/data/link", "/data/up/secret", "/data/../secret", "/secret", "/disk/f", "/data"):
        code, out, _ = await volumes.run("cat", path)
        assert (code, out) == (1, ""), path
    for path in ("/data/link", "/data/up/new", "/ro/f", "/disk/f"):
        assert (await volumes.run("touch", path))[0] == 1, path
    assert outside.read_text() == "secret"
    assert not (volumes.root / "new").exists()


async def test_a_volume_that_is_frozen(volumes: Volumes) -> None:
    assert (await volumes.run("fsfreeze", "--freeze", "/data"))[0] == 0
    assert (volumes.notes / "frozen-pv").exists()
    assert "busy" in (await volumes.run("fsfreeze", "-f", "/data"))[2]
    assert "frozen" in (await volumes.run("sh", "-c", "echo a > /data/f"))[2]
    assert not (volumes.data / "f").exists()
    assert (await volumes.run("fsfreeze", "--unfreeze", "/data"))[0] == 0
    assert "Invalid argument" in (await volumes.run("fsfreeze", "-u", "/data"))[2]
    assert (await volumes.run("fsfreeze", "--freeze", "/disk"))[0] == 0  # needs no directory
    assert (await volumes.run("fsfreeze", "--freeze", "/data/below"))[0] == 1
    assert (await volumes.run("fsfreeze", "/data"))[0] == 2
