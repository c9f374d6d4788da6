import json

import pytest
from typer.testing import CliRunner

from hgkt.cli.main import app
from hgkt.estimators import METHODS, presets_of
from hgkt.estimators.methods import build_method
from hgkt.exceptions import UnknownNameError


def test_methods_whose_authors_published_settings_have_them():
    released = [name for name in METHODS if "released" in presets_of(name)]
    assert released == ["sync", "sae", "gfzsl", "cn-zsl", "cada-vae"]


@pytest.mark.parametrize("name", ["sync", "sae", "gfzsl", "cn-zsl", "cada-vae"])
@pytest.mark.parametrize("data", ["CUB", "AWA1", None])
def test_a_preset_sets_parameters_that_the_method_has(name, data):
    model = build_method(name, "released", data=data)
    wanted = METHODS.load(name).named_presets["released"].on(data)
    assert {key: getattr(model, key) for key in wanted} == wanted
    model._check_params()


def test_released_settings_follow_the_data_set_and_give_way_to_parameters():
    assert build_method("cn-zsl", "released", data="CUB").seen_factor == 1.0
    assert build_method("cn-zsl", "released", data="AWA1").seen_factor == 0.95
    assert build_method("sae", "released", data="AWA2").encoder_weight == 5e5
    assert build_method("cada-vae", "released", data="SUN").classifier_epochs == 21
    assert build_method("sae", "released", {"encoder_weight": 2.0}).encoder_weight == 2.0


def test_an_unknown_preset_of_a_method_is_refused():
    with pytest.raises(UnknownNameError, match="unknown preset 'best'; choose from: released"):
        build_method("gfzsl", "best")


def test_evaluate_command_takes_the_released_settings():
    command = [
        "evaluate",
        "--data",
        "digits",
        "--method",
        "gfzsl",
        "--preset",
        "released",
        "--json",
    ]
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["preset"] == "released"
