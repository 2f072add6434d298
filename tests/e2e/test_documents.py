"""Every command of README, how-tos and examples, as a person pastes it: block by block, in order, from an empty data directory.

A document's `sh` blocks are run by one shell. What stands in the `text` block after one was printed by it: each line must be
there again, but for what differs from run to run (times, names that are made up, sizes of a file system).
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import ullage

from .apart import IS_BORROWED, own_plane
from .choice import DISPOSABLE
from .control_plane import KUBECTL

ROOT = Path(__file__).parents[2]
SOURCE = Path(ullage.__file__).parents[1]
SECONDS = 90.0
SERVING = ("make up", "ullage up")  # for a terminal of their own
STARTED = "Ctrl-C stops it."
DONE = "==done=="

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(IS_BORROWED or DISPOSABLE in os.environ, reason="the documents are about `ullage up`"),
]

# What differs from run to run, and is no promise.
VARIES = (
    (re.compile(r" +"), " "),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "SHA"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\b\d+(\.\d+)? ?[smh]\b(\d+s\b)?"), "DURATION"),
    (re.compile(r"\b\d+Ki\b"), "SMALL"),  # what a file system allocates for a few bytes
    (re.compile(r"\b\d+ created"), "N created"),
    (re.compile(r"^[^\w/]*(?=data in|Kubernetes API|installed|host of|webhook on|controller on|API on|world on)"), ""),
    (re.compile(r"(?<=try )\S*kubectl"), "KUBECTL"),
)


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    text: str
    line: int

    @property
    def follows(self) -> bool:
        """Whether this only asks for figures, which follow what was done within seconds: whoever reads may ask again."""
        return self.text.startswith("ullage usage") and "\n" not in self.text

    def missing_in(self, printed: str, home: str) -> list[str]:
        there = {steady(line, home) for line in printed.splitlines()}
        return [line for line in self.text.splitlines() if steady(line) not in there]


def blocks(document: Path) -> list[Block]:
    found: list[Block] = []
    opened: tuple[str, int] | None = None
    inside: list[str] = []
    for number, line in enumerate(document.read_text().splitlines(), 1):
        if line.startswith("```"):
            if opened is None:
                opened, inside = (line.removeprefix("```"), number), []
            else:
                found.append(Block(opened[0], "\n".join(inside), opened[1]))
                opened = None
        elif opened is not None:
            inside.append(line)
    return found


def steady(line: str, home: str = "/home/ann") -> str:
    line = line.replace(home, "HOME").replace(str(ROOT), "HOME/ullage")
    for pattern, word in VARIES:
        line = pattern.sub(word, line)
    return line.strip()


class Terminal:
    """A shell in the clone, with `ullage`, kubectl and `make` on its path and an empty home."""

    def __init__(self, home: Path, **environ: str) -> None:
        self.home = home
        self.env = {
            "HOME": str(home),
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(SOURCE),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            **environ,
        }
        self._others: list[subprocess.Popen[bytes]] = []
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env=self.env,
            start_new_session=True,
        )

    def paste(self, text: str) -> str:
        """What was printed; any command that fails ends it."""
        assert self._shell.stdin is not None
        block = self.home / "block.sh"
        block.write_text(f"{text}\n")
        # -E: also inside of functions. A trap, since `set -e` would end the shell before it has told.
        run = (
            f"set -E; trap 'code=$?; echo; echo {DONE} $code; exit' ERR; . {block} </dev/null; trap - ERR; echo; echo {DONE} 0"
        )
        self._shell.stdin.write(f"{run}\n".encode())
        self._shell.stdin.flush()
        lines: list[str] = []
        for line in _lines(self._shell):
            if line.startswith(DONE):
                assert line.split()[1] == "0", f"{text}\n---\n" + "\n".join(lines)
                return "\n".join(lines)
            lines.append(line)
        raise AssertionError(f"the shell ended:\n{text}\n---\n" + "\n".join(lines))

    def serve(self, command: str) -> str:
        """A command for a terminal of its own: what it has printed once it is up."""
        process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-c", f"exec {command}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env=self.env,
        )
        self._others.append(process)
        lines: list[str] = []
        for line in _lines(process):
            lines.append(line)
            if line == STARTED:
                return "\n".join(lines)
        raise AssertionError("\n".join(lines))

    def close(self) -> None:
        """Whatever a block has started goes with its shell: one that hangs would keep the pipe open."""
        for process in self._others:
            process.send_signal(signal.SIGINT)
        with suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.communicate()
        for process in self._others:
            try:
                process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    assert process.stdout is not None
    deadline, rest = time.monotonic() + SECONDS, b""
    while select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
        piece = os.read(process.stdout.fileno(), 65536)
        if not piece:
            return
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line.decode() for line in whole)
    yield f"(nothing more came within {SECONDS:.0f} s) {rest.decode()}"


@contextmanager
def terminal(**environ: str) -> Iterator[Terminal]:
    home = Path(tempfile.mkdtemp(prefix="ullage-docs-"))  # short: the path of a socket has 107 bytes at most
    programs = home / "bin"
    programs.mkdir()
    # Its set-up was done by whoever runs this test; the rest of the target is this command.
    _program(programs / "make", f'test "$1" = up && exec {sys.executable} -m ullage up $ARGS')
    _program(programs / "ullage", f'exec {sys.executable} -m ullage "$@"')
    _program(programs / "kubectl", f'exec {KUBECTL} "$@"')
    found = Terminal(home, **environ)
    try:
        yield found
    finally:
        found.close()
        shutil.rmtree(home, ignore_errors=True)


def _program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("document", "start"),
    [
        pytest.param("README.md", "", id="README"),
        pytest.param("docs/how-to/snapshots.md", "ullage up", id="how-to: snapshots"),
        pytest.param("docs/how-to/engine-snapshots.md", "ullage up", id="how-to: engine snapshots"),
        pytest.param("docs/how-to/vms.md", "ullage up", id="how-to: vms"),
        pytest.param("docs/how-to/vm-backups.md", "ullage up", id="how-to: vm backups"),
        pytest.param("docs/how-to/snapshot-space.md", "ullage up", id="how-to: snapshot space"),
        pytest.param("docs/how-to/snapshot-limits.md", "ullage up", id="how-to: snapshot limits"),
        pytest.param("docs/how-to/headroom.md", "ullage up", id="how-to: headroom"),
        pytest.param("docs/how-to/project-quotas.md", "ullage up --seeds 2", id="how-to: project quotas"),
        pytest.param("docs/how-to/rest-api.md", "ullage up", id="how-to: rest api"),
        pytest.param("docs/how-to/configuration.md", "ullage up", id="how-to: configuration"),
        pytest.param("docs/how-to/drivers.md", "a cluster", id="how-to: drivers"),
        pytest.param("examples/mysql/README.md", "", id="examples: mysql"),
        pytest.param("examples/vm/README.md", "", id="examples: vm"),
    ],
)
def test_every_block_can_be_pasted_in_order(document: str, start: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        environ = {}
        if start == "a cluster":
            environ["KUBECONFIG"] = str(stack.enter_context(own_plane(tmp_path)).kubeconfig)
        shell = stack.enter_context(terminal(**environ))
        if start.startswith("ullage up"):
            shell.serve(start)
            shell.paste("export KUBECONFIG=~/.local/share/ullage/kubeconfig")
        printed = ""
        asked, until = Block("sh", "", 0), 0.0
        ran = 0
        for block in blocks(ROOT / document):
            if block.language == "sh":
                ran, asked, until = ran + 1, block, time.monotonic() + SECONDS
                printed = shell.serve(block.text) if block.text in SERVING else shell.paste(block.text)
            elif block.language == "text" and printed:
                while missing := block.missing_in(printed, str(shell.home)):
                    said = f"{document}:{block.line}: not printed: {missing}\n---\n{printed}"
                    assert asked.follows, said
                    assert time.monotonic() < until, said
                    printed = shell.paste(asked.text)
                printed = ""
        assert ran > 2, "the document has blocks"


def _documents() -> list[str]:
    documents = ["README.md", *(f"docs/how-to/{path.name}" for path in (ROOT / "docs/how-to").glob("*.md"))]
    return sorted([*documents, *(str(path.relative_to(ROOT)) for path in (ROOT / "examples").rglob("*.md"))])


def test_every_block_says_what_it_is() -> None:
    """A block without a language, or of another one, would be pasted by people and by no test."""
    known = {"sh", "text", "yaml"}
    found = {document: {block.language for block in blocks(ROOT / document)} for document in _documents()}
    assert {document: languages - known for document, languages in found.items() if languages - known} == {}


def test_every_manifest_is_taken_by_the_server() -> None:
    """By schema, rules and webhooks. What has no kind, or no spec, is a part of one."""
    found = [
        (f"{document}:{block.line}", body)
        for document in _documents()
        for block in blocks(ROOT / document)
        if block.language == "yaml"
        for body in yaml.safe_load_all(block.text)
        if "kind" in body and "spec" in body
    ]
    assert len(found) > 3
    with terminal() as shell:
        shell.serve("ullage up")
        shell.paste("export KUBECONFIG=~/.local/share/ullage/kubeconfig")
        for namespace in {body["metadata"].get("namespace", "default") for _, body in found} - {"default"}:
            shell.paste(f"kubectl create namespace {namespace}")
        for where, body in found:
            file = shell.home / "manifest.yaml"
            file.write_text(yaml.safe_dump(body))
            printed = shell.paste(f"kubectl create --dry-run=server -f {file}")
            assert "created (server dry run)" in printed, f"{where}: {printed}"
