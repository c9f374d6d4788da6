"""The command `hgkt datasets`: list, check, convert and download data sets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape

from hgkt.cli._options import command_of
from hgkt.cli._output import emit, note, out, progress_bar, show_table
from hgkt.data import DATASETS, GZSLDataset, data_root, find_folder, load_dataset
from hgkt.data.catalog import CATALOG, find_facts
from hgkt.exceptions import DataError, HGKTError

app = typer.Typer(help="List, check, convert and download data sets.", no_args_is_help=True)

Layout = Literal["parquet", "csv", "npz", "npy", "xlsa17"]
_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}


@dataclass(frozen=True)
class SourceOptions:
    """How a data set is read; one field per option.

    Parameters
    ----------
    features
        Feature file, without suffix; found by itself if left out.
    """

    root: Path | None = None
    features: str | None = None
    attributes: str = "att"

    def found(self, name: str | None) -> list[tuple[str | Path, str | None]]:
        """Return what to read, each with a feature file; None stands for the one in its tables.

        That is a registered name, one folder, or every folder under the root.
        """
        base = data_root(self.root)
        places: list[str | Path] = [*_dataset_folders(base)]
        if name is not None:
            places = [name if name in DATASETS else find_folder(name, self.root)]
        elif base is None:
            raise DataError("say what to check: give a name, --root, or set HGKT_DATA")
        elif not places:
            raise DataError(f"{base} holds no folder of a data set (att_splits.mat, or two tables)")
        return [
            (place, file)
            for place in places
            for file in ([self.features] if self.features else _feature_files(place))
        ]

    def load(self, place: str | Path, file: str | None) -> GZSLDataset:
        """Load a data set as it is, unchecked."""
        return load_dataset(place, self.root, file, self.attributes, validate=False)

    def report(self, place: str | Path, file: str | None) -> dict[str, Any]:
        """Return what there is to say of a data set."""
        from hgkt.data import Finding, check_dataset, check_splits

        report: dict[str, Any] = {"name": Path(place).name, "features": file}
        try:
            if file is None and isinstance(place, Path) and _is_benchmark(place):
                summary, findings = check_splits(place, self.attributes)
                report |= {"attributes": self.attributes, "summary": summary}
                return report | {"findings": findings}
            data = self.load(place, file)
        except HGKTError as error:
            return report | {"findings": [Finding("error", str(error))]}
        report |= {"attributes": data.about.get("attributes"), "findings": check_dataset(data)}
        if not _has_errors(report):
            report |= {"summary": data.summary(), "fingerprint": data.fingerprint()}
        return report


@command_of(app, "list")
def list_(root: Path | None = None) -> None:
    """Show the data sets that come with hgkt, that lie under --root, and that can be fetched.

    Example: hgkt datasets list --root data
    """
    rows = [(name, entry.family, entry.summary) for name, entry in DATASETS.items()]
    folders = _dataset_folders(data_root(root))
    for folder in folders:
        files = ", ".join(filter(None, _feature_files(folder))) or "none"
        kind = f"features: {files}" if _is_benchmark(folder) else "tables"
        rows.append((folder.name, str(folder), kind))
    here = {folder.name.upper() for folder in folders}
    for facts in CATALOG.values():
        if facts.name not in here:
            classes = f"{facts.n_seen_classes}+{facts.n_unseen_classes} classes"
            what = f"{classes}, {facts.n_attributes} attributes; {facts.citation}"
            rows.append((facts.name, "download" if facts.mirrors else "by hand", what))
    entries = [dict(zip(("name", "where", "summary"), row, strict=True)) for row in rows]
    emit({"datasets": entries}, lambda: show_table(("name", "where", "what"), rows))


@command_of(app)
def check(name: Annotated[str | None, typer.Argument()] = None, *, source: SourceOptions) -> None:
    """Look data sets over: counts, leaks, attributes, features, folds, split fingerprint.

    The exit code is 1 if one of them cannot be used.

    Example: hgkt datasets check CUB --root data

    Parameters
    ----------
    name
        Name or path; every folder under --root if left out.
    """
    reports = [source.report(place, file) for place, file in source.found(name)]
    failed = any(map(_has_errors, reports))

    def render() -> None:
        for report in reports:
            title = " ".join(str(report[key]) for key in ("name", "features") if report[key])
            out.print(f"[bold]{escape(title)}[/bold]")
            for finding in report["findings"]:
                mark = f"[{_STYLES[finding.level]}]{finding.level:>8}[/]"
                out.print(f"{mark}  {escape(finding.sentence)}", soft_wrap=True)

    emit({"ok": not failed, "datasets": reports}, render)
    if failed:
        raise typer.Exit(1)


@command_of(app)
def convert(
    source: Annotated[str, typer.Argument()],
    target: Annotated[Path, typer.Argument()],
    to: Layout = "parquet",
    *,
    how: SourceOptions,
) -> None:
    """Turn a data set of any layout into tables, or into the benchmark's layout.

    Example: hgkt datasets convert my-tables my-mat --to xlsa17

    Parameters
    ----------
    source
        Name or path of the data set to read.
    target
        Folder to write; must not exist, or be empty.
    to
        What to write.
    """
    from hgkt.data import write_tables, write_xlsa17

    found = how.found(source)
    if len(found) > 1:
        raise DataError(
            f"{source} has several feature files ({', '.join(str(file) for _, file in found)}); "
            "choose with --features"
        )
    data = how.load(*found[0])
    if to == "xlsa17":
        write_xlsa17(data, target)
    else:
        write_tables(data, target, format=to)
    document = {"path": target, "layout": to, **data.summary(), **data.fingerprint()}
    what = f"{len(data.features)} rows and {len(data.class_names)} classes of {data.name}"
    emit(document, f"wrote {what} to {target} ({to})")


@command_of(app)
def download(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(CATALOG)}.")],
    root: Path | None = None,
    mirror: list[str] | None = None,
    sha256: str | None = None,
) -> None:
    """Fetch a data set of the benchmark; a transfer that broke off is taken up again.

    Further mirrors are read from $HGKT_MIRRORS.

    Example: hgkt datasets download CUB --root data

    Parameters
    ----------
    mirror
        Address to try first; repeatable.
    sha256
        Checksum of the archive.
    """
    from hgkt.data import download_dataset

    base = data_root(root)
    if base is None:
        raise DataError("say where to put the data set: give --root or set HGKT_DATA")
    facts = find_facts(name)
    if facts is not None:
        note(f"{facts.citation}; {facts.terms}: {facts.homepage}")
    with progress_bar() as bar:
        path = download_dataset(
            name,
            base,
            mirrors=mirror or (),
            sha256=sha256,
            progress=lambda done, total: bar("download", done, total or done, {}),
        )
    emit({"name": path.name, "path": path}, path)


def _has_errors(report: dict[str, Any]) -> bool:
    return any(finding.level == "error" for finding in report["findings"])


# ---------------------------------------------------------------------- folders and files
def _dataset_folders(base: Path | None) -> list[Path]:
    if base is None or not base.is_dir():
        return []
    return [path for path in sorted(base.iterdir()) if _is_benchmark(path) or _has_tables(path)]


def _is_benchmark(folder: Path) -> bool:
    return (folder / "att_splits.mat").is_file()


def _has_tables(folder: Path) -> bool:
    return any(folder.glob("classes.*")) and any(folder.glob("samples.*"))


def _feature_files(source: str | Path) -> list[str | None]:
    """Return the feature files of a folder in the benchmark's layout; None stands for "none"."""
    if isinstance(source, str) or not _is_benchmark(source):
        return [None]
    from hgkt.data.xlsa17 import feature_files

    return [*feature_files(source)] or [None]
