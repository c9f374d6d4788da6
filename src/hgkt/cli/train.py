"""`hgkt train`: fit a method on photographs, texts, a data set or shards, and save the model."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hgkt._plain import short
from hgkt._typing import Progress
from hgkt.cli._inputs import load_model
from hgkt.cli._options import DataOptions, EngineOptions, MethodOptions, with_options
from hgkt.cli._output import counted, emit, left_out, left_out_lines, listed, note, progress_bar
from hgkt.exceptions import DataError, ModelFolderError

if TYPE_CHECKING:
    from hgkt.calibration import Costs
    from hgkt.estimators import GZSLClassifier
    from hgkt.evaluation import Fitted
    from hgkt.items import Training
    from hgkt.serving.transfer import Left

_SELECT_FROM, _CALIBRATE_FROM = 12, 6  # classes of two items or more; see `fit_dataset`


@dataclass(frozen=True)
class SourceOptions:
    """What to train on: photographs, texts or a data set, and classes; one field per option.

    Parameters
    ----------
    images : DIR
        Photos: one sub-folder per class, or a manifest.
    texts : FILE
        Instead of photos texts: a table of text and class (.csv, .parquet, .jsonl).
    data : NAME, default digits
        Instead of photos a data set: a name of `hgkt datasets list`, or a path.
    attributes : FILE, default the names of the classes; att
        Photos, texts: table of name and description, or numbers (.csv, .parquet), also of `hgkt
        describe`. Data set: att, original_att, NAME of a NAME_splits.mat, a file, a+b.
    features : NAME, default efficientnet-lite0; minilm; res101, or the only one
        Photos: image network, see `hgkt extract`; one with two towers (CLIP, SigLIP) also reads the
        descriptions. Texts: sentence encoder, minilm, a folder (of sentence-transformers, CLIP or
        SigLIP), or a hub name. Data set: feature file of an xlsa17 folder, without .mat.
    """

    images: Path | None = None
    texts: Path | None = None
    data: str | None = None
    attributes: Annotated[str | None, typer.Option("--classes", "--attributes")] = None
    features: Annotated[str | None, typer.Option("--backbone", "--encoder", "--features")] = None

    @property
    def items(self) -> str | None:
        """The option of raw items, if one was given: "images" or "texts"."""
        return next((name for name in ("images", "texts") if getattr(self, name)), None)

    @property
    def dataset(self) -> DataOptions:
        """The data set, where it is one."""
        return DataOptions(self.data or "digits", None, self.features, self.attributes or "att")


@dataclass
class _Trained:
    """What came out of a training.

    Parameters
    ----------
    fitted : Fitted
        The model, and what was chosen on validation classes.
    about : dict
        What made features and attributes.
    unseen, described : dict
        Attributes of the classes that have test rows only, and of those that have none at all.
    report : dict
        What JSON says of the data, the items or the shards.
    """

    fitted: Fitted
    about: dict[str, Any]
    unseen: dict[str, Any]
    described: dict[str, Any]
    report: dict[str, Any]


@dataclass
class _Run:
    """One training: what the user asked, and what is on disk meanwhile.

    Parameters
    ----------
    source, options, engine
        What the command line says.
    out_path : Path
        Where the model goes.
    given : Path or None
        Where an unfinished training is kept for good, if the user said so.
    """

    source: SourceOptions
    options: MethodOptions
    engine: EngineOptions
    out_path: Path
    given: Path | None
    method: str = ""
    network_file: Path | None = None  # the state of a network
    rows_folder: Path | None = None  # features of items, or sums of shards
    in_shards: bool = False
    resumed: bool = False

    def check(self) -> None:
        """Refuse what does not go together, and say where files go; nothing is read."""
        from hgkt.estimators.model_folder import saved_name

        source, items = self.source, self.source.items
        others: dict[str, Any] = {"data": source.data, "engine": self.engine.engine}
        others |= {"texts": source.texts} if items == "images" else {"workers": self.engine.workers}
        for name, value in others.items():
            if items is not None and value is not None:
                raise DataError(f"--{name} and --{items} do not go together")
        estimator = self.options.check()
        self.method = saved_name(estimator)  # one that cannot be saved is refused right away
        in_steps = hasattr(estimator, "write_to")
        self.in_shards = items is None and self._asks_for_shards(estimator, in_steps)
        if self.given is not None and not (items or in_steps or self.in_shards):
            raise DataError(
                "--checkpoint is for photos, for texts, for folders read in shards, and for "
                "methods that train a network in steps (--preset paper)"
            )
        place = self.out_path.absolute()
        if items is not None:
            self.rows_folder = self.given or place.with_name(f"{place.name}.partial")
        elif not in_steps:
            self.rows_folder = self.given
        if in_steps:
            own = self.given if items is None else None
            self.network_file = own or place.with_name(f"{place.name}.checkpoint")

    def _asks_for_shards(self, estimator: GZSLClassifier, in_steps: bool) -> bool:
        """Say whether rows are not to be read into memory.

        A folder that `load_dataset` cannot read is in shards. Any other is read so where a method
        that learns from sums has a checkpoint, or an option of shards is given.
        """
        from hgkt.data import DATASETS, find_folder, has_shards

        data = self.source.dataset.data
        if data in DATASETS:
            if self.engine.are_given:
                raise DataError(
                    "--engine and --workers are for photos and for a folder that is read in "
                    f"shards; {data!r} is none"
                )
            return False
        one_file = Path(data).suffix == ".parquet"
        place = Path(data) if one_file else find_folder(data)
        asked = self.engine.are_given or (self.given is not None and not in_steps)
        in_shards = asked or one_file or has_shards(place)
        if in_shards and not hasattr(estimator, "fit_batches"):
            estimator.gather_options()  # a method that needs the rows in memory is refused here
        return in_shards

    # ------------------------------------------------------------------ the three ways
    def train(self) -> _Trained:
        """Read the data and fit."""
        for path in self.kept():
            note(f"resuming from {path}")
            self.resumed |= path == self.network_file
        with progress_bar() as progress:
            if self.source.items is not None:
                return self._train_on_items(self.source.items, progress)
            return (self._train_on_shards if self.in_shards else self._train)(progress)

    def _train_on_items(self, items: str, progress: Progress) -> _Trained:
        from hgkt import train_on_images, train_on_texts

        source, options = self.source, self.options
        asked: dict[str, Any] = {
            **options.choices(),
            "select": "auto" if options.select is None else options.select,
            "classes": source.attributes,
            "estimator": self._estimator,
            "device": options.device,
            "progress": progress,
            "cache": self.rows_folder,
        }
        if source.features is not None:
            asked["backbone" if items == "images" else "encoder"] = source.features
        train: Any = train_on_texts
        if items == "images":
            train, asked["workers"] = train_on_images, self.engine.workers or 0
        model = train(getattr(source, items), **asked)
        made: Training = model.training_
        report = _item_report(made, model.about)
        return _Trained(made.fitted, model.about, made.unseen, made.described, report)

    def _train(self, progress: Progress) -> _Trained:
        from hgkt.evaluation import fit_dataset

        dataset = self.source.dataset.load()
        choices = self.options.choices()
        fitted = fit_dataset(self._estimator(dataset), dataset, **choices, progress=progress)
        unseen = dataset.attributes_of(dataset.unseen_classes)
        described = dataset.attributes_of(dataset.described_classes)
        report = {"data": dataset.name, "n_instances": len(dataset.train)}
        return _Trained(fitted, dataset.provenance(), unseen, described, report)

    def _train_on_shards(self, progress: Progress) -> _Trained:
        from hgkt.data import open_shards
        from hgkt.evaluation import Fitted, fit_gathered, gather

        source = self.source.dataset
        data = open_shards(source.data, None, source.features, source.attributes)
        if not data.class_attributes:
            raise DataError(
                f"{source.data} has no table of classes (classes.csv or classes.parquet) beside "
                "its shards; the attributes of each class are expected there"
            )
        seen = {name: data.class_attributes[name] for name in data.class_counts}
        estimator, choices, n_kept = self._estimator(data), self.options.choices(), 0
        if hasattr(estimator, "fit_batches"):
            if self.options.select or self.options.calibrate:
                raise DataError(
                    "--select and --calibrate of a network need its rows in memory; leave them out"
                )
            network: Any = estimator.on_progress(progress)
            network.fit_batches(lambda: chain.from_iterable(s.batches() for s in data.shards), seen)
            fitted = Fitted(network.on_progress(None))
        else:
            statistics = gather(
                data,
                **estimator.gather_options(select=choices["select"]),
                **self.engine.engine_and_address(),
                workers=self.engine.workers,
                seed=self.options.seed,
                checkpoint=self.rows_folder,
                progress=progress,
            )
            n_kept, published = len(statistics.rows()[1]), bool(data.folds)
            fitted = fit_gathered(
                estimator, statistics, seen, **choices, published=published, progress=progress
            )
        read = {"n_shards": len(data.shards), "n_rows_kept": n_kept, "checkpoint": self.rows_folder}
        n_rows = sum(data.class_counts.values())
        report = {"data": data.name, "n_instances": n_rows, "gathered": read}
        about = data.provenance()
        return _Trained(fitted, about, data.unseen_classes, data.described_classes, report)

    def _estimator(self, dataset: Any) -> GZSLClassifier:
        estimator: Any = self.options.estimator(dataset)
        if self.network_file is not None:
            estimator.write_to(checkpoint=self.network_file)
        return estimator

    # ------------------------------------------------------------------ what is on disk
    def kept(self) -> list[Path]:
        """Return where an unfinished training is kept, as far as it is there."""
        return [path for path in (self.network_file, self.rows_folder) if path and path.exists()]

    def clear(self) -> None:
        """Delete what is needed no more once the model is saved."""
        for path in self.kept():
            if path.is_file() and path != self.given:
                path.unlink()
            elif path != self.given:
                shutil.rmtree(path, ignore_errors=True)


@with_options
def train_command(
    source: SourceOptions,
    out_path: Annotated[Path, typer.Option("--out")],
    with_unseen: bool = False,
    *,
    options: MethodOptions,
    overwrite: bool = False,
    carry: Annotated[bool, typer.Option("--carry-classes")] = False,
    checkpoint: Path | None = None,
    engine: EngineOptions,
) -> None:
    """Train on photos, on texts or on a data set, and save the model folder.

    Classes without rows, photos or texts are added by their description. An interrupted reading of
    photos or texts, or training of the network, goes on with the same command. A folder of shards
    (many Parquet files, .npy pairs) of any size is read once and never held in memory; with
    --checkpoint that goes on, too.

    Example: hgkt train --images photos --classes classes.csv --out photo-model

    Example: hgkt train --texts sentences.csv --classes intents.csv --out text-model

    Example: hgkt train --data digits --select --with-unseen --out digits-model

    Example: hgkt train --data shards --checkpoint sums --select --out big-model

    Parameters
    ----------
    out_path : MODEL
        Folder to write.
    with_unseen
        Add unseen classes that have test rows, too.
    overwrite
        Replace a model that is there.
    carry
        Replace it, and keep the classes that were added to it.
    checkpoint : PATH, default beside MODEL, deleted once it is saved; of shards: nowhere
        Where an unfinished training is kept, and stays for the next one. Photos, texts: folder
        of their features. Shards: folder of their sums. Network: file.
    """
    start = time.perf_counter()
    run = _Run(source, options, engine, out_path, checkpoint)
    run.check()
    old = _check_replaced(out_path, overwrite, carry)
    try:
        made = run.train()
    except KeyboardInterrupt:
        state = "nothing was saved"
        if kept := run.kept():
            state = f"{kept[0]} holds the state: run the same command again to resume"
        note(f"interrupted; {state}")
        raise typer.Exit(130) from None
    fitted, model = made.fitted, made.fitted.model
    present = set(model.classes_.tolist())  # of photos, those that are described are among them
    added = made.unseen if with_unseen else made.described
    model.add_classes({name: row for name, row in added.items() if name not in present})
    moving, unfit = _carry_classes(old, model, made.about, out_path)
    costs = model.costs(0, model.n_added_)
    found = {"chosen": fitted.chosen, "validation": fitted.validation}
    model.save(out_path, **{**made.about, "selected": fitted.selected, **found})
    run.clear()
    document = {
        "model": out_path,
        **made.report,
        "n_seen_classes": len(model.seen_classes_),
        "n_added_classes": len(model.unseen_classes_),
        "described": list(made.described),
        "carried": [] if unfit else moving,
        "not_carried": [*(left.name for left in unfit), *moving] if unfit else [],
        **found,
        "gamma": model.gamma_,
        "costs": costs,
        "parameters": model.get_params(deep=False),
        "method": run.method,
        "preset": options.preset,
        "seed": options.seed,
        "resumed": run.resumed,
        "seconds": time.perf_counter() - start,
    }
    emit(document, *_lines(document, costs, unfit))


def _item_report(training: Training, about: dict[str, Any]) -> dict[str, Any]:
    """Return what JSON says about photographs or texts."""
    encoder = about.get("text_encoder") or about.get("encoder") or {}
    return {
        "items": "photos" if "backbone" in about else "texts",
        "data": training.data,
        "n_instances": training.n_items,
        "backbone": about.get("backbone", {}).get("name"),
        "text_encoder": encoder.get("name"),
        **{name: about[name] for name in ("shares_space", "attribute_kinds", "attribute_names")},
        "n_from_cache": training.n_resumed,
        "n_cut": training.n_cut,
        "n_classes_to_choose_on": training.n_pairs,
        "passed_over": training.passed_over,
        "unreadable": left_out(training.unreadable),
    }


# ---------------------------------------------------------------------- a model that is replaced
def _check_replaced(path: Path, overwrite: bool, carry: bool) -> GZSLClassifier | None:
    """Refuse a place for a model that is taken; return the model whose classes are carried."""
    from hgkt.estimators.model_folder import check_model_place

    check_model_place(path)
    is_there = path.is_dir() and any(path.iterdir())
    if is_there and not (overwrite or carry):
        raise ModelFolderError(
            f"{path} holds a model already; --overwrite replaces it and drops the classes that "
            "were added to it, --carry-classes replaces it and keeps them"
        )
    return load_model(path) if is_there and carry else None


def _carry_classes(
    old: GZSLClassifier | None, new: GZSLClassifier, about: dict[str, Any], where: Path
) -> tuple[list[str], Sequence[Left]]:
    """Add the classes that were added to an old model; return them, and those that do not fit."""
    if old is None:
        return [], []
    from hgkt.serving.transfer import carry_classes

    carried = carry_classes(old, new, about, where)
    new.set_parents({**old.parents_, **new.parents_})
    for left in carried.left_examples:
        note(f"what {left.name} learned from examples is not carried along: {left.reason}")
    return [entry.name for entry in carried.moving], carried.unfit


# ---------------------------------------------------------------------- what is said
def _lines(document: dict[str, Any], costs: Costs | None, unfit: Sequence[Left]) -> list[str]:
    """Return what is said of a training."""
    validation, n_added = document["validation"], document["n_added_classes"]
    items = f"{document['n_instances']} {document.get('items', 'instances')}"
    added = f", {counted(n_added, 'class')} added" if n_added else ""
    lines = [
        f"{document['method']} on {document['data']}: {items} of "
        f"{counted(document['n_seen_classes'], 'class')}{added}, {document['seconds']:.1f} s"
    ]
    if (read := document.get("gathered")) is not None:
        kept = f"; {read['n_rows_kept']} rows kept to choose on" if read["n_rows_kept"] else ""
        sums = f"; the sums are in {read['checkpoint']}" if read["checkpoint"] else ""
        lines.append(f"read in {counted(read['n_shards'], 'shard')}{kept}{sums}")
    if document["described"]:
        lines.append(f"known by description alone: {listed(document['described'])}")
    if validation is not None:
        chosen = dict(document["chosen"])
        if chosen.pop("calibration", None) is not None:
            chosen["γ"] = document["gamma"]
        words = ", ".join(f"{name}={short(value)}" for name, value in chosen.items())
        lines.append(
            f"chosen on {validation['n_folds']} {validation['folds']} class folds "
            f"({validation['metric']} {validation['score']:.1f}): {words}"
        )
    if costs is not None:
        lines.append(costs.sentence())
    if "items" in document:
        lines += _item_lines(document, document["items"].removesuffix("s"))
    if document["carried"]:
        lines.append(f"carried over from the old model: {listed(document['carried'])}")
    if unfit:
        reason = f"{unfit[0].name}: {unfit[0].reason}"
        lines.append(f"not carried over: {listed(document['not_carried'])}, since {reason}")
    return [*lines, f"saved to {document['model']}"]


def _item_lines(document: dict[str, Any], noun: str) -> list[str]:
    from hgkt.vision.listing import passed_over_text

    lines, n_pairs = [], document["n_classes_to_choose_on"]
    if document["attribute_names"]:
        lines.append(f"classes are told by the numbers {listed(document['attribute_names'])}")
    if n_pairs < _CALIBRATE_FROM:
        lines.append(
            f"too few classes with two {noun}s or more ({n_pairs}): {_SELECT_FROM} are needed to "
            f"choose settings, {_CALIBRATE_FROM} for the calibration; the defaults are used"
        )
    if document["n_cut"]:
        what = "descriptions" if noun == "photo" else "texts"
        lines.append(f"{document['n_cut']} {what} are longer than the encoder reads and were cut")
    if document["passed_over"]:
        lines.append(passed_over_text(document["passed_over"]))
    return lines + left_out_lines(document["unreadable"], noun, "")
