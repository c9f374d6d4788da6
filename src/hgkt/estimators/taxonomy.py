"""Groups of classes: a tree above them, and answers as deep in it as a model is sure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from hgkt._validation import check_class_name, check_number, label_text, refuse_twins
from hgkt.exceptions import DataError

MAX_DEPTH = 32
"""More levels than that are no taxonomy of anybody."""

Parents = Mapping[str, str]
"""The group of each class and of each group that lies in another one."""


@dataclass(frozen=True, eq=False)
class Taxonomy:
    """Classes, the groups above them, and what probabilities of classes say of groups.

    A node is a class or a group; the classes of a group are those at or below it. A class without
    a parent stands at the top. A class may have others below it: as a group it then holds itself.

    Parameters
    ----------
    names : ndarray of shape (V,)
        The nodes: the classes as they were given, then the groups, sorted.
    n_classes : int
        C, how many of the nodes are classes.
    paths : ndarray of shape (V, depth)
        The nodes from the top down to each node, itself the last; then -1.

    Examples
    --------
    >>> tree = Taxonomy.of(["leek", "gala", "jazz"], {"gala": "apple", "jazz": "apple"})
    >>> names, chances = tree.at_level(np.array([[0.4, 0.3, 0.3]]), 1)
    >>> names.tolist(), chances.round(1).tolist()
    (['leek', 'apple'], [[0.4, 0.6]])
    """

    names: NDArray[Any]
    n_classes: int
    paths: NDArray[np.intp]

    @classmethod
    def of(cls, classes: Sequence[Any], parents: Parents | None = None) -> Self:
        """Return the tree of some classes (C,); groups that hold none of them are left out."""
        parents = {} if parents is None else check_parents(parents)
        paths = [_path(name, parents) for name in classes]
        known = set(classes)
        groups = sorted({node for path in paths for node in path if node not in known})
        paths += [_path(name, parents) for name in groups]
        nodes = [*classes, *groups]
        place = {name: number for number, name in enumerate(nodes)}
        table = np.full((len(nodes), max(map(len, paths), default=1)), -1, dtype=np.intp)
        for row, path in zip(table, paths, strict=True):
            row[: len(path)] = [place[name] for name in path]
        return cls(np.array(nodes), len(place) - len(groups), table)

    # ------------------------------------------------------------------ the tree
    @property
    def n_levels(self) -> int:
        """How many levels there are, that of the deepest class included."""
        return int(self.paths.shape[1])

    @cached_property
    def depths(self) -> NDArray[np.intp]:
        """The level (V,) of each node; 1 is the top."""
        depths: NDArray[np.intp] = (self.paths >= 0).sum(axis=1)
        return depths

    @cached_property
    def parents(self) -> NDArray[np.intp]:
        """The node (V,) above each node; -1 at the top."""
        above = np.maximum(self.depths - 2, 0)
        return np.where(self.depths > 1, self.paths[np.arange(len(self.paths)), above], -1)

    @cached_property
    def members(self) -> csr_array:
        """Which classes (V, C) are at or below each node, 0 or 1."""
        paths = self.paths[: self.n_classes]
        classes, places = np.nonzero(paths >= 0)
        shape = (len(self.names), self.n_classes)
        return csr_array((np.ones(len(classes)), (paths[classes, places], classes)), shape=shape)

    def to_parents(self) -> dict[Any, Any]:
        """Return the parent of each node that has one, by name: what `of` takes."""
        names, below = self.names.tolist(), np.flatnonzero(self.parents >= 0).tolist()
        return {names[node]: names[self.parents[node]] for node in below}

    def level(self, level: str | int) -> int:
        """Return a level as a number from 1, the top; "group" is the one above all classes."""
        if level == "group":
            if self.n_levels == 1:
                raise DataError("there are no groups: no class has a parent")
            if self.n_levels > 2:
                raise DataError(
                    f"level 'group' could be any of {self.n_levels - 1}; give a number from 1, the "
                    f"top, to {self.n_levels - 1}"
                )
            return 1
        if isinstance(level, str):
            raise DataError(f"level must be 'group' or a number from 1, the top; got {level!r}")
        check_number("level", level, low=1, high=self.n_levels, integer=True)
        return level

    def standing(self, level: int) -> NDArray[np.intp]:
        """Return the node (C,) that stands for each class at a level; a higher class for itself."""
        depths = self.depths[: self.n_classes]
        nodes: NDArray[np.intp] = self.paths[
            np.arange(self.n_classes), np.minimum(level, depths) - 1
        ]
        return nodes

    def distances(self, nodes: NDArray[np.intp], others: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return how many steps (n,) up and down the tree lead from nodes to others.

        All nodes at the top lie below one root: two classes without parents are two steps apart.
        """
        one, two = self.paths[nodes], self.paths[others]
        shared = np.cumprod((one == two) & (one >= 0), axis=1).sum(axis=1)
        steps: NDArray[np.intp] = self.depths[nodes] + self.depths[others] - 2 * shared
        return steps

    # ------------------------------------------------------------------ probabilities
    def probabilities(self, probabilities: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability (n, V) of each node, from those of the classes (n, C)."""
        return np.asarray((self.members @ probabilities.T).T)

    def at_level(
        self, probabilities: NDArray[Any], level: int
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return what there is at a level (K,), and its probabilities (n, K); rows still sum to 1.

        Parameters
        ----------
        probabilities : ndarray of shape (n, C)
            Of the classes.
        level : int
            From 1, the top. A class that lies higher stands for itself.
        """
        nodes, codes = np.unique(self.standing(level), return_inverse=True)
        shape = (len(nodes), self.n_classes)
        sums = csr_array((np.ones(len(codes)), (codes, np.arange(len(codes)))), shape=shape)
        return self.names[nodes], np.asarray((sums @ probabilities.T).T)

    def back_off(
        self, probabilities: NDArray[Any], at_least: float
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the deepest node (n,) that is probable enough, and its probability (n,).

        From the top down, each time to the likeliest node below. Above a floor of 0.5 there is no
        other way: of two nodes beside each other only one can pass. A lower floor never leads to
        another branch, only further down.

        Parameters
        ----------
        probabilities : ndarray of shape (n, C)
            Of the classes.
        at_least : float
            The floor, above 0 and at most 1.

        Returns
        -------
        nodes : ndarray of shape (n,)
            -1 where not even a node at the top passes.
        chances : ndarray of shape (n,)
            Their probabilities; where none passes, that of the likeliest node at the top.
        """
        check_number("at_least", at_least, low=0, high=1, open_low=True)
        chances = self.probabilities(probabilities)
        n, n_others = len(chances), len(self.names) - self.n_classes
        # Of each class alone; the column -1 is for rows that have not come to any node yet.
        alone = np.hstack([probabilities, np.zeros((n, n_others + 1))])
        rows, found, reached = np.arange(n), np.full(n, -1), np.zeros(n)
        for level in range(1, self.n_levels + 1):
            nodes = np.flatnonzero(self.depths == level)
            below = self.parents[nodes] == found[:, None]
            part = np.where(below, chances[:, nodes], -1.0)
            best = part.argmax(axis=1)
            chance = part[rows, best]
            # A class with others below it may be the likeliest of its own group.
            goes_on = (chance >= at_least) & (chance >= alone[rows, found])
            reached = np.where(goes_on | (level == 1), chance, reached)
            found = np.where(goes_on, nodes[best], found)
        return found, reached


def check_parents(parents: Any) -> dict[str, str]:
    """Return the parents of nodes as a dict of their own; refuse what is no tree.

    Parameters
    ----------
    parents : mapping of str to str
        The group of each class and of each group that lies in another one.

    Examples
    --------
    >>> check_parents({"gala": "apple", "apple": "gala"})
    Traceback (most recent call last):
    hgkt.exceptions.DataError: 'gala' lies in itself: gala, apple, gala
    """
    if not isinstance(parents, Mapping):
        raise DataError(
            f"parents must map the name of a class to that of its group; got {parents!r:.60}"
        )
    for pair in parents.items():
        for name in pair:
            if not isinstance(name, str):
                raise DataError(f"a group and what lies in it have names; got {name!r:.60}")
            check_class_name(name)
    found = dict(parents)
    for name in found:
        _path(name, found)
    return found


def with_parents(
    parents: Parents, new: Mapping[str, str | None], classes: Collection[Any]
) -> dict[str, str]:
    """Return the parents of a model's classes with some that are new or other.

    Parameters
    ----------
    parents : mapping of str to str
        Those that there are.
    new : mapping of str to str or None
        The parent that a class or a group has from now on; None puts it at the top.
    classes : collection of str
        The classes of the model.
    """
    merged = {name: parent for name, parent in parents.items() if name not in new}
    merged = check_parents(merged | {n: p for n, p in new.items() if p is not None})
    refuse_twins(Taxonomy.of(list(dict.fromkeys([*classes, *new])), merged).names.tolist())
    return merged


def renamed(parents: Parents, names: Mapping[Any, Any]) -> dict[str, str]:
    """Return the parents under other names of some classes.

    A class that takes the name of a group above it stays where that group is.
    """
    groups, taken = set(parents.values()), set(names.values())
    found = {
        n: names.get(p, p)
        for n, p in parents.items()
        if n not in names and (n in groups or n not in taken)
    }
    for old, new in names.items():
        if old not in parents:
            continue
        moved = found | {new: names.get(parents[old], parents[old])}
        with suppress(DataError):
            _path(new, moved)
            found = moved
    return found


def _path(name: Any, parents: Parents) -> list[Any]:
    """Return the names from the top down to a node; refuse one that lies in itself."""
    path = [name]
    while (above := parents.get(path[-1])) is not None:
        if above in path:
            circle = ", ".join([*path[path.index(above) :], above])
            raise DataError(f"{label_text(above)} lies in itself: {circle:.200}")
        path.append(above)
        if len(path) > MAX_DEPTH:
            raise DataError(
                f"{label_text(name)} lies more than {MAX_DEPTH} levels deep in its groups"
            )
    return path[::-1]
