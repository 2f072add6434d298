"""What Go is asked for; and that what is missing is said in one plain line before anything is built."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tools.peers.go_programs import CLibrary, Edit, GoPrograms, NoPrograms

LIBRARY = CLibrary("no-such-library.h", "libno-dev")


def programs(module: Path) -> GoPrograms:
    for name in ("go.mod", "go.sum"):
        (module / name).touch()
    return GoPrograms(what="a peer", module=module, cache="peer", packages={"peer": "x"}, time="no time", library=LIBRARY)


def path_with(directory: Path, *commands: str) -> dict[str, str]:
    """Commands that do nothing, and fail."""
    for command in commands:
        (directory / command).write_text("#!/bin/sh\nexit 1\n")
        (directory / command).chmod(0o755)
    return {"PATH": str(directory), "XDG_CACHE_HOME": str(directory / "cache")}


@pytest.mark.parametrize(
    ("commands", "words"),
    [
        pytest.param(
            ("go", "cc"), r"^a peer cannot be built: there is no no-such-library.h \(Debian: libno-dev\)$", id="no header"
        ),
        pytest.param(("go",), "^a peer cannot be built: there is no C compiler on the PATH$", id="no compiler"),
        pytest.param((), "^no Go on the PATH to build a peer with$", id="no Go"),
    ],
)
def test_what_is_missing_is_said(commands: tuple[str, ...], words: str, tmp_path: Path) -> None:
    with pytest.raises(NoPrograms, match=words):
        programs(tmp_path).place(path_with(tmp_path, *commands))


def test_a_library_that_is_there_is_no_problem() -> None:
    found = CLibrary("stdio.h", "libc6-dev").problem(os.environ)
    if "compiler" in found:
        pytest.skip(found)
    assert found == ""


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        pytest.param(("build",), "build -mod=readonly", id="a program is built from its package"),
        pytest.param(("test", "-c"), "test -c -mod=readonly", id="a program is built from a package's tests"),
    ],
)
def test_what_go_is_asked_for(command: tuple[str, ...], asked: str, tmp_path: Path) -> None:
    environ = path_with(tmp_path)
    (tmp_path / "go").write_text(f'#!/bin/sh\necho "$*" >{tmp_path}/asked\n')
    (tmp_path / "go").chmod(0o755)
    for name in ("go.mod", "go.sum"):
        (tmp_path / name).touch()
    made = GoPrograms(what="it", module=tmp_path, cache="it", packages={"it": "x/y"}, time="no time", command=command)
    made.place(environ)
    words = (tmp_path / "asked").read_text()
    assert words.startswith(asked)
    assert words.endswith("/it x/y\n")


def copied(tmp_path: Path, *edits: Edit) -> GoPrograms:
    """A module `m` in a cache that is read-only, as Go's is, and a Go that builds nothing but tells what it finds."""
    cached, module = tmp_path / "cached", tmp_path / "module"
    (cached / "dropped").mkdir(parents=True)
    (cached / "dropped" / "one.go").write_text("package dropped\n")
    (cached / "kept.go").write_text("a b a\n")
    module.mkdir()
    for name in ("go.mod", "go.sum"):
        (module / name).touch()
    for place in (cached / "dropped" / "one.go", cached / "kept.go", cached / "dropped", cached):
        place.chmod(0o555)
    told = f'case "$1" in mod) echo \'{{"Dir": "{cached}"}}\' ;; *) cat *.go >{tmp_path}/built; ls >>{tmp_path}/built ;; esac'
    (tmp_path / "go").write_text(f"#!/bin/sh\n{told}\n")
    (tmp_path / "go").chmod(0o755)
    return GoPrograms(what="it", module=module, cache="it", packages={"it": "./it"}, time="no time", copied="m", edits=edits)


def with_tools(tmp_path: Path) -> dict[str, str]:
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_a_module_is_built_in_an_edited_copy_and_stays_as_it_was(tmp_path: Path) -> None:
    made = copied(tmp_path, Edit("dropped"), Edit("kept.go", (("a", "c"),)))
    made.place(with_tools(tmp_path))
    assert (tmp_path / "built").read_text().split() == ["c", "b", "c", "kept.go"]
    assert (tmp_path / "cached" / "kept.go").read_text() == "a b a\n"
    assert (tmp_path / "cached" / "dropped" / "one.go").is_file()


def test_an_edit_that_changes_nothing_is_told_and_nothing_is_built(tmp_path: Path) -> None:
    made = copied(tmp_path, Edit("kept.go", (("no such text", ""),)))
    with pytest.raises(NoPrograms, match=r"^kept.go of the pinned version has nothing that matches 'no such text'$"):
        made.place(with_tools(tmp_path))
    assert not (tmp_path / "built").exists()


def test_other_edits_are_another_build(tmp_path: Path) -> None:
    made = copied(tmp_path, Edit("dropped"))
    assert made.key() != replace(made, edits=()).key()
