"""The three detectors of cross-modal transfer that tell whether an image is of no seen class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from hgkt._geometry import distance_scores

_CHUNK_ROWS = 1024
_RADIUS_STEP = 0.05
_N_NEIGHBORS = 20
_EXTENT = 3.0


@dataclass
class NoveltyState:
    """What a detector has learned of the seen classes in embedding space.

    Parameters
    ----------
    centres : ndarray of shape (n_seen, d)
        Class embeddings.
    spreads : ndarray of shape (n_seen,)
        Variance (gaussian), radius (radius) or scale of outlier factors (loop) of each class.
    points : ndarray of shape (n_points, d)
        Training images class by class (loop), else none.
    point_spreads : ndarray of shape (n_points,)
        Root mean square distance of each to its neighbours.
    starts : ndarray of shape (n_seen + 1,)
        First row of each class in `points`.
    """

    centres: NDArray[Any]
    spreads: NDArray[np.float64]
    points: NDArray[Any]
    point_spreads: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    starts: NDArray[np.intp] = field(default_factory=lambda: np.zeros(1, dtype=np.intp))


def fit_gaussian(
    embedded: NDArray[Any], codes: NDArray[np.intp], centres: NDArray[Any]
) -> NoveltyState:
    """Fit an isotropic Gaussian around each centre: σ_c² = mean of ‖f(x)−a_c‖²/d in the class."""
    squared = ((embedded - centres[codes]) ** 2).sum(axis=1)
    counts = np.bincount(codes, minlength=len(centres))
    sums = np.bincount(codes, weights=squared, minlength=len(centres))
    variances = sums / (counts * centres.shape[1])
    # A class whose images coincide with its centre would have infinite density there.
    floor = 1e-6 * variances.mean() + 1e-12
    return NoveltyState(centres, np.maximum(variances, floor), centres[:0])


def gaussian_novelty(embedded: NDArray[Any], state: NoveltyState) -> NDArray[np.float64]:
    """Return −max_c log-density (n,), up to a constant: ½ min_c ‖f(x)−a_c‖²/σ_c² + d log σ_c²."""
    scaled = -distance_scores(embedded, state.centres) / state.spreads
    novelty: NDArray[np.float64] = 0.5 * (
        scaled + state.centres.shape[1] * np.log(state.spreads)
    ).min(axis=1)
    return novelty


def fit_radius(
    embedded: NDArray[Any], codes: NDArray[np.intp], centres: NDArray[Any]
) -> NoveltyState:
    """Give each class the radius that best tells its training images from all others.

    Paper gap: the authors grow the radius in steps of 0.05 while accuracy improves; growing from
    zero stops where no image is near, so the best of all multiples of 0.05 is taken.
    """
    n_classes = len(centres)
    largest = float(np.sqrt(max(0.0, -distance_scores(embedded, centres).min())))
    n_bins = int(np.ceil(largest / _RADIUS_STEP)) + 2
    gain = np.zeros((n_classes, n_bins))  # own images minus others, by the step that takes them in
    for rows in _chunks(len(embedded)):
        steps = np.ceil(_distances(embedded[rows], centres) / _RADIUS_STEP).astype(np.intp)
        flat = (np.arange(n_classes) * n_bins + np.minimum(steps, n_bins - 1)).ravel()
        own = np.arange(n_classes) == codes[rows][:, None]
        signs = np.where(own, 1.0, -1.0).ravel()
        gain += np.bincount(flat, weights=signs, minlength=gain.size).reshape(gain.shape)
    radii = gain.cumsum(axis=1).argmax(axis=1) * _RADIUS_STEP
    return NoveltyState(centres, radii, centres[:0])


def radius_novelty(embedded: NDArray[Any], state: NoveltyState) -> NDArray[np.float64]:
    """Return how far (n,) each row is outside the nearest of all balls; negative inside one."""
    novelty: NDArray[np.float64] = (_distances(embedded, state.centres) - state.spreads).min(axis=1)
    return novelty


def fit_loop(
    embedded: NDArray[Any], codes: NDArray[np.intp], centres: NDArray[Any]
) -> NoveltyState:
    """Learn local outlier probabilities in each class with 20 neighbours.

    Paper gap: the authors search the extent λ of each class by an unstated criterion; one λ = 3,
    the value of Kriegel et al. (LoOP, CIKM 2009), serves all.
    """
    order = np.argsort(codes, kind="stable")
    points = embedded[order]
    starts = np.searchsorted(codes[order], np.arange(len(centres) + 1))
    state = NoveltyState(centres, np.ones(len(centres)), points, np.zeros(len(points)), starts)
    for code, rows in enumerate(_class_rows(state)):
        squared = _own_squared(points[rows])
        k = min(_N_NEIGHBORS, len(squared) - 1)
        if k == 0:
            continue
        near = np.argpartition(squared, k - 1, axis=1)[:, :k]
        spreads = np.sqrt(np.take_along_axis(squared, near, axis=1).mean(axis=1))
        state.point_spreads[rows] = spreads
        factors = spreads / np.maximum(spreads[near].mean(axis=1), 1e-12) - 1.0
        state.spreads[code] = _EXTENT * np.sqrt((factors**2).mean())
    return state


def loop_novelty(
    embedded: NDArray[Any], state: NoveltyState, training: bool = False
) -> NDArray[np.float64]:
    """Return the least local outlier probability (n,) over all seen classes.

    With σ(x) the root mean square distance to the k nearest images of a class,
    plof = σ(x) / mean σ(neighbours) − 1 and LoOP = max(0, erf(plof / (nPLOF √2))). A class of one
    image has no local density, so everything is an outlier to it.

    Parameters
    ----------
    embedded : ndarray of shape (n, d)
        Embedded images.
    state : NoveltyState
        What `fit_loop` returned.
    training : bool
        Whether the rows are `state.points` themselves, none of which is its own neighbour.
    """
    novelty = np.ones(len(embedded))
    for code, rows in enumerate(_class_rows(state)):
        points, spreads = state.points[rows], state.point_spreads[rows]
        k = min(_N_NEIGHBORS, len(points) - 1)
        if k == 0:
            continue
        for chunk in _chunks(len(embedded)):
            squared = np.maximum(-distance_scores(embedded[chunk], points), 0.0)
            if training:
                own = np.arange(chunk.start, chunk.stop)
                inside = (own >= rows.start) & (own < rows.stop)
                squared[np.flatnonzero(inside), own[inside] - rows.start] = np.inf
            near = np.argpartition(squared, k - 1, axis=1)[:, :k]
            sigma = np.sqrt(np.take_along_axis(squared, near, axis=1).mean(axis=1))
            factor = sigma / np.maximum(spreads[near].mean(axis=1), 1e-12) - 1.0
            outlier = erf(factor / (max(state.spreads[code], 1e-12) * np.sqrt(2.0)))
            novelty[chunk] = np.minimum(novelty[chunk], np.maximum(outlier, 0.0))
    return novelty


Detector = tuple[
    Callable[[NDArray[Any], NDArray[np.intp], NDArray[Any]], NoveltyState],
    Callable[[NDArray[Any], NoveltyState], NDArray[np.float64]],
]

DETECTORS: dict[str, Detector] = {
    "gaussian": (fit_gaussian, gaussian_novelty),
    "radius": (fit_radius, radius_novelty),
    "loop": (fit_loop, loop_novelty),
}
"""How each detector learns, and how it tells novelty: (n,), the higher the more novel."""


def fit_detector(
    kind: str,
    embedded: NDArray[Any],
    codes: NDArray[np.intp],
    centres: NDArray[Any],
    rejected: float,
) -> tuple[NoveltyState, float]:
    """Fit a detector and its cut-off, above which an image is novel.

    Parameters
    ----------
    kind : {"gaussian", "radius", "loop"}
        The detector.
    embedded : ndarray of shape (n_samples, d)
        Embedded training images.
    codes : ndarray of shape (n_samples,)
        Class codes.
    centres : ndarray of shape (n_seen, d)
        Class embeddings.
    rejected : float
        Share of the training images beyond the cut-off; radii are their own cut-off.

    Returns
    -------
    tuple of NoveltyState and float

    Examples
    --------
    >>> embedded, codes = np.array([[0.0], [0.2], [1.0], [1.2]]), np.array([0, 0, 1, 1])
    >>> state, cutoff = fit_detector("gaussian", embedded, codes, np.array([[0.1], [1.1]]), 0.0)
    >>> gaussian_novelty(np.array([[0.1], [0.6]]), state) > cutoff
    array([False,  True])
    """
    fit, novelty = DETECTORS[kind]
    state = fit(embedded, codes, centres)
    if kind == "radius":
        return state, 0.0
    known = loop_novelty(state.points, state, True) if kind == "loop" else novelty(embedded, state)
    return state, float(np.quantile(known, 1.0 - rejected))


def _distances(embedded: NDArray[Any], centres: NDArray[Any]) -> NDArray[Any]:
    distances: NDArray[Any] = np.sqrt(np.maximum(-distance_scores(embedded, centres), 0.0))
    return distances


def _own_squared(points: NDArray[Any]) -> NDArray[Any]:
    """Return squared distances (n, n) within a class, infinite from a point to itself."""
    squared = np.maximum(-distance_scores(points, points), 0.0)
    np.fill_diagonal(squared, np.inf)
    return squared


def _class_rows(state: NoveltyState) -> Iterator[slice]:
    for start, stop in zip(state.starts[:-1], state.starts[1:], strict=True):
        yield slice(int(start), int(stop))


def _chunks(n_rows: int) -> Iterator[slice]:
    for start in range(0, n_rows, _CHUNK_ROWS):
        yield slice(start, min(start + _CHUNK_ROWS, n_rows))
