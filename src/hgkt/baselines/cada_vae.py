"""CADA-VAE: aligned autoencoders of features and attributes, and a softmax on their latents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from hgkt._arrays import FeatureMap, batches, map_rows, torch_device
from hgkt._typing import Progress
from hgkt._validation import check_number
from hgkt.baselines._shared.grids import Seen, Setting, group_settings, parameters
from hgkt.baselines._shared.networks import (
    FedLoss,
    NetworkClassifier,
    minimise,
    to_numpy,
    trainable,
    two_layers,
    uniform,
)
from hgkt.calibration import Fold, Instances
from hgkt.estimators.base import ClassRows
from hgkt.estimators.class_table import ClassTable
from hgkt.estimators.methods import Preset
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    import torch

    Gaussians = tuple[torch.Tensor, torch.Tensor]
    """Means and log-variances, (n, k) both."""

_CLASSIFIER_BATCH = 32
_CLASSIFIER_BETAS = (0.5, 0.999)
_WARM_UPS = ((0.0, 0.93), (0.21, 0.75), (0.06, 0.22))
"""From where to where of the training the weights of the divergence, of the cross-reconstruction
and of the distance rise from 0: epochs 0 to 93, 21 to 75 and 6 to 22 of the authors' 100."""
_LARGEST = 1e6  # of latents, which training draws near a standard normal distribution
_SMALLEST = 1e-12  # under a root, whose slope at 0 is infinite


@parameters
class CADAVAEClassifier(NetworkClassifier):
    """Cross- and distribution-aligned variational autoencoders.

    Two autoencoders, of features and of attributes, share one latent space. Each encoder E gives
    the mean μ and the log-variance v of a Gaussian, each decoder D brings a latent z back. With z
    drawn from the Gaussian of a row x and ζ from that of its class's attributes a, training
    minimises, summed over a batch, ::

        |x − D_x(z)| + |a − D_a(ζ)| + β (KL_x + KL_a)
          + γ (|x − D_x(ζ)| + |a − D_a(z)|) + δ √(‖μ_x − μ_a‖² + ‖σ_x − σ_a‖²),

    with KL the divergence from the standard normal distribution; β, γ and δ rise from 0 as
    training goes on. Both see seen classes only.

    A linear softmax over all classes is then trained on latents of seen rows and on latents drawn
    for the attributes of added classes: it is trained again whenever classes come or go, so
    adding takes seconds and moves the scores of all classes. score(x, c) = w_c·μ(x) + b_c.

    Paper gap: as in the released code, drawn noise is one number per row, times the variance
    instead of its root. The released code brings the features of each test split to 0..1 by their
    own smallest and largest values; here those of the training rows serve, since a row alone has
    none.

    Parameters
    ----------
    n_epochs : int, default=100
        Of the autoencoders: as many steps as batches fit into the rows.
    n_latent : int, default=64
        Numbers of a latent.
    hidden_sizes : sequence of four int, default=(1560, 1660, 1450, 665)
        Widths of the hidden layers: encoder and decoder of features, then of attributes.
    learning_rate : float, default=1.5e-4
        Of Adam (AMSGrad) for the autoencoders.
    batch_size : int, default=50
        Rows per step of the autoencoders.
    divergence, cross_reconstruction, distance : float, default=0.25, 2.37, 8.13
        β, γ and δ at their full height.
    classifier_epochs : int, default=23
        Of the softmax, in batches of 32.
    classifier_rate : float, default=1e-3
        Of Adam for the softmax.
    n_seen_samples : int, default=200
        Latents per seen class; where a class has fewer rows they come several times.
    n_unseen_samples : int, default=400
        Latents per added class.
    feature_map, attribute_map, calibration : ...
    random_state : int, RandomState or None, default=None
        Of initial weights, batches and noise; drawn once, when the model is fitted.
    device : ...

    The defaults are those of the released code for CUB; the preset "released" has its
    `classifier_epochs` of other data sets.

    Attributes
    ----------
    low_, span_ : ndarray of shape (n_features,)
        Smallest values of the features, and the way to the largest ones.
    feature_w1_, feature_b1_, feature_w2_, feature_b2_ : ndarray
        The encoder of features; its output has means, then log-variances.
    attribute_w1_, attribute_b1_, attribute_w2_, attribute_b2_ : ndarray
        The encoder of attributes.
    means_, log_variances_ : ndarray of shape (n_kept, n_latent)
        Of the first rows of each seen class, what the softmax is trained on.
    codes_ : ndarray of shape (n_kept,)
        Their classes.
    seed_ : int
        What noise and batches of the softmax start from.

    References
    ----------
    Schönfeld et al., "Generalized zero- and few-shot learning via aligned variational
    autoencoders", CVPR 2019.

    Examples
    --------
    >>> X = np.repeat([[4.0, 0.0, 1.0], [0.0, 4.0, 1.0]], 50, axis=0)
    >>> y = np.repeat(["horse", "tiger"], 50)
    >>> attributes = {"horse": [1.0, 0.0], "tiger": [0.0, 1.0]}
    >>> sizes = {"n_latent": 4, "hidden_sizes": (32, 32, 32, 32), "learning_rate": 1e-3}
    >>> model = CADAVAEClassifier(**sizes, random_state=0).fit(X, y, attributes)
    >>> model.predict([[4.0, 0.0, 1.0], [0.0, 4.0, 1.0]]).tolist()
    ['horse', 'tiger']
    >>> model.add_classes({"zebra": [1.0, 1.0]}).classes_.tolist()
    ['horse', 'tiger', 'zebra']
    """

    n_epochs: int = 100
    n_latent: int = 64
    hidden_sizes: Sequence[int] = (1560, 1660, 1450, 665)
    learning_rate: float = 1.5e-4
    batch_size: int = 50
    divergence: float = 0.25
    cross_reconstruction: float = 2.37
    distance: float = 8.13
    classifier_epochs: int = 23
    classifier_rate: float = 1e-3
    n_seen_samples: int = 200
    n_unseen_samples: int = 400
    feature_map: FeatureMap = "none"
    attribute_map: FeatureMap = "l2"
    calibration: float = 0.0
    random_state: Any = None
    device: str = "auto"

    retrains_on_add: ClassVar[bool] = True
    mathematics_version: ClassVar[int] = 1
    _scores_classes_apart = True

    _feature_encoder = tuple(f"feature_{name}_" for name in ("w1", "b1", "w2", "b2"))
    _attribute_encoder = tuple(f"attribute_{name}_" for name in ("w1", "b1", "w2", "b2"))
    _learned = (
        "low_", "span_", *_feature_encoder, *_attribute_encoder,
        "means_", "log_variances_", "codes_", "seed_",
    )  # fmt: skip
    _late = ("classifier_epochs", "classifier_rate", "n_seen_samples", "n_unseen_samples")
    named_presets: ClassVar[Mapping[str, Preset]] = {
        "released": Preset(
            {},
            {
                "CUB": {"classifier_epochs": 23},
                "SUN": {"classifier_epochs": 21},
                "AWA1": {"classifier_epochs": 33},
                "AWA2": {"classifier_epochs": 29},
            },
        )
    }

    def default_stages(self) -> list[Any]:
        """Return the size of latents, then how many are drawn, both with epochs of the softmax."""
        epochs = {"classifier_epochs": [3, 6, 12, 23, 46]}
        return [
            {"n_latent": [32, 64, 128], **epochs},
            {"n_unseen_samples": [100, 200, 400, 800], **epochs},
        ]

    def _check_params(self) -> None:
        super()._check_params()
        counts = ("n_epochs", "n_latent", "batch_size", "n_seen_samples", "n_unseen_samples")
        for name in (*counts, "classifier_epochs"):
            check_number(name, getattr(self, name), low=1, integer=True)
        check_number("classifier_rate", self.classifier_rate, low=0.0, open_low=True)
        for name in ("divergence", "cross_reconstruction", "distance"):
            check_number(name, getattr(self, name), low=0.0)
        sizes = self.hidden_sizes
        if not isinstance(sizes, Sequence) or isinstance(sizes, str) or len(sizes) != 4:
            raise DataError(f"hidden_sizes must be four integers; got {sizes!r:.60}")
        for size in sizes:
            check_number("hidden_sizes", size, low=1, integer=True)

    # ------------------------------------------------------------------ the autoencoders
    def _fit_seen(
        self, X: NDArray[Any], codes: NDArray[np.intp], attributes: NDArray[np.float64]
    ) -> ClassRows:
        self._apply({})
        self._train_encoders(Seen(X, codes, attributes))
        self._keep_latents(X, codes, self.n_seen_samples)
        return self._embed_classes(attributes)

    def _train_encoders(self, seen: Seen) -> None:
        """Train both autoencoders on rows and raw attributes; their decoders are not kept."""
        self.seed_, device = self._start()
        rows = map_rows(seen.X, self.feature_map)
        self.low_ = rows.min(axis=0).astype(np.float64)
        span = rows.max(axis=0) - self.low_
        self.span_ = np.where(span > 0, span, 1.0)
        attributes = self._map_attributes(seen.attributes)
        pair = _Autoencoders(self, (rows.shape[1], attributes.shape[1]), device)
        seen = Seen(rows, seen.codes, attributes)
        loss = _AlignmentLoss(pair, seen, self)
        steps, rate = [self.n_epochs * loss.per_epoch], self.learning_rate
        report = self._progress
        for _ in minimise(pair.weights, loss, steps, rate, 0.0, None, report, amsgrad=True):
            names = self._feature_encoder, self._attribute_encoder
            for name, tensor in zip(sum(names, ()), pair.encoders, strict=True):
                setattr(self, name, to_numpy(tensor))

    def _scaled(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Bring mapped features (n, D) to where those of the training rows lie from 0 to 1."""
        scaled: NDArray[Any] = (rows - self.low_) / self.span_
        return scaled

    def _map_features(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the means (n, k) of the latents of features (n, D)."""
        return self._encode(self._scaled(super()._map_features(X)), self._feature_encoder)[0]

    def _encode(
        self, rows: NDArray[Any], encoder: Sequence[str]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return means and log-variances (n, k) of rows that are mapped and scaled."""
        w1, b1, w2, b2 = (getattr(self, name) for name in encoder)
        found = np.maximum(rows @ w1.T + b1, 0.0) @ w2.T + b2
        n_latent = found.shape[1] // 2
        return found[:, :n_latent], found[:, n_latent:]

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassRows:
        """Return the Gaussians of classes; weights of the softmax are 0 until it is trained."""
        with np.errstate(over="ignore", invalid="ignore"):
            means, log_variances = self._encode(rows, self._attribute_encoder)
            variances = np.exp(log_variances)
        largest = np.maximum(np.abs(means), variances).max(initial=0.0)
        if not largest < _LARGEST:
            raise DataError(
                f"the attributes of a class lead to a latent of {largest:.0e}; numbers like those "
                "of the seen classes are expected"
            )
        return {
            "embedding": means,
            "variance": variances,
            "weights": np.zeros_like(means),
            "bias": np.zeros(len(means)),
        }

    def _keep_latents(self, X: NDArray[Any], codes: NDArray[np.intp], n_rows: int) -> None:
        """Keep the Gaussians of the first rows of each class, in the order of classes."""
        order = np.argsort(codes, kind="stable")
        counts = np.bincount(codes)
        rank = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
        kept = order[rank < n_rows]
        found = []
        for part in batches(len(kept)):
            rows = self._scaled(map_rows(X[kept[part]], self.feature_map))
            found.append(np.hstack(self._encode(rows, self._feature_encoder)))
        means, log_variances = np.hsplit(np.concatenate(found, dtype=np.float32), 2)
        self.means_, self.log_variances_ = means.copy(), log_variances.copy()
        self.codes_ = codes[kept]

    # ------------------------------------------------------------------ the softmax
    def _retrained(self, table: ClassTable) -> ClassTable:
        ((_, learned),) = self._train_softmax(table, [self.classifier_epochs], self._progress)
        return learned

    def _train_softmax(
        self, table: ClassTable, stops: Sequence[int], progress: Progress | None = None
    ) -> Iterator[tuple[int, ClassTable]]:
        """Train on latents of all classes; at each of the ascending epochs yield it and the table.

        What is learned depends on the classes and their order alone, not on how they came.
        """
        import torch

        device = torch_device(self.device)
        latents, codes = self._draw_latents(table)
        generator = torch.Generator().manual_seed(self.seed_)
        initial = linear_layer(latents.shape[1], len(table.labels), generator)
        loss = _SoftmaxLoss(latents, codes, trainable(initial, device), self.seed_)
        steps = [stop * loss.per_epoch for stop in stops]
        rows = {
            name: np.concatenate([table.seen[name], table.added_rows[name]])
            for name in ("embedding", "variance")
        }
        rates = (self.classifier_rate, 0.0, None, progress)
        for step in minimise(loss.weights, loss, steps, *rates, betas=_CLASSIFIER_BETAS):
            weights, bias = map(to_numpy, loss.weights)
            yield (
                step // loss.per_epoch,
                table.with_rows({**rows, "weights": weights, "bias": bias}),
            )

    def _draw_latents(self, table: ClassTable) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
        """Draw latents (n, k) of all classes, and their classes (n,) by the row in the table."""
        counts = np.bincount(self.codes_)
        rank = np.arange(self.n_seen_samples) % np.minimum(counts, self.n_seen_samples)[:, None]
        rows = ((np.cumsum(counts) - counts)[:, None] + rank).ravel()
        added = np.repeat(np.arange(len(table.added_classes)), self.n_unseen_samples)
        means = np.concatenate([self.means_[rows], table.added_rows["embedding"][added]])
        spreads = [np.exp(self.log_variances_[rows]), table.added_rows["variance"][added]]
        noise = np.random.default_rng([self.seed_, 1]).standard_normal((len(means), 1))
        codes = np.concatenate([self.codes_[rows], table.n_seen + added])
        return (means + np.concatenate(spreads) * noise).astype(np.float32), codes

    def _score(self, X: NDArray[Any], table: ClassRows, seen: bool) -> NDArray[Any]:
        scores: NDArray[Any] = X @ table["weights"].T + table["bias"]
        return scores

    # ------------------------------------------------------------------ selection
    def score_grid(
        self, grid: Sequence[Setting], fold: Fold, progress: Progress | None = None
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Train the autoencoders once for what they read, the softmax once for all its epochs."""
        model: CADAVAEClassifier = clone(self).on_progress(progress)
        model.n_features_in_ = fold.X_eval.shape[1]
        settings, done = model._whole(grid), 0
        for group in group_settings(settings, self._late):
            model._apply(settings[group[0]])
            table = model._fit_encoders(fold)
            X = fold.X_eval
            mapped = np.concatenate([model._map_features(X[part]) for part in batches(len(X))])
            alike = [settings[index] for index in group]
            for run in group_settings(alike, ["classifier_epochs"]):
                stops: dict[int, list[int]] = {}
                for place in run:
                    model._apply(alike[place])
                    stops.setdefault(model.classifier_epochs, []).append(group[place])
                for stop, learned in model._train_softmax(table, sorted(stops)):
                    groups = ((learned.seen, True), (learned.added_rows, False))
                    scores = [model._score(mapped, rows, seen) for rows, seen in groups]
                    for index in stops[stop]:
                        done += 1
                        yield index, np.concatenate(scores, axis=1)
                        if progress is not None:
                            progress("select", done, len(grid), {})

    def _fit_encoders(self, fold: Fold) -> ClassTable:
        """Train on a fold all but the softmax; return the table of its classes, new ones added."""
        if not isinstance(fold.training, Instances):
            raise self._needs_rows()
        X, codes = fold.training
        self._train_encoders(Seen(X, codes, fold.attributes))
        self._keep_latents(X, codes, len(X))
        rows = self._embed_classes(fold.attributes)
        table = ClassTable.of(fold.classes, fold.attributes, rows)
        new = self._embed_classes(fold.new_attributes)
        return table.add(fold.new_classes, fold.new_attributes, new)


class _Autoencoders:
    """Both autoencoders while they train; part 0 is that of features, part 1 that of attributes."""

    def __init__(self, settings: CADAVAEClassifier, widths: Sequence[int], device: str) -> None:
        import torch

        generator = torch.Generator().manual_seed(settings.seed_)
        n_latent, sizes = settings.n_latent, settings.hidden_sizes
        layers: list[torch.Tensor] = []
        for width, size in zip(widths, sizes[::2], strict=True):
            layers += linear_layer(width, size, generator)
            layers += linear_layer(size, n_latent, generator, n_layers=2)
        for width, size in zip(widths, sizes[1::2], strict=True):
            layers += linear_layer(n_latent, size, generator)
            layers += linear_layer(size, width, generator)
        self.weights = trainable(layers, device)
        self.encoders = self.weights[:8]

    def encode(self, rows: torch.Tensor, part: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return means and log-variances (n, k) of rows (n, D)."""
        found = two_layers(rows, self.weights[4 * part : 4 * part + 4], "relu", "linear")
        means, log_variances = found.chunk(2, dim=1)
        return means, log_variances

    def decode(self, latents: torch.Tensor, part: int) -> torch.Tensor:
        """Return the rows (n, D) of latents (n, k)."""
        start = 8 + 4 * part
        return two_layers(latents, self.weights[start : start + 4], "relu", "linear")


class _AlignmentLoss(FedLoss):
    """The loss of a batch of rows drawn at random, under the weights of its epoch."""

    def __init__(self, pair: _Autoencoders, seen: Seen, settings: CADAVAEClassifier) -> None:
        import torch

        self.pair, self.seen, self.settings = pair, seen, settings
        self.size = min(settings.batch_size, len(seen.X))
        self.per_epoch = -(-len(seen.X) // settings.batch_size)
        self.rng = np.random.default_rng(settings.seed_)
        like = pair.weights[0].detach()
        self.features = like.new_empty(self.size, seen.X.shape[1])
        self.attributes = like.new_empty(self.size, seen.attributes.shape[1])
        self.noise = like.new_empty(2 * self.size, 1)
        self.factors = like.new_empty(3)
        self.class_rows = torch.tensor(seen.attributes, dtype=torch.float32)

    def feed(self, step: int) -> int:
        import torch

        settings = self.settings
        own = self.rng.choice(len(self.seen.X), self.size, replace=False)
        own.sort()  # rows are read in the order they lie
        rows = settings._scaled(np.asarray(self.seen.X[own], dtype=np.float64))
        self.features.copy_(torch.from_numpy(rows))
        self.attributes.copy_(self.class_rows[torch.from_numpy(self.seen.codes[own])])
        self.noise.copy_(torch.from_numpy(self.rng.standard_normal((2 * self.size, 1))))
        full = (settings.divergence, settings.cross_reconstruction, settings.distance)
        shares = warm_up(step // self.per_epoch / settings.n_epochs)
        self.factors.copy_(torch.tensor(full) * torch.tensor(shares))
        return self.size

    def loss(self) -> torch.Tensor:
        import torch

        rows = (self.features, self.attributes)
        gaussians = [self.pair.encode(part, place) for place, part in enumerate(rows)]
        means, log_variances = (torch.cat(found) for found in zip(*gaussians, strict=True))
        latents = drawn(means, log_variances, self.noise)
        own, crossed = self.factors.new_zeros(2)
        for place, part in enumerate(rows):
            errors = (self.pair.decode(latents, place) - part.repeat(2, 1)).abs()
            sums = errors.sum(dim=1).reshape(2, -1).sum(dim=1)  # by where the latent came from
            own, crossed = own + sums[place], crossed + sums[1 - place]
        beta, gamma, delta = self.factors
        aligned = wasserstein_distances(gaussians[0], gaussians[1]).sum()
        kl = divergences(means, log_variances).sum()
        loss: torch.Tensor = own + beta * kl + gamma * crossed + delta * aligned
        return loss


class _SoftmaxLoss(FedLoss):
    """The cross-entropy of a batch of latents, in a new order each epoch."""

    def __init__(
        self,
        latents: NDArray[np.float32],
        codes: NDArray[np.intp],
        weights: list[torch.Tensor],
        seed: int,
    ) -> None:
        import torch

        self.weights, self.rng = weights, np.random.default_rng([seed, 2])
        device = weights[0].device
        self.latents = torch.from_numpy(latents).to(device)
        self.codes = torch.from_numpy(codes).to(device)
        self.size = min(_CLASSIFIER_BATCH, len(codes))
        self.per_epoch = len(codes) // self.size
        self.order = self.codes
        self.own = self.codes[: self.size].clone()
        self.rows = self.latents[: self.size].clone()

    def feed(self, step: int) -> int:
        import torch

        start = step % self.per_epoch * self.size
        if start == 0:
            self.order = torch.from_numpy(self.rng.permutation(len(self.codes))).to(
                self.codes.device
            )
        here = self.order[start : start + self.size]
        self.rows.copy_(self.latents[here])
        self.own.copy_(self.codes[here])
        return self.size

    def loss(self) -> torch.Tensor:
        from torch.nn.functional import cross_entropy, linear

        return cross_entropy(linear(self.rows, *self.weights), self.own)


def linear_layer(
    n_inputs: int, n_outputs: int, generator: torch.Generator, n_layers: int = 1
) -> list[torch.Tensor]:
    """Draw weights by half of Glorot's rule, biases 0; of several layers one below the other."""
    import torch

    bound = 0.5 * math.sqrt(6.0 / (n_inputs + n_outputs))
    weights = uniform((n_layers * n_outputs, n_inputs), bound, generator)
    return [weights, torch.zeros(n_layers * n_outputs)]


def warm_up(done: float) -> list[float]:
    """Return which shares of β, γ and δ are in force after a share of the epochs.

    Examples
    --------
    >>> [round(share, 2) for share in warm_up(0.48)]
    [0.52, 0.5, 1.0]
    """
    return [min(max((done - start) / (end - start), 0.0), 1.0) for start, end in _WARM_UPS]


def drawn(means: torch.Tensor, log_variances: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Return latents (n, k) by one number of noise (n, 1) per row, as the released code does."""
    return means + log_variances.exp() * noise


def divergences(means: torch.Tensor, log_variances: torch.Tensor) -> torch.Tensor:
    """Return the Kullback-Leibler divergence (n,) of Gaussians (n, k) from the standard one."""
    return 0.5 * (means.square() + log_variances.exp() - log_variances - 1.0).sum(dim=1)


def wasserstein_distances(first: Gaussians, second: Gaussians) -> torch.Tensor:
    """Return the 2-Wasserstein distances (n,) of Gaussians of diagonal covariance."""
    squares = (first[0] - second[0]).square()
    squares = squares + ((0.5 * first[1]).exp() - (0.5 * second[1]).exp()).square()
    return (squares.sum(dim=1) + _SMALLEST).sqrt()
