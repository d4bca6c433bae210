"""Compound files by what they hold: Word 97, PowerPoint 97, Excel 97, Outlook messages, or an encrypted package."""

from __future__ import annotations

from cortex.documents import ParsedBody
from data_jobs.parsers.compound import CompoundFile
from data_jobs.parsers.failures import FailureCode, unparsable


def parse_compound(content: bytes, name: str) -> ParsedBody:
    """Parse whatever the compound file holds; raises Unparsable for what we cannot read."""
    compound = CompoundFile(content)
    if "EncryptedPackage" in compound or "EncryptionInfo" in compound:
        raise unparsable(FailureCode.ENCRYPTED, "it is protected by a password", "remove the password")
    if "WordDocument" in compound:
        from data_jobs.parsers.word97 import parse_word97

        return parse_word97(compound)
    if "PowerPoint Document" in compound:
        from data_jobs.parsers.powerpoint97 import parse_powerpoint97

        return parse_powerpoint97(compound)
    if "Workbook" in compound or "Book" in compound:
        from data_jobs.parsers.xls import parse_xls

        return parse_xls(content)
    if "__properties_version1.0" in compound:
        from data_jobs.parsers.outlook import parse_outlook

        return parse_outlook(compound)
    raise unparsable(FailureCode.UNSUPPORTED, "it is a compound file of an unknown kind", "export it as PDF")
