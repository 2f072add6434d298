"""Whatever happens to a tree while it is copied: the copy is what the tree was at the cut, all of it at that one moment."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.snapshots.backends.hostpath.trees import Description, copied, described
from ullage.snapshots.backends.hostpath import file_copy, scan, tree_copy

T = TypeVar("T")

PATHS = st.sampled_from(["a", "b", "c", "d", "d/a", "d/b", "d/d", "d/d/a", "e", "e/a"])
ACTIONS = st.one_of(
    st.tuples(st.just("write"), PATHS, st.binary(max_size=3)),
    st.tuples(st.just("mkdir"), PATHS),
    st.tuples(st.just("remove"), PATHS),
    st.tuples(st.just("rename"), PATHS, PATHS),
    st.tuples(st.just("link"), PATHS, PATHS),
    st.tuples(st.just("symlink"), PATHS, PATHS),
    st.tuples(st.just("chmod"), PATHS, st.sampled_from([0o700, 0o755])),
)


def act(top: Path, action: tuple[object, ...]) -> None:
    """Does what can be done; the rest is nothing."""
    verb, path, *more = action
    target = top / str(path)
    with suppress(OSError):
        if verb == "write":
            assert isinstance(more[0], bytes)
            target.write_bytes(more[0])
        elif verb == "mkdir":
            target.mkdir()
        elif verb == "remove":
            shutil.rmtree(target) if target.is_dir() and not target.is_symlink() else target.unlink()
        elif verb == "rename":
            target.rename(top / str(more[0]))
        elif verb == "link":
            os.link(target, top / str(more[0]), follow_symlinks=False)
        elif verb == "symlink":
            (top / str(more[0])).symlink_to(str(path))
        elif not target.is_symlink():
            target.chmod(int(str(more[0])))


@contextmanager
def meanwhile(top: Path, steps: list[list[tuple[object, ...]]]) -> Iterator[list[Description]]:
    """One list of actions after each directory that a walk enters, after each walk and after each copy of a file, as long as
    there are some. Gives what the tree was when each walk began."""
    left = iter(steps)
    states: list[Description] = []

    def then_act(call: Callable[..., T]) -> Callable[..., T]:
        def both(*arguments: object, **options: object) -> T:
            result = call(*arguments, **options)
            for action in next(left, []):
                act(top, action)
            return result

        return both

    def noting(*arguments: Any, **options: Any) -> None:
        states.append(described(top))
        scan.scan(*arguments, **options)

    with (
        mock.patch.object(tree_copy, "scan", then_act(noting)),
        mock.patch.object(scan, "_still", then_act(scan._still)),
        mock.patch.object(file_copy, "copy_data", then_act(file_copy.copy_data)),
        mock.patch.multiple(tree_copy, _PAUSE=0, PASSES=30),
    ):
        yield states


@settings(max_examples=40, deadline=None)
@example(  # two files become one between the walk and the copy: each copy alone is right, and they must be one file again
    before=[("write", "a", b""), ("write", "c", b"")],
    during=[[], [("remove", "a"), ("link", "c", "a")]],
)
@given(before=st.lists(ACTIONS, max_size=12), during=st.lists(st.lists(ACTIONS, max_size=4), max_size=12))
def test_the_copy_is_the_tree_at_the_cut(before: list[tuple[object, ...]], during: list[list[tuple[object, ...]]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "source")
        source.mkdir()
        for action in before:
            act(source, action)
        with meanwhile(source, during) as states:
            copied(source, Path(directory, "copy"))
        assert described(Path(directory, "copy")) == states[-1]
