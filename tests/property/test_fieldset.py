"""The algebra of field sets, against plain sets of paths."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ullage.standalone.apiserver.fields.apply.merge import merge
from ullage.standalone.apiserver.fields.fieldset import (
    LEAF,
    SELF,
    Fields,
    difference,
    intersection,
    ordered,
    recursive_difference,
    union,
    walk,
    well_formed,
)
from ullage.standalone.apiserver.fields.ownership import compare, declared
from ullage.standalone.apiserver.fields.shape import ANY

Path = tuple[str, ...]
STEPS = st.sampled_from(["f:a", "f:b", 'k:{"n":1}', 'v:"x"'])
PATHS = st.lists(STEPS, min_size=1, max_size=4).map(tuple)
SETS = st.sets(PATHS, max_size=8)


def tree(paths: set[Path]) -> Fields:
    """The set of some paths, built the slow and obvious way."""
    root: Fields = {}
    for path in paths:
        node = root
        for step in path:
            node = node.setdefault(step, {})
        node[SELF] = LEAF
    return _trimmed(root)


def _trimmed(node: Fields) -> Fields:
    return {step: LEAF if step == SELF or child == {SELF: LEAF} else _trimmed(child) for step, child in node.items()}


@given(SETS)
def test_a_set_holds_its_paths(paths: set[Path]) -> None:
    assert set(walk(tree(paths))) == paths
    assert well_formed(tree(paths))


@given(SETS, SETS)
def test_operations_are_those_of_sets(one: set[Path], other: set[Path]) -> None:
    left, right = tree(one), tree(other)
    before = copy.deepcopy((left, right))
    assert union(left, right) == tree(one | other)
    assert difference(left, right) == tree(one - other)
    assert intersection(left, right) == tree(one & other)
    assert (left, right) == before


@given(SETS, SETS)
def test_a_recursive_difference_takes_what_lies_below(one: set[Path], other: set[Path]) -> None:
    left = {path for path in one if not any(path[: len(gone)] == gone for gone in other)}
    assert recursive_difference(tree(one), tree(other)) == tree(left)


@given(SETS, SETS)
def test_an_operation_without_effect_returns_the_same_object(one: set[Path], other: set[Path]) -> None:
    left = tree(one)
    if not one & other:
        assert difference(left, tree(other)) is left
    assert union(left, tree(one & other)) is left


@given(SETS)
def test_order_changes_nothing_but_order(paths: set[Path]) -> None:
    found = ordered(tree(paths))
    assert found == tree(paths)
    assert list(found) == sorted(found)


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(2, 4), st.sampled_from("xy"))
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(OBJECTS, OBJECTS)
def test_only_differing_objects_compare_as_different(old: dict[str, Any], new: dict[str, Any]) -> None:
    diff = compare(old, new, ANY)
    assert (not diff.changed and not diff.removed) == (old == new)
    assert well_formed(diff.changed)
    assert well_formed(diff.removed)


@given(OBJECTS)
def test_what_is_written_anew_covers_what_it_declares(new: dict[str, Any]) -> None:
    assert not difference(declared(new, ANY), compare({}, new, ANY).changed)


@given(OBJECTS, OBJECTS)
def test_merging_twice_is_merging_once(live: dict[str, Any], config: dict[str, Any]) -> None:
    before = copy.deepcopy((live, config))
    once = merge(live, config, ANY)
    assert merge(once, config, ANY) == once
    assert (live, config) == before
