"""`hgkt evaluate` from the command line's side."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from hgkt._registry import Entry
from hgkt.cli._options import DataOptions
from hgkt.cli.evaluate import evaluate_command
from hgkt.data import load_dataset
from hgkt.estimators.base import GZSLClassifier
from hgkt.estimators.methods import METHODS
from hgkt.evaluation import RunRecord, evaluate
from hgkt.exceptions import DataError, HGKTError

app = typer.Typer(pretty_exceptions_enable=False)
app.command("evaluate")(evaluate_command)


class NoisyRidge(GZSLClassifier):
    """Ridge from attributes to class means, with noise that a seed decides."""

    def __init__(
        self,
        alpha: float = 1.0,
        noise: float = 0.0,
        calibration: float = 0.0,
        random_state: int = 0,
    ) -> None:
        self.alpha = alpha
        self.noise = noise
        self.calibration = calibration
        self.random_state = random_state

    def _fit_seen(self, X, codes, attributes):
        means = np.stack([X[codes == c].mean(axis=0) for c in range(len(attributes))])
        means = means + self.noise * np.random.default_rng(self.random_state).normal(
            size=means.shape
        )
        gram = attributes.T @ attributes + self.alpha * np.eye(attributes.shape[1])
        self.coef_ = np.linalg.solve(gram, attributes.T @ means)
        return {"embedding": means}

    def _embed_classes(self, attributes):
        return {"embedding": attributes @ self.coef_}

    def _score(self, X, table, seen):
        z = table["embedding"]
        return 2 * X @ z.T - (z**2).sum(axis=1)

    def default_stages(self):
        return [{"alpha": [100.0, 1.0, 0.01]}]


class LocalEntry(Entry):
    def load(self):
        return NoisyRidge


@pytest.fixture(autouse=True)
def _register(monkeypatch):
    target = f"{NoisyRidge.__module__}:NoisyRidge"
    monkeypatch.setitem(METHODS._entries, "ridge", LocalEntry(target, "for the test"))


def call(*arguments):
    return CliRunner().invoke(app, ["--method", "ridge", *arguments])


def test_evaluate_command_prints_one_json_document():
    result = call("--json", "--param", "alpha=0.5")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert list(document)[:7] == ["ts", "tr", "H", "zsl", "ausuc", "seconds", "selected"]
    record = evaluate(NoisyRidge(alpha=0.5), load_dataset("digits"))
    for name, value in record.metrics.to_dict().items():
        assert document[name] == pytest.approx(value)
    assert document["method"] == "ridge"
    assert document["parameters"]["alpha"] == 0.5
    assert document["data"]["name"] == "digits"
    assert document["selected"] == {"calibration": record.validation["calibration"]}
    assert document["calibration"] == record.calibration
    assert document["H"] == document["calibrated"]["H"]
    beside = [document[f"{name}_uncalibrated"] for name in ("ts", "tr", "H")]
    without = evaluate(NoisyRidge(alpha=0.5), load_dataset("digits"), calibrate=False).metrics
    assert beside == pytest.approx([without.ts, without.tr, without.H])
    assert beside[2] < document["H"]
    assert document["record"] is None
    assert document["seconds"] > 0


def test_evaluate_command_selects_calibrates_and_writes_a_record(tmp_path):
    result = call("--select", "--calibrate", "--json", "--out", str(tmp_path), "--seed", "3")
    document = json.loads(result.stdout)
    assert set(document["selected"]) == {"alpha", "calibration"}
    assert document["H"] == document["calibrated"]["H"]
    record = RunRecord.load(document["record"])
    assert document["H"] == record.metrics.H
    assert record.seed == 3
    assert record.parameters["random_state"] == 3


def test_evaluate_command_selects_by_the_metric_asked_for():
    document = json.loads(call("--select", "--metric", "zsl", "--json").stdout)
    assert document["validation"]["metric"] == "zsl"
    assert json.loads(call("--select", "--json").stdout)["validation"]["metric"] == "ausuc"
    assert "metric must be one of" in str(call("--select", "--metric", "f1").exception)


def test_evaluate_command_repeats_over_seeds(tmp_path):
    result = call(
        "--json", "--seeds", "3", "--seed", "5", "-p", "noise=2.0", "--out", str(tmp_path)
    )
    document = json.loads(result.stdout)
    assert document["seed"] == [5, 6, 7]
    values = [run["H"] for run in document["runs"]]
    assert len(set(values)) > 1
    assert document["H"] == pytest.approx(np.mean(values))
    assert document["std"]["H"] == pytest.approx(np.std(values, ddof=1))
    assert document["calibrated"]["ts"] == pytest.approx(document["ts"])
    beside = [run["uncalibrated"]["H"] for run in document["runs"]]
    assert document["H_uncalibrated"] == pytest.approx(np.mean(beside))
    assert document["std"]["H_uncalibrated"] == pytest.approx(np.std(beside, ddof=1))
    assert len(list(tmp_path.glob("ridge-digits-*.json"))) == 3


def test_evaluate_command_shows_a_table():
    result = call("--calibrate", "--select")
    assert result.exit_code == 0, result.output
    for word in ("AUSUC", "H*", "oracle", "uncalibrated", "seed 0", "alpha=", "calibration="):
        assert word in result.stdout
    plain = call("--no-calibrate")
    assert "calibrated" not in plain.stdout
    assert "±" in call("--seeds", "2").stdout


def test_evaluate_command_runs_hgkt_by_default_and_its_presets():
    default = CliRunner().invoke(app, ["--json"])
    document = json.loads(default.stdout)
    assert document["method"] == "hgkt"
    assert document["H"] == document["calibrated"]["H"] > document["uncalibrated"]["H"]
    few = ["--param", "n_steps=2", "--param", "n_hidden=8", "--device", "cpu", "--seed", "4"]
    paper = json.loads(CliRunner().invoke(app, ["--preset", "exact", "--json", *few]).stdout)
    assert paper["preset"] == "exact"
    assert paper["method"] == "hgkt-network"
    assert paper["parameters"]["n_steps"] == 2
    assert paper["parameters"]["device"] == "cpu"
    assert paper["parameters"]["random_state"] == 4
    assert set(paper["selected"]) == {"calibration"}
    named = CliRunner().invoke(app, ["--method", "hgkt-network", "--json", *few])
    network = json.loads(named.stdout)
    assert network["preset"] is None
    assert [network[key] for key in ("method", "parameters", "H")] == [
        paper[key] for key in ("method", "parameters", "H")
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--method", "hgkt", "-p", "mu=0.9"],
            "method 'hgkt' has no parameter 'mu': it is a parameter of HGKTNetworkClassifier "
            "(method hgkt-network)",
        ),
        (
            ["--preset", "paper", "-p", "ridge=1"],
            "method 'hgkt-network' has no parameter 'ridge': it is a parameter of HGKTClassifier "
            "(method hgkt)",
        ),
        (["--method", "hgkt-network", "-p", "inter=false"], "it is a parameter of HGKTClassifier"),
        (["--method", "hgkt-network", "--preset", "default"], "is one of method 'hgkt'"),
    ],
)
def test_evaluate_command_says_which_hgkt_has_a_parameter(arguments, sentence):
    error = CliRunner().invoke(app, arguments).exception
    assert isinstance(error, HGKTError)
    assert sentence in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--param", "beta=1"],
            "no parameter 'beta'; choose from: alpha, calibration, noise, random_state",
        ),
        (["--preset", "paper"], "method 'ridge' has no presets"),
        (["--method", "magic"], "unknown method 'magic'; choose from"),
        (["--param", "alpha"], "expects NAME=VALUE"),
        (["--data", "no-such-data"], "no-such-data"),
    ],
)
def test_evaluate_command_refuses_with_one_sentence(arguments, sentence):
    error = call(*arguments).exception
    assert isinstance(error, HGKTError)
    assert sentence in str(error)
    assert "\n" not in str(error)


def test_evaluate_refuses_a_place_for_records_before_it_computes(tmp_path):
    (tmp_path / "file").write_text("")
    arguments = ["--data", "no such data", "--out", str(tmp_path / "file")]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, DataError)
    assert str(result.exception).startswith(f"cannot write to {tmp_path / 'file'}")


def test_evaluate_shows_its_results_although_the_disk_refuses_the_record(tmp_path):
    folder = tmp_path / "records"

    def lose(*_arguments):
        shutil.rmtree(folder)
        folder.write_text("")  # now nothing can be written there

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hgkt.cli._options.DataOptions.load", _then(DataOptions.load, lose))
        result = CliRunner().invoke(app, ["--data", "digits", "--out", str(folder)])
    assert isinstance(result.exception, DataError)
    assert "cannot write" in str(result.exception)
    assert "AUSUC" in result.stdout


def _then(function, after):
    def both(*arguments):
        found = function(*arguments)
        after()
        return found

    return both
