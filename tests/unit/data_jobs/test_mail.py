"""Mail: headers, the better body part, attachments and mail inside mail."""

from __future__ import annotations

from email.message import EmailMessage

from tests.unit.data_jobs.seen import blocks, code_of, parsed


def message(subject: str = "Grüße") -> EmailMessage:
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = subject, "Ana Lind <ana@example.org>", "bo@example.org"
    mail["Date"] = "Mon, 02 Mar 2026 10:00:00 +0100"
    return mail


def texts(content: bytes) -> list[str]:
    return [text for _, text, _ in blocks(parsed(content, "a.eml"))]


def test_headers_are_metadata_and_text() -> None:
    """Who wrote to whom, when and about what can be searched and is metadata."""
    mail = message()
    mail.set_content("Hello.\n\nBye.")
    body = parsed(mail.as_bytes(), "a.eml")
    assert [text for _, text, _ in blocks(body)] == [
        "Grüße",
        "From: Ana Lind <ana@example.org>\nTo: bo@example.org\nDate: Mon, 02 Mar 2026 10:00:00 +0100",
        "Hello.",
        "Bye.",
    ]
    assert (body.title, body.author, body.meta["to"]) == ("Grüße", "Ana Lind", "bo@example.org")
    assert body.created_at is not None and body.created_at.isoformat() == "2026-03-02T09:00:00+00:00"


def test_a_stub_of_a_plain_part_gives_way_to_html() -> None:
    """A plain part that only points to the HTML one is not the mail."""
    mail = message()
    mail.set_content("See HTML.")
    mail.add_alternative("<p>The whole story, told at length.</p>", subtype="html")
    assert texts(mail.as_bytes())[2:] == ["The whole story, told at length."]


def test_attachments_stand_under_their_name() -> None:
    """What can be parsed is text; what cannot is named with its reason."""
    mail = message()
    mail.set_content("See attached, it has everything we agreed.")
    mail.add_attachment("k,v\na,1\n", subtype="csv", filename="rates.csv")
    mail.add_attachment(b"\x89PNG\r\n", maintype="image", subtype="png", filename="logo.png")
    body = parsed(mail.as_bytes(), "a.eml")
    assert [text for _, text, _ in blocks(body)][3:] == ["Attachment: rates.csv", "k | v", "k: a | v: 1"]
    assert body.blocks[-1].heading_path == ("Grüße", "Attachment: rates.csv")
    assert body.meta["skipped_attachments"] == "logo.png (document.unsupported)"


def test_mail_in_mail_ends_somewhere() -> None:
    """Forwarded mail is read, to a depth that no bomb passes."""
    mail = message("innermost")
    mail.set_content("the oldest text")
    for depth in range(8):
        outer = message(f"level {depth}")
        outer.set_content(f"forwarding at {depth}, which is long enough to count")
        outer.add_attachment(mail)
        mail = outer
    found = texts(mail.as_bytes())
    assert found[0] == "level 7"
    assert "level 4" in found
    assert "the oldest text" not in found


def test_mbox_holds_several_messages() -> None:
    """The messages of a folder follow one another."""
    mails = []
    for n in range(2):
        mail = message(f"mail {n}")
        mail.set_content(f"text {n}")
        mails.append(b"From ana@example.org Mon Mar  2 10:00:00 2026\n" + mail.as_bytes() + b"\n")
    body = parsed(b"".join(mails), "a.mbox")
    assert [text for kind, text, _ in blocks(body) if kind == "heading"] == ["mail 0", "mail 1"]
    assert body.meta["messages"] == "2"


def test_wrong_charsets_and_broken_headers_are_survived() -> None:
    """A mail that lies about its encoding is read as what it is."""
    raw = b"From: =?bad?q?x\nSubject: ok\nContent-Type: text/plain; charset=us-ascii\n\nGr\xc3\xbc\xc3\x9fe aus K\xc3\xb6ln an alle im Haus.\n"
    assert texts(raw)[-1] == "Grüße aus Köln an alle im Haus."


def test_no_headers_is_no_mail() -> None:
    """A file named .eml that holds no mail is corrupt."""
    assert code_of(b"just text\n", "a.eml") == "document.corrupt"
