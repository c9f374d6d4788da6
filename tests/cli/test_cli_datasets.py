"""The command `hgkt datasets`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat
from typer.testing import CliRunner

from hgkt.cli.datasets import app
from hgkt.data import load_dataset, load_digits, write_tables, write_xlsa17
from hgkt.exceptions import DataError, DownloadError

runner = CliRunner()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with digits in both layouts, and one that is no data set."""
    monkeypatch.delenv("HGKT_DATA", raising=False)
    folder = tmp_path / "root"
    write_tables(load_digits(), folder / "TABLES", format="csv")
    write_xlsa17(load_digits(), folder / "MAT", features="pixels")
    (folder / "notes").mkdir()
    return folder


def invoke(*arguments: object) -> tuple[int, str]:
    result = runner.invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


@pytest.mark.parametrize("command", ["list", "check", "convert", "download"])
def test_help_has_an_example_and_json(command: str) -> None:
    code, text = invoke(command, "--help")
    assert code == 0
    assert f"hgkt datasets {command}" in text
    assert "--json" in text


def test_list_shows_embedded_present_and_fetchable(root: Path) -> None:
    code, text = invoke("list", "--root", root, "--json")
    entries = {entry["name"]: entry for entry in json.loads(text)["datasets"]}
    assert code == 0
    assert entries["digits"]["where"] == "embedded"
    assert entries["MAT"]["summary"] == "features: pixels"
    assert entries["TABLES"]["summary"] == "tables"
    assert entries["CUB"]["where"] == "download"
    assert "notes" not in entries
    assert "digits" in invoke("list")[1]


def test_check_without_name_checks_every_folder(root: Path) -> None:
    code, text = invoke("check", "--root", root, "--json")
    document = json.loads(text)
    assert code == 0
    assert document["ok"] is True
    reports = {report["name"]: report for report in document["datasets"]}
    assert set(reports) == {"MAT", "TABLES"}
    assert reports["MAT"]["features"] == "pixels"
    assert reports["MAT"]["fingerprint"] == load_digits().fingerprint()
    assert reports["TABLES"]["summary"]["n_train"] == len(load_digits().train)


def test_check_real_folders_are_accepted(data_root: Path) -> None:
    code, text = invoke("check", "--root", data_root, "--json")
    document = json.loads(text)
    assert code == 0
    reports = {report["name"]: report for report in document["datasets"]}
    assert {"CUB", "AWA1"} <= set(reports)
    assert reports["CUB"]["features"] == "efflite2"
    warnings = [f["sentence"] for f in reports["CUB"]["findings"] if f["level"] == "warning"]
    assert any("train_loc of sent_splits.mat holds 1173 test images" in w for w in warnings)


def test_check_fails_with_every_violation_and_still_shows_the_rest(root: Path) -> None:
    features = load_digits().features.T.copy()
    features[0, 3] = np.nan
    labels = load_digits().labels[:, None] + 1
    savemat(root / "MAT" / "pixels.mat", {"features": features, "labels": labels})
    code, text = invoke("check", "--root", root)
    assert code == 1
    assert "error  features contain NaN in row 3" in text
    assert "TABLES" in text


def test_check_unreadable_folder_is_an_error_finding(root: Path) -> None:
    (root / "MAT" / "att_splits.mat").write_bytes(b"rubbish")
    code, text = invoke("check", "mat", "--root", root, "--json")
    assert code == 1
    (report,) = json.loads(text)["datasets"]
    assert [finding["level"] for finding in report["findings"]] == ["error"]
    assert "att_splits.mat" in report["findings"][0]["sentence"]


def test_check_takes_every_feature_file_unless_one_is_named(root: Path) -> None:
    other = {"features": load_digits().features.T * 2, "labels": load_digits().labels + 1}
    savemat(root / "MAT" / "double.mat", other)
    reports = json.loads(invoke("check", "MAT", "--root", root, "--json")[1])["datasets"]
    assert [report["features"] for report in reports] == ["double", "pixels"]
    named = invoke("check", "MAT", "--root", root, "--features", "double", "--json")[1]
    assert len(json.loads(named)["datasets"]) == 1


def test_check_digits_by_name() -> None:
    code, text = invoke("check", "digits")
    assert code == 0
    assert "valid" in text


def test_check_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HGKT_DATA", raising=False)
    with pytest.raises(DataError, match="give a name, --root, or set HGKT_DATA"):
        invoke("check")
    with pytest.raises(DataError, match="holds no folder of a data set"):
        invoke("check", "--root", tmp_path)


def test_convert_goes_both_ways(root: Path, tmp_path: Path) -> None:
    code, text = invoke("convert", "tables", tmp_path / "m", "--to", "xlsa17", "--root", root)
    assert code == 0
    assert "1797 rows and 10 classes" in text
    code, text = invoke("convert", tmp_path / "m", tmp_path / "p", "--to", "parquet", "--json")
    assert code == 0
    assert json.loads(text)["split"] == load_digits().fingerprint()["split"]
    assert load_dataset(tmp_path / "p").fingerprint() == load_digits().fingerprint()


def test_convert_embedded_digits_and_refuse_a_used_target(tmp_path: Path) -> None:
    assert invoke("convert", "digits", tmp_path / "d", "--to", "npy")[0] == 0
    assert load_dataset(tmp_path / "d", mmap=True).fingerprint() == load_digits().fingerprint()
    with pytest.raises(DataError, match="is left alone"):
        invoke("convert", "digits", tmp_path / "d")


def test_convert_asks_which_of_several_feature_files(root: Path, tmp_path: Path) -> None:
    np.save(root / "MAT" / "clip.npy", load_digits().features)
    with pytest.raises(DataError, match=r"several feature files \(clip, pixels\)"):
        invoke("convert", "MAT", tmp_path / "x", "--root", root)


def test_download_without_root_or_mirror_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HGKT_DATA", raising=False)
    with pytest.raises(DataError, match="give --root or set HGKT_DATA"):
        invoke("download", "FLO")
    with pytest.raises(DownloadError, match=r"http://127.0.0.1:1/f.zip said: .*refused"):
        invoke("download", "FLO", "--root", tmp_path, "--mirror", "http://127.0.0.1:1/f.zip")
