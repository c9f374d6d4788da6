"""Which data sets a run is about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hgkt.data import load_dataset, make_synthetic, write_xlsa17
from hgkt.exceptions import DataError, UnknownNameError
from hgkt.experiments.discovery import discover, fingerprint_of, forget_loaded, load_once
from hgkt.experiments.plan import DataSpec


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """CUB (two feature files), aPY in lower case, a folder that is no data set."""
    monkeypatch.delenv("HGKT_DATA", raising=False)
    data = make_synthetic(n_seen=6, n_unseen=3, n_features=8)
    for name, files in {"CUB": ("vgg", "res101"), "apy": ("alex",)}.items():
        write_xlsa17(data, tmp_path / name, features=files[0])
        for other in files[1:]:
            (tmp_path / name / f"{other}.mat").write_bytes(
                (tmp_path / name / f"{files[0]}.mat").read_bytes()
            )
    (tmp_path / "notes").mkdir()
    return tmp_path


def test_discover_finds_every_folder_in_the_papers_order(root):
    found = discover(root)
    assert [(data.name, data.features) for data in found.data] == [("CUB", "res101"),
                                                                  ("APY", "alex")]  # fmt: skip
    assert found.missing == ("SUN", "AWA1", "AWA2")
    assert all(fingerprint_of(data.load()) == data.fingerprint for data in found.data)


def test_discover_without_a_root_gives_the_digits(monkeypatch):
    monkeypatch.delenv("HGKT_DATA", raising=False)
    found = discover()
    assert [data.name for data in found.data] == ["digits"]
    assert found.missing == ("SUN", "CUB", "AWA1", "AWA2", "APY")


def test_discover_takes_the_names_asked_for_once(root):
    found = discover(root, ["digits", "cub", "CUB", str(root / "apy")])
    assert [data.name for data in found.data] == ["CUB", "APY", "digits"]
    # A set that is there but was not asked for is not missing.
    assert discover(root, ["digits"]).missing == ("SUN", "AWA1", "AWA2")


def test_discover_features_leave_out_folders_without_them(root):
    lines: list[str] = []
    found = discover(root, features="vgg", note=lines.append)
    assert [(data.name, data.features) for data in found.data] == [("CUB", "vgg")]
    assert len(lines) == 1
    assert "apy is left out" in lines[0]
    assert "alex" in lines[0]
    with pytest.raises(DataError, match=r"no feature file vgg\.mat; feature files there: alex"):
        discover(root, ["apy"], features="vgg")


def test_discover_leaves_out_a_broken_folder_but_not_one_asked_for(root):
    lines: list[str] = []
    (root / "apy" / "att_splits.mat").write_bytes(b"no MAT file")
    assert [data.name for data in discover(root, note=lines.append).data] == ["CUB"]
    assert len(lines) == 1
    with pytest.raises(DataError, match=r"att_splits\.mat"):
        discover(root, ["apy"])


def test_discover_refuses_what_is_not_there(root):
    with pytest.raises(UnknownNameError, match=r"'sun' is no folder .* there is: digits"):
        discover(root, ["sun"])
    with pytest.raises(DataError, match="is no folder"):
        discover(root / "nowhere")


def test_fingerprint_of_sees_every_change():
    data = load_dataset("digits")
    features = data.features.copy()
    features[0, 0] += 1
    changed = [
        replace(data, features=features),
        replace(data, train=data.train[1:]),
        replace(data, class_attributes=np.flip(data.class_attributes, axis=1)),
    ]
    prints = {fingerprint_of(item) for item in [data, *changed]}
    assert len(prints) == 4
    assert fingerprint_of(load_dataset("digits")) == fingerprint_of(data)


def test_a_data_set_is_loaded_and_hashed_once_in_a_run(root, monkeypatch):
    import hgkt.data.dataset as dataset
    from hgkt.experiments import Context
    from hgkt.experiments.run import load_experiments, run_cell

    loads: list[str] = []
    digests: list[object] = []
    load, digest = DataSpec.load, dataset._Digest

    def counted_load(self):
        loads.append(f"{self.name} {self.attributes}")
        return load(self)

    def counted_digest():
        digests.append(None)
        return digest()

    monkeypatch.setattr(DataSpec, "load", counted_load)
    monkeypatch.setattr(dataset, "_Digest", counted_digest)
    found = discover(root, ["CUB", "cub"])
    context = Context(found.data, methods=["ridge", "eszsl"], n_seeds=1)
    plans = [e.plan(context) for e in load_experiments(["table-gzsl", "ablation-choices"]).values()]
    cells = [c for plan in plans for cells in plan.values() for c in cells if c.method == "ridge"]
    for cell in cells * 2:
        assert run_cell(cell).ok
    assert loads == ["CUB att", "CUB original_att"]
    assert len(digests) == 2 * len(loads)  # a split and a content each
    forget_loaded()
    load_once(found.data[0])
    assert len(loads) == 3
