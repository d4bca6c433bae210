"""Everybody can use the page: names, landmarks, contrast, small screens, both themes, reduced motion, little weight."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from serve_apps.routes.pages import WEB
from tests.browser.conftest import OpenPage
from tests.browser.test_page import RECEIPTS, ask
from tests.twins.service import ADA

# Controls that are shown and have no accessible name, neither by label, reference nor text.
NAMELESS = """() => [...document.querySelectorAll(
    'button, a, input, textarea, summary, dialog, aside, [role=group], [role=radiogroup]')]
  .filter((node) => node.checkVisibility())
  .filter((node) => !(node.getAttribute('aria-label') || node.labels?.length || node.textContent.trim()
      || (node.getAttribute('aria-labelledby') || '').split(' ')
          .some((id) => document.getElementById(id)?.textContent.trim())))
  .map((node) => node.outerHTML.slice(0, 80))"""
DOUBLED = """() => { const ids = [...document.querySelectorAll('[id]')].map((node) => node.id);
  return ids.filter((id, at) => ids.indexOf(id) !== at) }"""
RESOLVE = """(name) => { const node = document.createElement('i'); node.style.color = `var(--${name})`;
  document.body.append(node); const found = getComputedStyle(node).color; node.remove(); return found }"""
TEXTS = [
    *[("ink", ground) for ground in ("paper", "surface", "sunken", "tint")],
    *[("soft", ground) for ground in ("paper", "surface", "sunken")],
    *[("accent", ground) for ground in ("paper", "surface")],
    *[("accent-ink", "accent"), ("tint-ink", "tint"), ("mark-ink", "mark"), ("warn-ink", "warn")],
    *[("bad-ink", ground) for ground in ("bad", "paper", "surface")],
]


def test_every_control_has_a_name(open_page: OpenPage) -> None:
    """Sign-in, answer, source, menus and dialogs show no control without an accessible name, and no id twice."""
    page = open_page()
    assert page.evaluate(NAMELESS) == []
    page = open_page(ADA)
    ask(page, RECEIPTS)
    page.locator(".chip").first.click()
    page.locator("#panel .cited").wait_for()
    assert page.evaluate(NAMELESS) == []
    page.keyboard.press("Escape")
    page.locator("#account summary").click()
    page.get_by_role("button", name="Sources").click()
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(DOUBLED) == []


def test_landmarks_and_live_regions_exist(open_page: OpenPage) -> None:
    """There is one banner, one main, one search form, and the answer is announced once it is whole."""
    page = open_page(ADA)
    for landmark in (page.get_by_role("banner"), page.get_by_role("main"), page.get_by_role("search")):
        expect(landmark).to_have_count(1)
    ask(page, RECEIPTS)
    text = page.locator("#text")
    expect(text).to_have_attribute("aria-live", "polite")
    assert text.get_attribute("aria-busy") is None
    assert page.evaluate("document.documentElement.lang") == "en"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast(open_page: OpenPage, scheme: str) -> None:
    """Every pair of text and ground that the sheet uses has at least 4.5 : 1 (WCAG 2.2, 1.4.3)."""
    page = open_page(color_scheme=scheme)
    too_low = {pair: ratio for pair in TEXTS if (ratio := contrast(page, *pair)) < 4.5}
    assert too_low == {}


def test_the_theme_can_be_chosen_and_stays(open_page: OpenPage) -> None:
    """The switch turns light into dark, and a reload keeps it."""
    page = open_page(ADA)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Switch between light and dark").click()
    dark = page.evaluate(ground)
    page.reload()
    assert page.evaluate(ground) == dark != light


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_nothing_overflows_a_small_screen(open_page: OpenPage, path: str) -> None:
    """At 360 pixels nothing needs sideways scrolling."""
    page = open_page("" if path == "/docs" else ADA, path, viewport={"width": 360, "height": 740})
    if path == "/":
        ask(page, RECEIPTS)
    else:
        page.locator(".operation").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_motion_is_reduced_on_request(open_page: OpenPage) -> None:
    """With reduced motion nothing is animated."""
    page = open_page(ADA, reduced_motion="reduce")
    ask(page, RECEIPTS)
    page.locator(".chip").first.click()
    assert page.locator("#panel").evaluate("node => getComputedStyle(node).animationName") == "none"


def test_the_reference_names_every_address(open_page: OpenPage) -> None:
    """/docs renders each operation of the local OpenAPI document, and a problem's type leads to its explanation."""
    page = open_page("", "/docs#permissions.unavailable")
    expect(page.locator(".operation")).to_have_count(14)
    expect(page.locator("tr[id='permissions.unavailable']")).to_be_in_viewport()


def test_the_page_is_small_and_names_no_other_host() -> None:
    """The page's files weigh less than 64 kB before compression; no file points at another host."""
    files = [path for path in WEB.iterdir() if not path.name.startswith("docs")]
    assert sum(path.stat().st_size for path in files) < 64_000
    assert {host for path in WEB.iterdir() for host in hosts(path)} <= {"www.w3.org"}


def test_contrast_is_computed_as_the_standard_says() -> None:
    """Black on white is 21 : 1 by the formula used here."""
    black, white = luminance("rgb(0, 0, 0)"), luminance("rgb(255, 255, 255)")
    assert (white + 0.05) / (black + 0.05) == pytest.approx(21)


def hosts(path: Path) -> set[str]:
    return set(re.findall(r"https?://([\w.-]+)", path.read_text()))


def contrast(page: Page, ink: str, ground: str) -> float:
    """The contrast ratio of two named colours as the browser resolves them."""
    shades = sorted((luminance(page.evaluate(RESOLVE, name)) for name in (ink, ground)), reverse=True)
    return (shades[0] + 0.05) / (shades[1] + 0.05)


def luminance(colour: str) -> float:
    """Relative luminance of `rgb(r, g, b)` (WCAG 2.2)."""
    channels = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
    return sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
