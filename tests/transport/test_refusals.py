"""What transport refuses, it refuses with one whole sentence; what is left out has a default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from hgkt.exceptions import DataError
from hgkt.transport import (
    entropic_barycenter,
    entropic_distances,
    ground_cost,
    line_barycenter,
    line_distances,
    line_pairwise,
    select_representatives,
    to_simplex,
)

EYE = np.eye(3)
HALF = np.array([[0.5, 0.5], [0.5, 0.6]])
X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.2, 0.3, 0.5]])
CODES = [0, 0, 0, 1]

REFUSALS: list[tuple[Callable[[], Any], str]] = [
    # to_simplex
    (lambda: to_simplex([["a"]]), "features must be numbers; got an array of type <U1"),
    (
        lambda: to_simplex([1.0, 2.0]),
        "features must be a matrix with one row an instance; got shape (2,)",
    ),
    (
        lambda: to_simplex(np.ones((2, 0))),
        "features must be a matrix with one row an instance; got shape (2, 0)",
    ),
    (
        lambda: to_simplex([[np.nan]]),
        "features contain NaN in row 0; only finite numbers are accepted",
    ),
    (
        lambda: to_simplex([[1.0, 1.0], [1e308, 1e308]]),
        "features in row 1 are too large to be summed in float64; scale them down",
    ),
    # histograms, weights and codes
    (
        lambda: line_barycenter(HALF),
        "histograms must be non-negative and sum to one; row 1 has minimum 0.5 and sum 1.1 "
        "(see to_simplex)",
    ),
    (
        lambda: line_barycenter([[1.5, -0.5]]),
        "histograms must be non-negative and sum to one; row 0 has minimum -0.5 and sum 1 "
        "(see to_simplex)",
    ),
    (
        lambda: line_barycenter(np.ones((0, 2))),
        "histograms have no rows; at least one is expected",
    ),
    (lambda: line_barycenter([["a"]]), "histograms must be numbers; got an array of type <U1"),
    (
        lambda: line_barycenter([[np.inf, 0.0]]),
        "histograms contain infinity (inf) in row 0; only finite numbers are accepted",
    ),
    (
        lambda: line_barycenter(EYE, weights=[1.0, 2.0]),
        "weights must have shape (3,), one a row; got (2,)",
    ),
    (
        lambda: line_barycenter(EYE, weights=[1.0, 2.0, -1.0]),
        "weights must be finite, non-negative and not all zero",
    ),
    (
        lambda: line_barycenter(EYE, weights=[0.0, 0.0, 0.0]),
        "weights must be finite, non-negative and not all zero",
    ),
    (
        lambda: line_barycenter(EYE, weights=[1.0, np.inf, 0.0]),
        "weights must be finite, non-negative and not all zero",
    ),
    (
        lambda: select_representatives(EYE, [0, 1], 2),
        "codes must be 3 integers, one a row; got int64 (2,)",
    ),
    (
        lambda: select_representatives(EYE, [0.0, 1.0, 1.0], 2),
        "codes must be 3 integers, one a row; got float64 (3,)",
    ),
    (lambda: select_representatives(EYE, [0, 1, 2], 2), "code 2 in row 2 is not in 0..1"),
    (lambda: select_representatives(EYE, [0, -1, 1], 2), "code -1 in row 1 is not in 0..1"),
    (
        lambda: select_representatives(EYE, [0, 2, 2], 3),
        "class code 1 has no instance; every class needs at least one",
    ),
    (
        lambda: line_barycenter([1.0]),
        "histograms must be a matrix with one row an instance; got shape (1,)",
    ),
    # the line
    (
        lambda: line_distances(EYE, [0.5, 0.5]),
        "histograms have 3 bins, their target 2; both must agree",
    ),
    (
        lambda: line_pairwise(EYE, np.eye(2)),
        "histograms have 3 bins, their target 2; both must agree",
    ),
    (lambda: line_distances(EYE, EYE), "target must be one histogram; got shape (3, 3)"),
    (
        lambda: line_distances(EYE, [1.0, 1.0, 0.0]),
        "target must be non-negative and sum to one; row 0 has minimum 0 and sum 2 "
        "(see to_simplex)",
    ),
    (
        lambda: line_pairwise(2 * EYE),
        "A must be non-negative and sum to one; row 0 has minimum 0 and sum 2 (see to_simplex)",
    ),
    (
        lambda: line_pairwise(EYE, 2 * EYE),
        "B must be non-negative and sum to one; row 0 has minimum 0 and sum 2 (see to_simplex)",
    ),
    # other ground costs
    (lambda: ground_cost(0), "n_bins must be an integer in [1, inf]; got 0"),
    (
        lambda: ground_cost(2, "cubic"),
        "cost must be one of 'squared', 'absolute', 'zero-one' or a matrix (2, 2); got 'cubic'",
    ),
    (
        lambda: ground_cost(2, EYE),
        "cost must be a non-negative matrix of shape (2, 2), one row a bin; "
        "got shape (3, 3) with minimum 0",
    ),
    (
        lambda: ground_cost(3, -EYE),
        "cost must be a non-negative matrix of shape (3, 3), one row a bin; "
        "got shape (3, 3) with minimum -1",
    ),
    (lambda: ground_cost(1, [["a"]]), "cost must be numbers; got an array of type <U1"),
    (
        lambda: ground_cost(1, [[np.nan]]),
        "cost contain NaN in row 0; only finite numbers are accepted",
    ),
    (
        lambda: entropic_distances(EYE, [0.5, 0.5], "squared", 0.1),
        "target must be one histogram of 3 bins; got (1, 2)",
    ),
    (
        lambda: entropic_distances(EYE, [0.5, 0.6, 0.0], "squared", 0.1),
        "target must be non-negative and sum to one; row 0 has minimum 0 and sum 1.1 "
        "(see to_simplex)",
    ),
    (
        lambda: entropic_barycenter(EYE, "squared", 0.0),
        "reg must be a number in (0, inf]; got 0.0",
    ),
    (
        lambda: entropic_barycenter(EYE, "squared", 0.1, max_iter=0),
        "max_iter must be an integer in [1, inf]; got 0",
    ),
    (
        lambda: entropic_barycenter(EYE, "squared", 0.1, max_iter=1.5),
        "max_iter must be an integer in [1, inf]; got 1.5",
    ),
    (
        lambda: entropic_barycenter(EYE, "squared", 0.1, tol=-1.0),
        "tol must be a number in [0, inf]; got -1.0",
    ),
    (
        lambda: entropic_barycenter(EYE, "squared", 1e-5),
        "reg=1e-05 is void for this ground cost: exp(-0.25/reg) underflows to zero, so no mass can "
        "move and the barycenter is a geometric mean; use reg >= 0.00036",
    ),
    (
        lambda: entropic_distances(EYE, EYE[0], "squared", 1e-5, normalize_cost=False),
        "reg=1e-05 is void for this ground cost: exp(-1/reg) underflows to zero, so no mass can "
        "move and the barycenter is a geometric mean; use reg >= 0.0014 or normalize_cost=True",
    ),
    (
        lambda: entropic_barycenter(
            np.eye(2), [[0.0, 1.016], [1.016, 0.0]], 1e-4, normalize_cost=False
        ),
        "reg=0.0001 is void for this ground cost: exp(-1.02/reg) underflows to zero, so no mass "
        "can move and the barycenter is a geometric mean; use reg >= 0.0015 or normalize_cost=True",
    ),
    # representatives
    (
        lambda: select_representatives([1.0], [0], 1),
        "features must be a matrix with one row an instance; got shape (1,)",
    ),
    (
        lambda: select_representatives(X * np.nan, CODES, 2),
        "features contain NaN in row 0; only finite numbers are accepted",
    ),
    (
        lambda: select_representatives(X, CODES, 2, "nearest"),
        "method must be one of 'wasserstein', 'euclidean', 'random', 'medoid'; got 'nearest'",
    ),
    (
        lambda: select_representatives(X, CODES, 2, solver="greedy"),
        "solver must be one of 'exact', 'sinkhorn'; got 'greedy'",
    ),
    (
        lambda: select_representatives(X, CODES, 2, reg=0.0),
        "reg must be a number in (0, inf]; got 0.0",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), REFUSALS)
def test_refusals_are_whole_sentences(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(DataError) as refused:
        call()
    assert str(refused.value) == sentence


TENSOR_REFUSALS: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: line_barycenter(torch.eye(3) * 2),
        "histograms must be non-negative and sum to one; row 0 has minimum 0 and sum 2 "
        "(see to_simplex)",
    ),
    (
        lambda: line_distances(torch.eye(3), torch.ones(3)),
        "target must be non-negative and sum to one; row 0 has minimum 1 and sum 3 "
        "(see to_simplex)",
    ),
    (
        lambda: line_pairwise(torch.ones(2, 3)),
        "A must be non-negative and sum to one; row 0 has minimum 1 and sum 3 (see to_simplex)",
    ),
    (
        lambda: line_pairwise(torch.eye(3), torch.ones(2, 3)),
        "B must be non-negative and sum to one; row 0 has minimum 1 and sum 3 (see to_simplex)",
    ),
    (
        lambda: line_pairwise(torch.eye(3), torch.eye(2)),
        "histograms have 3 bins, their target 2; both must agree",
    ),
    (
        lambda: line_distances(torch.eye(3), torch.eye(3)),
        "target must be one histogram; got shape (3, 3)",
    ),
    (
        lambda: line_barycenter(torch.ones(0, 2)),
        "histograms have no rows; at least one is expected",
    ),
    (
        lambda: line_barycenter(torch.ones(2, 0)),
        "histograms must be a matrix with one row an instance; got shape (2, 0)",
    ),
    (
        lambda: line_barycenter(torch.ones(2)),
        "histograms must be a matrix with one row an instance; got shape (2,)",
    ),
    (
        lambda: line_barycenter(torch.eye(3), weights=[1.0]),
        "weights must have shape (3,), one a row; got (1,)",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), TENSOR_REFUSALS)
def test_tensors_are_refused_with_the_same_sentences(
    call: Callable[[], Any], sentence: str
) -> None:
    with pytest.raises(DataError) as refused:
        call()
    assert str(refused.value) == sentence


def test_zero_rows_warn_once_and_name_the_first() -> None:
    rows = np.ones((5, 2))
    rows[[1, 3]] = 0.0
    sentence = (
        "2 rows of features are zero everywhere (the first is row 1) "
        "and were made uniform histograms"
    )
    for call in (
        lambda: to_simplex(rows),
        lambda: select_representatives(rows, [1, 0, 1, 0, 1], 2),
    ):
        with pytest.warns(UserWarning, match="zero everywhere") as caught:
            call()
        assert [str(warning.message) for warning in caught] == [sentence]


def test_unconverged_solvers_say_what_to_do() -> None:
    a, b = np.array([[0.5, 0.5, 0.0]]), [0.0, 0.25, 0.75]
    with pytest.warns(UserWarning, match="did not converge") as caught:
        entropic_distances(a, b, "squared", 0.01, max_iter=1, tol=1e-12)
    text = str(caught[0].message)
    assert text.startswith("the entropic distances did not converge in 1 iterations (error ")
    assert text.endswith(
        ", tol 1e-12); raise max_iter or reg, or use the exact solver where the cost is on a line"
    )
    with pytest.warns(UserWarning, match="did not converge") as caught:
        entropic_barycenter(np.eye(3), "squared", 0.01, max_iter=1, tol=0.0)
    assert str(caught[0].message).startswith("the entropic barycenter did not converge in 1 iter")
