"""Chromium, and what is looked at on every page of a console: axe, light and dark, wide and narrow, and pictures."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

__all__ = ["CHROMIUM", "IMAGES", "LOOKS", "NARROW", "WIDE", "accessible", "fits", "launched", "looked_at"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
IMAGES = Path(__file__).parents[2] / "docs" / "images"
WIDE, NARROW = {"width": 1200, "height": 900}, {"width": 400, "height": 860}
_QUIET = ("--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update")
_MOST_BYTES = 150_000
_KEPT = ("inbox", "run", "second-look", "rules", "left", "budgets-over-time", "log", "consumer-run")

LOOKS = {
    "budgets.html": ("budgets-over-time", "budgets"),
    "card_look.html": ("compare",),
    "cards.html": ("cards",),
    "check.html": ("check",),
    "consumer_run.html": ("consumer-run",),
    "consumer_runs.html": ("consumer",),
    "data.html": ("data",),
    "data_look.html": ("remove-data",),
    "entered.html": ("entered",),
    "inbox.html": ("first-start", "inbox", "all-runs"),
    "left.html": ("left-runs", "nothing-left"),
    "left_row.html": ("left-row",),
    "left_run.html": ("left",),
    "log.html": ("log", "log-of-a-run"),
    "refused.html": ("refused",),
    "revoke_look.html": ("revoke",),
    "rules.html": ("rules", "wrong-rules"),
    "rules_look.html": ("rules-change",),
    "rules_try.html": ("rules-allow", "rules-refuse"),
    "run.html": ("run", "trial"),
    "second_look.html": ("second-look", "withdraw"),
    "trouble.html": ("trouble",),
    "used.html": ("used",),
}
"""Which looks are at which template: a test says that none is left out."""


@contextmanager
def launched() -> Iterator[Browser]:
    """The system's Chromium: once for a whole module, it takes long to start."""
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-sync", *_QUIET]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=arguments)
        yield browser
        browser.close()


def accessible(page: Page, name: str) -> None:
    """What axe says of a page, light and dark, at both widths."""
    axe = Axe()
    for size in (NARROW, WIDE):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            found = axe.run(page)
            assert found.violations_count == 0, (name, scheme, size, found.generate_report())
        fits(page, name, size["width"])


def fits(page: Page, name: str, width: int) -> None:
    """Nothing of a page is wider than the screen."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)


def looked_at(page: Page, name: str, *, folder: Path) -> None:
    """A page is accessible, fits a telephone; and pictures of it."""
    assert name in {look for looks in LOOKS.values() for look in looks}, name
    accessible(page, name)
    other = Path(tempfile.gettempdir()) / f"likeset-console-{os.getpid()}"
    for size in (NARROW, WIDE):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        page.evaluate("scrollTo(0, 0)")
        path = (folder if name in _KEPT else other) / f"console-{name}-{size['width']}.png"
        path.parent.mkdir(exist_ok=True)
        page.screenshot(path=path)
        with Image.open(path) as picture:
            fewer = picture.quantize(64)
        fewer.save(path, optimize=True)
        assert path.stat().st_size < _MOST_BYTES, path.name
