"""`hgkt export`: a model for other runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hgkt.cli._inputs import load_model
from hgkt.cli._options import with_options
from hgkt.cli._output import emit
from hgkt.exceptions import DataError


@with_options
def export_command(
    model: Path, out_path: Annotated[Path, typer.Option("--out")], onnx: bool = False
) -> None:
    """Write a model for other runtimes, where classes can be added.

    Example: hgkt export --model digits-model --onnx --out digits-onnx

    Parameters
    ----------
    out_path : FOLDER
        Folder to write.
    onnx
        Write embedder and scorer as ONNX graphs.
    """
    if not onnx:
        raise DataError("say what to export to: --onnx")
    from hgkt.export import export_onnx

    loaded = load_model(model)
    folder = export_onnx(loaded, out_path)
    files = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    document = {"model": model, "out": folder, "n_classes": len(loaded.classes_), "files": files}
    listing = ", ".join(f"{name} ({size / 1e6:.1f} MB)" for name, size in files.items())
    emit(document, f"wrote {folder} with {len(loaded.classes_)} classes: {listing}")
