"""The options of `hgkt train --images`, and what they read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hgkt._typing import Progress
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.items import Photos

# How long the stages take on a CPU; a bar over all of them is drawn by it.
STAGES = {"encode": 0.05, "extract": 0.75, "select": 0.2}
_PANEL = "Photos"
_NOT_WITH_IMAGES = ("data", "root", "features", "attributes", "engine", "address", "sample")


@dataclass(frozen=True)
class PhotoOptions:
    """A folder of photographs, and what is said about its classes; one field per option."""

    images: Annotated[
        Path | None,
        typer.Option(
            "--images",
            metavar="DIR",
            help="Train on photos instead of --data: one sub-folder per class, or a manifest.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    classes: Annotated[
        Path | None,
        typer.Option(
            "--classes",
            metavar="FILE",
            help="Table of name and description, or numbers; .csv or .parquet.",
            show_default="the names of the folders",
            rich_help_panel=_PANEL,
        ),
    ] = None
    backbone: Annotated[
        str,
        typer.Option(
            "--backbone",
            metavar="NAME",
            help="Image network; see `hgkt extract`.",
            rich_help_panel=_PANEL,
        ),
    ] = "efficientnet-lite0"
    encoder: Annotated[
        str,
        typer.Option(
            "--encoder",
            metavar="NAME",
            help="Sentence encoder; see `hgkt describe`.",
            rich_help_panel=_PANEL,
        ),
    ] = "minilm"
    template: Annotated[
        str | None,
        typer.Option(
            "--template",
            help="How name and description become a sentence.",
            show_default="a photo of a {name}. {description}",
            rich_help_panel=_PANEL,
        ),
    ] = None
    cache: Annotated[
        Path | None,
        typer.Option(
            "--cache",
            metavar="DIR",
            help="Keep extracted features here, for the next training too.",
            show_default="MODEL.partial, deleted once the model is saved",
            rich_help_panel=_PANEL,
        ),
    ] = None
    batch_size: Annotated[
        int, typer.Option("--batch-size", min=1, help="Images per pass.", rich_help_panel=_PANEL)
    ] = 32
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=0,
            help="Processes that decode photos, or sum shards.",
            show_default="photos: 0; shards: one per core",
        ),
    ] = None

    def check(self, context: typer.Context) -> None:
        """Refuse options that do not go together."""

        def given(name: str) -> bool:
            source = context.get_parameter_source(name)
            return source is not None and source.name != "DEFAULT"

        if self.images is not None:
            for name in filter(given, _NOT_WITH_IMAGES):
                hint = "; class attributes come with --classes" if name == "attributes" else ""
                raise DataError(f"--{name} and --images do not go together{hint}")
            return
        for name in filter(given, ("classes", "cache", "backbone", "encoder", "template")):
            raise DataError(f"--{name} is for --images DIR; with --data leave it out")

    def cache_beside(self, out_path: Path) -> Path:
        """Return where features are kept until the model is saved, or longer if so wished."""
        place = out_path.absolute()
        return self.cache or place.with_name(f"{place.name}.partial")

    def read(self, cache: Path, device: str, progress: Progress) -> Photos:
        """Encode the classes and extract the photos."""
        from hgkt.items import read_photos

        if self.images is None:
            raise DataError("--images is missing")
        return read_photos(
            self.images,
            self.classes,
            backbone=self.backbone,
            encoder=self.encoder,
            template=self.template,
            device=device,
            batch_size=self.batch_size,
            workers=self.workers or 0,
            cache=cache,
            progress=progress,
        )
