"""The report in a real browser: offline, clickable, on a phone, in the dark."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt.experiments.plan import EXPERIMENTS, CellResult, Context, DataSpec
from hgkt.experiments.report import write_report
from hgkt.experiments.rows import plan_evaluations

GZSL = EXPERIMENTS.load("table-gzsl")
RANKS = EXPERIMENTS.load("figure-ranks")
CURVES = EXPERIMENTS.load("figure-curves")

pytestmark = pytest.mark.endure

SHA = "fedcba9876543210" * 4
EVIL = "ValueError: <img src=x onerror=\"document.title='owned'\">"


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    context = Context(
        data=[DataSpec(name, "x", fingerprint=SHA) for name in ("CUB", "AWA1", "AWA2")],
        missing=["SUN"],
        n_seeds=2,
    )
    t = np.linspace(0, 1, 40)
    results = {}
    cells = [cell for slot in plan_evaluations(context).values() for cell in slot]
    for number, cell in enumerate(cells):
        metrics = dict.fromkeys(("ts", "tr", "H", "ausuc", "zsl"), 10.0 + number % 60 + 0.1)
        values = {"metrics": metrics, "selected": {"ridge": 0.5}, "timings": {"total": 12.0},
                  "data": {"fingerprint": {"split": SHA}}}  # fmt: skip
        arrays = {"seen": 1 - t**2, "unseen": t}
        done = CellResult(cell, values, arrays, "", 12.0, {"hgkt": "9.9"}, {"platform": "Here"})
        results[cell.key] = CellResult(cell, error=EVIL) if cell.method == "dap" else done
    experiments = {"table-gzsl": GZSL, "figure-ranks": RANKS, "figure-curves": CURVES}
    plans = {name: experiment.plan(context) for name, experiment in experiments.items()}
    folder = tmp_path_factory.mktemp("browser")
    return write_report(folder, context, experiments, plans, results).html.as_uri()


def test_click_on_a_number_shows_where_it_comes_from(visit):
    page = visit()
    button = page.locator("tr.ours", has_text="HGKT, paper").locator("td button.value").first
    button.click()
    panel = page.locator("#panel")
    assert panel.is_visible()
    text = panel.inner_text()
    assert "seed 0" in text
    assert "seed 1" in text
    for told in (SHA, "9.9", "12 s", "ridge", "Here"):
        assert told in text
    page.keyboard.press("Escape")
    assert not panel.is_visible()
    assert button.evaluate("node => node === document.activeElement")


def test_keyboard_opens_and_closes_the_panel(visit):
    page = visit()
    page.locator("td button.value").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#panel").is_visible()
    page.locator("#close").click()
    assert not page.locator("#panel").is_visible()


def test_failure_is_shown_as_text(visit):
    page = visit()
    failed = page.locator("button.failed").first
    assert failed.inner_text() == "failed"
    failed.click()
    assert EVIL in page.locator("#panel .error").first.inner_text()
    assert page.title() != "owned"
    assert page.locator("#panel img").count() == 0


def test_figure_leads_to_its_runs(visit):
    page = visit()
    page.locator("#block-figure-curves button.runs").click()
    runs = page.locator("#panel .run")
    assert runs.count() > 3
    runs.first.locator("> summary").click()
    runs.first.locator("dd", has_text=SHA).first.wait_for()  # filled when it is open


def test_no_table_is_cut_off_on_a_laptop(visit):
    page = visit(viewport={"width": 1280, "height": 800})
    wide = (
        "[...document.querySelectorAll('.table .box')].filter(n => n.scrollWidth > n.clientWidth)"
    )
    assert page.evaluate(f"{wide}.map(node => node.getAttribute('aria-label'))") == []


@pytest.mark.parametrize("width", [360, 390])
def test_page_never_scrolls_sideways_and_tables_do(visit, width):
    page = visit(viewport={"width": width, "height": 800})
    page_width = "[document.documentElement.scrollWidth, window.innerWidth]"
    scroll, inner = page.evaluate(page_width)
    assert scroll <= inner
    box = page.locator("#block-table-gzsl .box")
    before = box.locator("tbody th").first.bounding_box()["x"]
    assert box.evaluate("node => node.scrollWidth > node.clientWidth")
    box.evaluate("node => { node.scrollLeft = 200 }")
    assert box.locator("tbody th").first.bounding_box()["x"] == pytest.approx(before, abs=1)
    page.locator("td button.value").first.click()
    scroll, inner = page.evaluate(page_width)
    assert scroll <= inner


def test_contents_fold_on_a_phone_and_stay_in_sight(visit):
    page = visit(viewport={"width": 390, "height": 800})
    assert not page.locator("nav ol").is_visible()
    page.locator("nav summary").click()
    page.locator("nav a", has_text="curves").click()
    for _ in range(100):  # the page forbids eval, which wait_for_function needs
        if page.evaluate("window.scrollY") > 500:
            break
        page.wait_for_timeout(50)
    assert page.evaluate("window.scrollY") > 500
    assert page.locator("nav").bounding_box()["y"] == pytest.approx(0, abs=1)
    assert not page.locator("nav ol").is_visible()


def _ground(page) -> list[int]:
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return [int(part) for part in colour[4:-1].split(",")]


def test_dark_mode_follows_the_system_and_the_button(visit):
    dark = visit(color_scheme="dark")
    assert max(_ground(dark)) < 60
    dark.locator("#theme").click()
    assert min(_ground(dark)) > 240
    assert min(_ground(visit(color_scheme="light"))) > 240


def test_print_leaves_out_what_is_for_the_screen(visit):
    page = visit()
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert page.locator("#block-table-gzsl table").is_visible()
