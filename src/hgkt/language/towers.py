"""Text towers: the part of CLIP and SigLIP that reads, for the classes of photos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hgkt._files import read_json
from hgkt._hub import WEIGHTS, hub_folder, load_pretrained, loading
from hgkt._validation import import_extra
from hgkt.exceptions import DataError

SAFE = {"local_files_only": True, "trust_remote_code": False}
"""Loads what is on disk, and runs no code of a folder's maker."""

_CONFIG, _TOKENIZERS = "config.json", "tokenizer*.json"
TOWER_FILES = (
    _CONFIG,
    WEIGHTS,
    "*.safetensors.index.json",
    _TOKENIZERS,
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "spiece.model",
)
"""What a text tower is read from; the rest of a folder decides nothing about it."""


@dataclass(frozen=True)
class Reading:
    """How a family of models reads.

    Parameters
    ----------
    class_name : str
        Class of transformers.
    output : str
        What of its output is the vector of a text.
    padding : bool or str
        As tokenizers take it. SigLIP was trained on texts of its full length, without a mask.
    masked : bool
        Whether it is told which tokens are padding.
    """

    class_name: str
    output: str
    padding: bool | str
    masked: bool


TOWERS = {
    "clip": Reading("CLIPTextModelWithProjection", "text_embeds", True, True),
    "siglip": Reading("SiglipTextModel", "pooler_output", "max_length", False),
}
"""The types of models with an image and a text tower."""


class TextTower:
    """The text tower of a model, to be used like a SentenceTransformer.

    Parameters
    ----------
    model, tokenizer : object
        Of transformers.
    reading : Reading
        How the two belong together.
    device : str
        Where it computes.
    """

    def __init__(self, model: Any, tokenizer: Any, reading: Reading, device: str) -> None:
        self._model, self._reading, self._device = model, reading, device
        self.tokenizer = tokenizer
        self.max_seq_length = int(model.config.max_position_embeddings)

    @classmethod
    def open(cls, folder: Path, device: str) -> Self:
        """Load the tower of a folder: safetensors only, and no code but transformers' own."""
        reading = TOWERS[tower_type(folder) or ""]
        if not any(folder.glob(_TOKENIZERS)):
            raise DataError(
                f"{folder} has no tokenizer, so its text tower cannot read; add the tokenizer's "
                "files, or name another encoder, such as minilm"
            )
        model = load_pretrained(reading.class_name, folder, "vision").eval().to(device)
        transformers = import_extra("transformers", "vision")
        with loading(f"the tokenizer in {folder}", "vision"):
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **SAFE)
        return cls(model, tokenizer, reading, device)

    def get_embedding_dimension(self) -> int:
        """Return the length of a vector."""
        return len(self.encode(["a"])[0])

    def encode(
        self, texts: Sequence[str], batch_size: int = 32, **_options: Any
    ) -> NDArray[np.float32]:
        """Return vectors of length one, (len(texts), n_dimensions); what is too long is cut.

        Parameters
        ----------
        texts : sequence of str
            What to encode.
        batch_size : int
            Texts per forward pass.
        **_options
            Further ones of a SentenceTransformer, which change nothing here.
        """
        import torch

        parts = []
        with torch.inference_mode():
            for start in range(0, len(texts), batch_size):
                tokens = self.tokenizer(
                    list(texts[start : start + batch_size]),
                    padding=self._reading.padding,
                    truncation=True,
                    max_length=self.max_seq_length,
                    return_attention_mask=self._reading.masked,
                    return_token_type_ids=False,
                    return_tensors="pt",
                ).to(self._device)
                rows = getattr(self._model(**tokens), self._reading.output).float()
                parts.append(torch.nn.functional.normalize(rows, dim=1).cpu().numpy())
        return np.concatenate(parts)


def tower_type(folder: Path) -> str | None:
    """Return the type of a model with a text tower, one of `TOWERS`; None of any other folder."""
    if not (folder / _CONFIG).is_file() or (folder / "modules.json").is_file():
        return None
    kind = str(read_json(folder / _CONFIG).get("model_type"))
    return kind if kind in TOWERS else None


def hub_tower(name: str) -> Path | None:
    """Return the local copy of a model of the hub that has a text tower, fetched where missing.

    None where the model is of another kind, which one small file tells.
    """
    folder = hub_folder(name, [_CONFIG, "modules.json"], _CONFIG, "vision")
    if tower_type(folder) is None:
        return None
    return hub_folder(name, TOWER_FILES, _TOKENIZERS, "vision")
