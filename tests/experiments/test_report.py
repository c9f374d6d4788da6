"""The report's files: structure of the page, escaping, tidy tables, figures, replacing."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from hgkt.exceptions import DataError
from hgkt.experiments.blocks import (
    Column,
    Experiment,
    FigureBlock,
    Outcome,
    TableBlock,
    TextBlock,
    Value,
)
from hgkt.experiments.claims import CLAIMS
from hgkt.experiments.plan import EXPERIMENTS, Cell, CellResult, Context, DataSpec
from hgkt.experiments.report import write_report
from hgkt.experiments.rows import plan_evaluations
from hgkt.experiments.style import figure

ZSL = EXPERIMENTS.load("table-zsl")
GZSL = EXPERIMENTS.load("table-gzsl")
RANKS = EXPERIMENTS.load("figure-ranks")
CURVES = EXPERIMENTS.load("figure-curves")

NASTY = "</script><script>alert('x')</script> <b>Größe & \u2028 \u6c34 |"
SHA = "0123456789abcdef" * 4
DIGITS = DataSpec("digits", "/secret/place", fingerprint=SHA)
TABLES = {
    "table-zsl": ZSL,
    "table-gzsl": GZSL,
    "figure-ranks": RANKS,
    "figure-curves": CURVES,
}
METHODS = ("hgkt-network", "hgkt", "eszsl", "ridge", "dem")


def report_of(folder, context, experiments, results, run_info=None):
    """Plan and write, as a run does."""
    plans = {name: experiment.plan(context) for name, experiment in experiments.items()}
    return write_report(folder, context, experiments, plans, results, run_info)


def evaluations(context: Context) -> list[Cell]:
    return [cell for cells in plan_evaluations(context).values() for cell in cells]


def value(found, cells, metric):
    return Outcome(Context(data=()), {"slot": cells}, found).value("slot", metric)


def _result(cell: Cell) -> CellResult:
    rank = METHODS.index(cell.method)
    numbers = {"ts": 20.0 - rank, "tr": 50.0 + rank, "H": 30.0 + cell.seed - rank, "zsl": 60.0,
               "ausuc": 25.0 - rank}  # fmt: skip
    t = np.linspace(0, 1, 50)
    values = {
        "metrics": numbers,
        "uncalibrated": numbers,
        "calibrated": None,
        "selected": {"ridge": 0.03, "note": NASTY},
        "validation": {"metric": "H", "score": float("nan"), "n_folds": 3, "n_settings": 4},
        "timings": {"fit": 0.5, "total": 1.5},
        "data": {"fingerprint": {"split": SHA, "content": SHA[::-1]}, "n_train": 10},
    }
    arrays = {"seen": 1 - t**2, "unseen": t * 0.6}
    return CellResult(cell, values, arrays, "", 1.5, {"hgkt": "9.9"}, {"platform": "Somewhere"})


def _context(**changes) -> Context:
    return Context(**{"data": [DIGITS], "missing": ["SUN"], "methods": METHODS, "n_seeds": 2,
                      **changes})  # fmt: skip


def _results(context: Context) -> dict[str, CellResult]:
    """All cells but those of Ridge; one method failed, with an error that is no text."""
    found = {c.key: _result(c) for c in evaluations(context) if c.method != "ridge"}
    for key, result in found.items():
        if result.cell.method == "dem":
            found[key] = CellResult(result.cell, error=f"ValueError: {NASTY}")
    return found


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    context = _context()
    results = _results(context)
    folder = tmp_path_factory.mktemp("report")
    return report_of(folder, context, TABLES, results, {"command": NASTY}), results


class Structure(HTMLParser):
    """Checks that tags close in order, and collects what there is."""

    VOID = frozenset(["meta", "link", "br", "img", "input", "hr"])

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)
            if tag == "script":
                self.scripts.append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif self.open and self.open[-1] != "style":
            self.words.append(data)

    def find(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        wanted = attributes.items()
        return [a for name, a in self.tags if name == tag and all(a.get(k) == v for k, v in wanted)]


@pytest.fixture(scope="module")
def page(written) -> Structure:
    return Structure(written[0].html.read_text(encoding="utf-8"))


# ------------------------------------------------------------------ the page
def test_html_has_a_section_and_a_link_an_experiment(page):
    names = [a["id"] for a in page.find("section")]
    assert names == ["claims", *TABLES]
    links = {a["href"] for a in page.find("a")}
    assert {f"#{name}" for name in names} <= links


def test_captions_are_markdown(tmp_path):
    drawn = FigureBlock("f", "F", figure(3.0, 2.0)[0], pd.DataFrame(), "*before* H* `x` <b>")
    table = TableBlock("t", "T", ["a"], [["b"]], "**best** | 5 * 3")
    odd = Experiment("Odd", "An *odd* one.", lambda c: {}, lambda o: [drawn, table])
    report = report_of(tmp_path, _context(), {"odd": odd}, {})
    html, text = report.html.read_text(), report.markdown.read_text()
    assert "<em>before</em> H* <code>x</code> &lt;b&gt;</figcaption>" in html
    assert '<p class="note"><strong>best</strong> | 5 * 3</p>' in html
    assert '<p class="about">An <em>odd</em> one.</p>' in html
    assert "*before* H* `x` \\<b\\>" in text
    assert "An *odd* one." in text


def test_html_ids_are_unique(page):
    ids = [a["id"] for _, a in page.tags if a.get("id")]
    assert len(ids) == len(set(ids))


def test_html_refers_to_nothing_outside(page):
    for _, attributes in page.tags:
        for name in ("src", "href", "xlink:href", "action"):
            target = attributes.get(name) or ""
            assert not re.match(r"(https?:)?//", target), target
    text = "".join(a.get("style") or "" for _, a in page.tags)
    assert "url(http" not in text


def test_html_escapes_everything(written, page):
    text = written[0].html.read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "<b>Größe" not in text
    assert len(page.scripts) == 2
    assert any("<script>alert('x')</script>" in words for words in page.words)


def test_html_embeds_valid_json_that_every_number_finds(written, page):
    document = json.loads(page.scripts[0], parse_constant=pytest.fail)
    buttons = [a for a in page.find("button") if "data-runs" in a]
    assert buttons
    for attributes in buttons:
        for number in attributes["data-runs"].split():
            assert document["records"][int(number)][0] in written[1]
    titles = {record[1] for record in document["records"]}
    assert "hgkt-network · digits · seed 1" in titles
    errors = [record[2] for record in document["records"] if record[2]]
    assert errors == [f"ValueError: {NASTY}"] * 2


def test_html_record_tells_where_a_number_comes_from(page):
    document = json.loads(page.scripts[0])
    record = next(r for r in document["records"] if r[1] == "hgkt-network · digits · seed 1")
    told = {
        heading: dict(map(tuple, lines))
        for heading, lines in (document["groups"][number] for number in record[3])
    }
    assert told["Configuration"]["seed"] == "1"
    assert told["Configuration"]["options.select"] == "True"
    assert told["Data"]["SHA-256.split"] == SHA
    assert told["Data"]["fingerprint"] == SHA
    assert told["Run time"]["total"] == "1.5 s"
    assert told["Versions"]["hgkt"] == "9.9"
    assert told["Machine"]["platform"] == "Somewhere"
    assert told["Chosen on validation classes"]["ridge"] == "0.03"
    assert told["Chosen on validation classes"]["validation.score"] == "nan"


def test_html_stores_repeated_groups_once(page):
    groups = json.loads(page.scripts[0])["groups"]
    assert sum(heading == "Versions" for heading, _ in groups) == 1


def test_html_shows_failures_absences_and_missing_data(written, page):
    words = " ".join(page.words)
    assert "failed" in words
    assert "–" in page.words
    assert "were not found" in words
    assert "SUN" in words
    assert [a for a in page.find("button", **{"class": "value failed"}) if a.get("data-runs")]


def test_html_never_names_the_folder_of_the_data(written):
    for file in (written[0].html, written[0].markdown):
        assert "/secret/place" not in file.read_text(encoding="utf-8")


def test_wide_table_scrolls_inside_its_box(page):
    for position, (_, attributes) in enumerate(page.tags):
        if page.tags[position][0] == "table":
            assert page.tags[position - 1][1].get("class") == "box"
            assert page.tags[position - 1][1].get("tabindex") == "0"
            assert attributes.get("class") in (None, "claims", "wide")


# ------------------------------------------------------------------ the files
def test_tidy_tables_agree_with_each_other_and_the_results(written):
    report, results = written
    csv = pd.read_csv(report.folder / "tables/table-gzsl.csv")
    parquet = pd.read_parquet(report.folder / "tables/table-gzsl.parquet")
    columns = ["mean", "std", "published", "n_seeds"]
    pd.testing.assert_frame_equal(csv[columns], parquet[columns])
    line = csv[(csv["row"] == "HGKT, paper") & (csv["column"] == "digits · H")].iloc[0]
    assert (line["mean"], line["n_seeds"]) == (30.5, 2)
    assert line["std"] == pytest.approx(np.sqrt(0.5))
    keys = line["keys"].split()
    assert [results[key].values["metrics"]["H"] for key in keys] == [30.0, 31.0]
    failed = csv[(csv["row"] == "DEM") & (csv["column"] == "digits · H")].iloc[0]
    assert np.isnan(failed["mean"])
    assert failed["n_seeds"] == 0
    assert failed["failed"].startswith("ValueError")


@pytest.mark.parametrize("name", ["figure-ranks", "figure-ranks-paper", "figure-curves"])
def test_figure_is_drawn_and_not_clipped(tmp_path, name):
    context = _context(data=[DIGITS, DataSpec("others", "others", fingerprint=SHA)])
    figures = {"figure-ranks": RANKS, "figure-curves": CURVES}
    folder = report_of(tmp_path, context, figures, _results(context)).folder / "figures"
    image = imread(folder / f"{name}.png")[..., :3]
    assert min(image.shape[:2]) > 300
    assert image.std() > 0.02
    edges = [image[0], image[-1], image[:, 0], image[:, -1]]
    assert all((edge == 1.0).all() for edge in edges)
    svg = (folder / f"{name}.svg").read_text()
    assert svg.count("<path") > 10
    assert len(pd.read_csv(folder / f"{name}.csv")) > 3


def test_ranks_over_one_data_set_are_not_drawn(written):
    assert not (written[0].folder / "figures" / "figure-ranks.png").exists()
    assert "Ranks over one data set say no more than its table" in written[0].html.read_text()


def test_sets_that_were_not_found_are_named_once(written):
    assert written[0].html.read_text().count("SUN") - _claims_naming("SUN") == 1


def _claims_naming(word: str) -> int:
    claims = [claim for name in TABLES for claim in CLAIMS.get(name, ())]
    return sum(claim.paper.count(word) for claim in claims)


def test_markdown_tables_are_whole_and_link_records(written):
    report, results = written
    text = report.markdown.read_text(encoding="utf-8")
    tables = re.findall(r"(?:^\|.*\|\n)+", text, flags=re.MULTILINE)
    assert len(tables) == 3
    for table in tables:
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1
    assert "<script>" not in text
    stored = {f"cells/{key}.json" for key in results}
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert target in stored or (report.folder / target).is_file(), target


# ------------------------------------------------------------------ writing again
def test_write_report_replaces_its_own_files_only(tmp_path):
    context = _context()
    results = _results(context)
    first = report_of(tmp_path, context, TABLES, results)
    foreign = [tmp_path / "mine.txt", tmp_path / "figures/mine.png", tmp_path / "tables/mine.csv"]
    for path in foreign:
        path.write_text("mine")
    one = {"table-zsl": ZSL}
    second = report_of(tmp_path, context, one, results)
    assert all(path.read_text() == "mine" for path in foreign)
    assert not (tmp_path / "figures/figure-ranks.png").exists()
    assert [a["id"] for a in Structure(second.html.read_text()).find("section")] == ["claims", *one]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert first.html == second.html


def test_write_report_interrupted_leaves_the_old_report(tmp_path, monkeypatch):
    context = _context()
    report_of(tmp_path, context, {"table-zsl": ZSL}, _results(context))
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    from pathlib import Path

    write_bytes, left = Path.write_bytes, iter(range(5))

    def full_disk(self, data):
        if next(left, None) is None:
            raise OSError(28, "No space left on device")
        return write_bytes(self, data)

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(DataError, match="No space left"):
        report_of(tmp_path, context, TABLES, _results(context))
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_write_report_refuses_a_file_as_folder(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(DataError, match="cannot write the report"):
        report_of(tmp_path / "taken", Context(data=()), {}, {})


def test_write_report_ignores_a_manifest_that_points_outside(tmp_path):
    victim = tmp_path / "victim.txt"
    victim.write_text("keep")
    folder = tmp_path / "report"
    folder.mkdir()
    listed = {"files": {"../victim.txt": "", str(victim): ""}}
    (folder / "report-files.json").write_text(json.dumps(listed))
    report_of(folder, Context(data=()), {}, {})
    assert victim.read_text() == "keep"


# ------------------------------------------------------------------ odd runs
def test_write_report_without_results(tmp_path):
    report = report_of(tmp_path, _context(), TABLES, {})
    words = " ".join(Structure(report.html.read_text()).words)
    assert "runs not made" in words
    assert json.loads(Structure(report.html.read_text()).scripts[0])["records"] == []


def test_write_report_where_all_failed(tmp_path):
    context = _context()
    failed = {c.key: CellResult(c, error=NASTY) for c in evaluations(context)}
    report = report_of(tmp_path, context, TABLES, failed)
    words = " ".join(Structure(report.html.read_text()).words)
    assert f"{len(failed)} failed" in words
    assert "Some runs failed" in words


def test_write_report_one_seed_has_no_deviation(tmp_path):
    context = _context(n_seeds=1, methods=("eszsl", "ridge"))
    report = report_of(tmp_path, context, {"t": ZSL}, _results(context))
    page = Structure(report.html.read_text())
    assert not page.find("span", **{"class": "std"})


def test_write_report_an_experiment_that_breaks_says_so(tmp_path):
    def broken(outcome):
        raise ValueError("no <i>such</i> thing")

    experiments = {
        "broken": Experiment("Broken", "It breaks.", lambda context: {}, broken),
        "table-zsl": ZSL,
    }
    report = report_of(tmp_path, _context(), experiments, {})
    text = report.html.read_text()
    assert "ValueError: no &lt;i&gt;such&lt;/i&gt; thing" in text
    assert [a["id"] for a in Structure(text).find("section")] == ["claims", *experiments]


def test_write_report_escapes_every_text_of_a_block(tmp_path):
    cell = Cell("evaluate", DataSpec(NASTY, "x"), "eszsl")
    found = {cell.key: CellResult(cell, {NASTY: NASTY}, versions={NASTY: NASTY})}
    told = Value(words=NASTY, keys=(cell.key,), failed=NASTY)
    rows = [[NASTY, NASTY, told], [Value(words=NASTY), "", Value(1.0, 2.0, failed=NASTY)]]
    drawing, _ = figure(2, 2)
    blocks = [
        TableBlock("t", NASTY, [NASTY, Column(NASTY, NASTY), NASTY], rows, NASTY, [0]),
        TableBlock("t-details", NASTY, [NASTY, "a", "b"], rows, NASTY, closed=True),
        FigureBlock("f", NASTY, drawing, pd.DataFrame({NASTY: [NASTY]}), NASTY, (cell.key,)),
        TextBlock(NASTY),
    ]
    odd = Experiment(NASTY, NASTY, lambda context: {"": [cell]}, lambda outcome: blocks)
    context = Context(data=[cell.data], missing=[NASTY])
    report = report_of(tmp_path, context, {"odd": odd}, found, {NASTY: NASTY})
    for path in (report.html, report.markdown):
        text = path.read_text(encoding="utf-8")
        assert "<script>alert" not in text
        assert "<b>Gr" not in text
    assert len(Structure(report.html.read_text(encoding="utf-8")).scripts) == 2


def test_write_report_names_of_blocks_become_safe_and_unique(tmp_path):
    drawing, axes = figure(3, 2)
    axes.plot([0, 1], [0, 1], label="Größe")
    blocks = [
        TableBlock("../a b", "One", ["x", "y"], [["r", Value(1.0)]]),
        TableBlock("../a b", "Two", ["x", "y"], []),
        FigureBlock("Größe", "Three", drawing, pd.DataFrame({"x": [1]})),
        TextBlock(NASTY),
    ]
    odd = Experiment("Odd", NASTY, lambda context: {}, lambda outcome: blocks)
    report = report_of(tmp_path, Context(data=[DIGITS]), {"odd": odd}, {})
    names = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")}
    assert {"tables/a-b.csv", "tables/a-b-2.csv"} <= names
    assert {f"figures/Gr-e.{suffix}" for suffix in ("csv", "png", "svg")} <= names
    Structure(report.html.read_text())


def test_write_report_wide_table_of_all_methods(tmp_path):
    context = Context(data=[DataSpec(f"set{i}", "x") for i in range(5)], n_seeds=3)
    found = {
        c.key: CellResult(c, {"metrics": {"ts": 1.0, "tr": 2.0, "H": 1.3, "ausuc": 1.0}})
        for c in evaluations(context)
    }
    report = report_of(tmp_path, context, {"table-gzsl": GZSL}, found)
    page = Structure(report.html.read_text())
    assert len(page.find("th", scope="colgroup", colspan="5")) == 5
    # Five data sets do not fit one page: two tables stand below each other.
    assert len(page.find("table", **{"class": "wide"})) == 2
    assert report.html.stat().st_size < 3_000_000


def test_value_marks_partly_failed_in_the_page(tmp_path):
    cells = [Cell("evaluate", DIGITS, "dem", seed=seed) for seed in (0, 1)]
    found = {cells[0].key: CellResult(cells[0], {"metrics": {"H": 3.0}}),
             cells[1].key: CellResult(cells[1], error="boom")}  # fmt: skip
    block = TableBlock("t", "T", ["m", "H"], [["DEM", value(found, cells, "H")]])
    one = Experiment("One", "", lambda context: {"": cells}, lambda outcome: [block])
    report = report_of(tmp_path, Context(data=[DIGITS]), {"one": one}, found)
    assert 'class="some-failed"' in report.html.read_text()
    assert "some seeds failed" in report.markdown.read_text()
    frame = pd.read_csv(io.StringIO((tmp_path / "tables/t.csv").read_text()))
    assert frame.loc[0, "n_seeds"] == 1
