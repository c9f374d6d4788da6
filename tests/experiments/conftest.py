"""A real browser that opens a report and sees whether it asks for anything or complains."""

from __future__ import annotations

import shutil

import pytest

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
    "--disable-component-update", "--no-first-run", "--disable-dev-shm-usage",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on this machine; the report is not opened in a browser")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser, address):
    """Open the module's `address`; at the end nothing may have been fetched or complained about."""
    contexts, complaints, requests = [], [], []

    def opened(**options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
    outside = [url for url in requests if url != address and not url.startswith("data:")]
    assert outside == []
