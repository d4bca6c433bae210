"""The page as people use it: ask, read, open a source, switch person, load a folder; by mouse and by keyboard."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from cortex.errors import ChecksUnavailable
from cortex.evidence import Degraded
from tests.browser.conftest import OpenPage
from tests.twins.running_app import RunningApp
from tests.twins.service import ADA, BEN

RECEIPTS = "When are travel receipts due and who pays?"
SALARY = "What is the salary band of a senior engineer?"


def ask(page: Page, question: str) -> None:
    page.locator("#question").fill(question)
    page.locator("#question").press("Enter")
    expect(page.locator("#after")).to_be_visible()


def test_an_answer_streams_in_with_its_citations(app: RunningApp, open_page: OpenPage) -> None:
    """Words appear before the answer is whole; at the end every number is a citation of listed evidence."""
    app.service.token_delay_s = 0.06
    page = open_page(ADA)
    page.locator("#question").fill(RECEIPTS)
    page.keyboard.press("Enter")
    expect(page.locator("#text")).to_contain_text("Receipts are due")
    assert page.locator("#after").is_hidden()
    expect(page.locator("#stop")).to_be_visible()
    expect(page.locator("#after")).to_be_visible()
    expect(page.get_by_role("button", name="Citation 1: Travel policy")).to_be_visible()
    assert page.locator(".card").count() >= page.locator("#text .chip").count() == 2
    expect(page.get_by_role("status")).to_have_text("Answer ready, 2 citations")


def test_a_citation_opens_the_source_at_its_place(open_page: OpenPage) -> None:
    """The panel shows the whole document, the cited passage highlighted and in view, with a link to the original."""
    page = open_page(ADA, viewport={"width": 1280, "height": 320})
    ask(page, RECEIPTS)
    page.get_by_role("button", name="Citation 1: Travel policy").click()
    panel = page.get_by_role("complementary", name="Travel policy")
    expect(panel.locator(".chunk")).to_have_count(3)
    expect(panel.locator("mark")).to_have_text(re.compile("^Receipts are due"))
    expect(panel.locator(".cited")).to_be_in_viewport()
    link = panel.get_by_role("link", name="Open the original")
    expect(link).to_have_attribute("href", "https://wiki.example.com/1#L25-L33")
    expect(link).to_have_attribute("rel", re.compile("noreferrer"))
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()


def test_a_switched_person_sees_their_own_answer(open_page: OpenPage) -> None:
    """In a demo home the same question is asked again as the other person, and what that one may not see is gone."""
    page = open_page(ADA)
    ask(page, SALARY)
    expect(page.locator("#text")).to_contain_text("82,000")
    page.locator("#account summary").click()
    page.get_by_role("button", name=BEN).click()
    expect(page.locator("#who")).to_have_text(BEN)
    expect(page.locator(".answer.abstained")).to_be_visible()
    assert "82,000" not in page.content()
    expect(page.get_by_role("button", name="Sources")).to_be_hidden()


def test_nothing_of_the_last_person_stays_in_the_page(open_page: OpenPage) -> None:
    """After a switch and after signing out, no text, title, citation or question of the one before is left, hidden or not."""
    page = open_page(ADA)
    ask(page, SALARY)
    page.locator("#text .chip").first.click()
    expect(page.locator("#panel-body")).to_contain_text("82,000")
    title = page.locator("#panel-title").inner_text()
    page.keyboard.press("Escape")
    page.locator("#account summary").click()
    page.get_by_role("button", name=BEN).click()
    expect(page.locator(".answer.abstained")).to_be_visible()
    assert "82,000" not in page.content()
    assert title not in page.content()
    page.locator("#account summary").click()
    page.get_by_role("button", name=ADA).click()
    expect(page.locator("#text")).to_contain_text("82,000")
    page.locator("#account summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("#sign-in")).to_be_visible()
    for left in ("82,000", title, SALARY):
        assert left not in page.content()


def test_everything_works_from_the_keyboard(open_page: OpenPage) -> None:
    """Ask, move through evidence, open by number, close, clear: without a mouse, and focus comes back."""
    page = open_page(ADA)
    expect(page.locator("#question")).to_be_focused()
    ask(page, RECEIPTS)
    page.keyboard.press("Tab")
    page.keyboard.press("j")
    expect(page.locator("#evidence-1")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#evidence-2")).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.locator("#panel")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#evidence-1")).to_be_focused()
    page.keyboard.press("2")
    expect(page.locator("#panel .cited")).to_contain_text("Book trains")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.locator("#question")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#question")).to_have_value("")
    expect(page.locator("#answer")).to_be_hidden()


def test_stopping_stops_the_work(app: RunningApp, open_page: OpenPage) -> None:
    """Escape ends a running answer, and the server stops with it."""
    app.service.token_delay_s = 0.3
    page = open_page(ADA)
    page.locator("#question").fill(RECEIPTS)
    page.keyboard.press("Enter")
    expect(page.locator("#text")).to_contain_text("Receipts")
    page.keyboard.press("Escape")
    expect(page.locator("#send")).to_be_visible()
    page.wait_for_timeout(1000)
    assert app.service.n_cancelled == 1


def test_an_abstention_looks_like_one(open_page: OpenPage) -> None:
    """No citations, no claim: the answer is framed as none."""
    page = open_page(ADA)
    ask(page, "xylophone lessons")
    expect(page.locator(".answer.abstained")).to_be_visible()
    assert page.locator(".chip").count() == 0
    expect(page.get_by_role("status")).to_have_text("No answer: the evidence does not support one")
    page.get_by_role("button", name="Show the nearest passages").click()
    expect(page.get_by_role("radio", name="Search only")).to_be_checked()


def test_degraded_parts_and_failures_are_shown(app: RunningApp, open_page: OpenPage) -> None:
    """A degraded lane is named above the answer; a failure says what to do and offers to try again."""
    app.service.degraded = (Degraded("dense", "lane.failed", "The meaning lane did not answer."),)
    page = open_page(ADA)
    ask(page, RECEIPTS)
    expect(page.locator(".notice")).to_contain_text("The meaning lane did not answer.")
    app.service.fail_with = ChecksUnavailable("permissions cannot be checked", hint="try again shortly")
    page.locator("#question").fill("receipts due")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="permissions cannot be checked")).to_be_visible()
    app.service.fail_with = None
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#after")).to_be_visible()


def test_documents_cannot_bring_markup(open_page: OpenPage) -> None:
    """Tags in a document are shown as the text they are, in answer, evidence and source."""
    page = open_page(ADA)
    ask(page, "Why was the checkout slow?")
    page.locator("#evidence-2").click()
    expect(page.locator("#panel .cited")).to_contain_text("<script>alert('x')</script>")
    assert page.locator("main script, aside script").count() == 0


def test_searching_only_lists_passages_with_why_they_ranked(open_page: OpenPage) -> None:
    """Search-only shows passages with both lanes' ranks, and filters narrow them."""
    page = open_page(ADA)
    page.get_by_role("radio", name="Search only").check()
    page.locator("#question").fill("checkout slow receipts due")
    page.locator("#question").press("Enter")
    expect(page.locator(".card").first).to_contain_text("meaning #1")
    expect(page.locator(".card").first).to_contain_text("words #")
    assert page.locator("#after").is_hidden()
    page.get_by_role("button", name="Only collection ops").click()
    expect(page.locator(".card .meta").first).to_contain_text("chat")
    assert {text.split(" ")[0] for text in page.locator(".card .meta").all_inner_texts()} == {"chat"}


def test_a_thumb_with_a_comment_is_stored(app: RunningApp, open_page: OpenPage) -> None:
    """A thumb is sent at once; a comment may follow it."""
    page = open_page(ADA)
    ask(page, RECEIPTS)
    page.get_by_role("button", name="Not helpful").click()
    page.get_by_label("What was wrong or missing? (optional)").fill("out of date")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#comment-form")).to_be_hidden()
    page.wait_for_timeout(300)
    assert [thumb[1:] for thumb in app.service.thumbs] == [(False, ""), (False, "out of date")]


def test_a_follow_up_is_asked(open_page: OpenPage) -> None:
    """A follow-up question is one press away."""
    page = open_page(ADA)
    ask(page, RECEIPTS)
    page.get_by_role("button", name="When are receipts due?").click()
    expect(page.locator("#question")).to_have_value("When are receipts due?")
    expect(page.locator("#after")).to_be_visible()


def test_an_operator_adds_a_folder_and_watches_it_load(open_page: OpenPage) -> None:
    """The folder appears with progress, then with what failed and why; a wrong path is refused with its reason."""
    page = open_page(ADA)
    page.get_by_role("button", name="Sources").click()
    dialog = page.get_by_role("dialog", name="Sources")
    dialog.get_by_label("Add a folder of the server's machine").fill("notes")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_contain_text("absolute path")
    dialog.get_by_label("Add a folder of the server's machine").fill("/srv/handbook")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.locator(".state")).to_have_text("running")
    expect(dialog.locator(".state")).to_have_text("succeeded", timeout=20_000)
    dialog.get_by_text("1 failed").last.click()
    expect(dialog).to_contain_text("the PDF needs a password")


def test_what_loads_is_listed_first(open_page: OpenPage) -> None:
    """A load under way stands above what is done, wherever its name sorts, and a long name leaves its state in one line."""
    page = open_page(ADA)
    page.get_by_role("button", name="Sources").click()
    dialog = page.get_by_role("dialog", name="Sources")
    states = dialog.locator(".state")
    for folder, n_sources in (("/srv/" + "handbook-" * 20, 1), ("/srv/zebra", 2)):
        dialog.get_by_label("Add a folder of the server's machine").fill(folder)
        dialog.get_by_role("button", name="Add").click()
        expect(states).to_have_count(n_sources)
        if n_sources == 1:
            expect(states.first).to_have_text("succeeded", timeout=20_000)
    expect(states).to_have_text(["running", "succeeded"])
    expect(dialog.locator("strong").first).to_contain_text("zebra")
    heights = [box["height"] for state in states.all() if (box := state.bounding_box())]
    assert abs(heights[0] - heights[1]) < 1.0


def test_questions_are_kept_on_the_device_only_if_wanted(open_page: OpenPage) -> None:
    """Recent questions live in memory; storage holds them only after the switch, and loses them with it."""
    page = open_page(ADA)
    ask(page, RECEIPTS)
    stored = "Object.values(localStorage).join()"
    assert "receipts" not in page.evaluate(stored)
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name=RECEIPTS)).to_be_visible()
    page.locator("#account summary").click()
    page.get_by_label("Remember my questions on this device").check()
    assert "receipts" in page.evaluate(stored)
    page.get_by_label("Remember my questions on this device").uncheck()
    assert "receipts" not in page.evaluate(stored)


def test_signing_out_ends_the_session(app: RunningApp, open_page: OpenPage) -> None:
    """After signing out the cookie is gone and the page asks for a code."""
    page = open_page(ADA)
    page.locator("#account summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert page.context.cookies() == []
    page.goto(app.url)
    expect(page.get_by_label("One-time code")).to_be_focused()


def test_a_link_fills_in_a_code_and_does_not_sign_in(app: RunningApp, open_page: OpenPage) -> None:
    """A code in the address is offered, not used, and leaves the address bar."""
    page = open_page("", f"/#code={app.code(ADA)}")
    expect(page.get_by_label("One-time code")).to_have_value(re.compile("-"))
    assert "code" not in page.url
    page.keyboard.press("Enter")
    expect(page.locator("#who")).to_have_text(ADA)


def test_a_wrong_code_is_refused_with_its_reason(open_page: OpenPage) -> None:
    """A code that is not known says so beside the field."""
    page = open_page()
    page.get_by_label("One-time code").fill("AAAA-BBBB-CCCC")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="The code is not valid")).to_be_visible()
