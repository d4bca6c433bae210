"""Rich Text Format: control words read in order, destinations that are no text left out, paragraphs and table rows kept."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from cortex.documents import BlockKind, ParsedBody
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.failures import FailureCode, unparsable
from data_jobs.parsers.tables import Row, add_table, has_header

_TOKEN = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|[\r\n]+|([^\\{}\r\n]+)"
)
# Groups whose content is no text of the document.
_SKIPPED = frozenset(
    b"fonttbl colortbl stylesheet info pict object header headerl headerr headerf footer footerl footerr footerf "
    b"themedata colorschememapping latentstyles datastore listtable listoverridetable rsidtbl generator xmlnstbl "
    b"filetbl revtbl fldinst bkmkstart bkmkend nonshppict objdata datafield wgrffmtfilter mmathPr template "
    b"passwordhash xe tc".split()
)
_CHARACTERS = {
    b"tab": "\t", b"line": "\n", b"emdash": "—", b"endash": "–", b"lquote": "‘", b"rquote": "’", b"ldblquote": "“",
    b"rdblquote": "”", b"bullet": "•", b"emspace": " ", b"enspace": " ", b"nbsp": " ",
}  # fmt: skip
_SYMBOLS = {b"~": " ", b"_": "-", b"-": "", b"\\": "\\", b"{": "{", b"}": "}", b"\r": "\n", b"\n": "\n"}
_CHARSETS = {0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 134: "gbk", 136: "big5", 161: "cp1253", 162: "cp1254",
             163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250"}  # fmt: skip
_MAX_DEPTH = 500
_OUTLINE_NONE = 9


@dataclass(frozen=True, slots=True)
class _State:
    """What a group sets and its end undoes."""

    is_skipped: bool = False
    fallback_chars: int = 1  # characters that stand for one \u, to be skipped
    codec: str = "cp1252"
    may_be_star: bool = False


def parse_rtf(content: bytes, name: str) -> ParsedBody:
    """Parse an RTF file."""
    if not content.lstrip().startswith(b"{\\rtf"):
        raise unparsable(FailureCode.CORRUPT, "it is not RTF")
    reader = _Reader()
    reader.read(content)
    return reader.builder.finish(title=reader.info.get("title", ""), author=reader.info.get("author", ""))


class _Reader:
    def __init__(self) -> None:
        self.builder = BodyBuilder()
        self.info: dict[str, str] = {}
        self._state = _State()
        self._stack: list[_State] = []
        self._text: list[str] = []
        self._raw = bytearray()  # bytes of the code page not yet decoded: characters may take two
        self._to_skip = 0
        self._code_page = "cp1252"
        self._fonts: dict[int, str] = {}
        self._font = 0
        self._in_fonts = False
        self._info_key = ""
        self._cells: list[str] = []
        self._rows: list[Row] = []
        self._in_table = False
        self._level = 0

    def read(self, content: bytes) -> None:
        """Read all tokens."""
        for match in _TOKEN.finditer(content):
            word, number, hexadecimal, symbol, brace, text = match.groups()
            if word:
                self._word(word, int(number) if number else None)
            elif hexadecimal:
                self._bytes(bytes([int(hexadecimal, 16)]))
            elif symbol:
                self._symbol(symbol)
            elif brace == b"{":
                self._open()
            elif brace == b"}":
                self._close()
            elif text:
                self._bytes(text)
        self._end_paragraph()
        self._end_table()

    def _open(self) -> None:
        self._decode()
        if len(self._stack) >= _MAX_DEPTH:
            raise unparsable(FailureCode.CORRUPT, "its groups are nested too deeply")
        self._stack.append(self._state)
        self._to_skip = 0

    def _close(self) -> None:
        self._decode()
        if self._info_key:
            self.info.setdefault(self._info_key, "".join(self._text).strip())
            self._text, self._info_key = [], ""
        if self._stack:
            self._state = self._stack.pop()
        self._in_fonts = self._in_fonts and self._state.is_skipped
        self._to_skip = 0

    def _symbol(self, symbol: bytes) -> None:
        if symbol == b"*":
            self._state = replace(self._state, may_be_star=True)
        elif symbol in _SYMBOLS:
            self._characters(_SYMBOLS[symbol])

    def _word(self, word: bytes, number: int | None) -> None:
        starred, self._state = self._state.may_be_star, replace(self._state, may_be_star=False)
        if starred and word not in (b"shptxt", b"shpinst", b"footnote", b"annotation"):
            self._state = replace(self._state, is_skipped=True)
        if word in (b"title", b"author") and self._state.is_skipped and not self._in_fonts:
            self._state = replace(self._state, is_skipped=False)
            self._info_key = word.decode()
            self._text = []
        elif word in _SKIPPED:
            self._decode()
            self._in_fonts = word == b"fonttbl"
            self._state = replace(self._state, is_skipped=True)
        elif word == b"u" and number is not None:
            self._decode()
            self._characters(_unicode(number), is_unicode=True)
            self._to_skip = self._state.fallback_chars
        elif word == b"uc":
            self._state = replace(self._state, fallback_chars=min(max(number or 0, 0), 10))
        elif word in _CHARACTERS:
            self._characters(_CHARACTERS[word])
        else:
            self._format(word, number)

    def _format(self, word: bytes, number: int | None) -> None:
        if word in (b"ansicpg",) and number:
            self._code_page = f"cp{number}" if number != 65001 else "utf-8"
            self._state = replace(self._state, codec=self._code_page)
        elif word == b"f" and number is not None:
            self._decode()
            self._font = number
            if not self._in_fonts:
                self._state = replace(self._state, codec=self._fonts.get(number, self._code_page))
        elif word == b"fcharset" and self._in_fonts and number in _CHARSETS and number:
            self._fonts[self._font] = _CHARSETS[number]
        elif word in (b"par", b"sect", b"page"):
            self._end_paragraph()
        elif word == b"pard":
            self._in_table, self._level = False, 0
        elif word == b"intbl":
            self._in_table = True
        elif word == b"outlinelevel" and number is not None:
            self._level = number + 1 if 0 <= number < _OUTLINE_NONE else 0
        elif word == b"cell":
            self._decode()
            self._cells.append("".join(self._text))
            self._text = []
        elif word == b"row":
            self._rows.append(Row(tuple(self._cells)))
            self._cells = []

    def _bytes(self, raw: bytes) -> None:
        if self._to_skip:
            n = min(self._to_skip, len(raw))
            self._to_skip, raw = self._to_skip - n, raw[n:]
        if not self._state.is_skipped:
            self._raw += raw

    def _characters(self, text: str, is_unicode: bool = False) -> None:
        if self._to_skip and not is_unicode:
            self._to_skip -= 1
        elif not self._state.is_skipped:
            self._decode()
            self._text.append(text)

    def _decode(self) -> None:
        if self._raw:
            try:
                self._text.append(self._raw.decode(self._state.codec, errors="replace"))
            except LookupError:
                self._text.append(self._raw.decode("cp1252", errors="replace"))
            self._raw.clear()

    def _end_paragraph(self) -> None:
        self._decode()
        if self._in_table:
            self._text.append(" ")
            return
        self._end_table()
        text = "".join(self._text)
        self._text = []
        if self._level:
            self.builder.heading(text, self._level)
        else:
            self.builder.add(BlockKind.PARAGRAPH, _joined_surrogates(text))

    def _end_table(self) -> None:
        if self._rows:
            add_table(self.builder, self._rows, 1 if has_header([row.cells for row in self._rows]) else 0)
        self._rows = []


def decompress(packed: bytes) -> bytes:
    """Unpack the compressed RTF of Outlook messages (MS-OXRTFCP)."""
    if len(packed) < 16:
        raise unparsable(FailureCode.CORRUPT, "its RTF body is cut off")
    size, kind = int.from_bytes(packed[4:8], "little"), packed[8:12]
    if kind == b"MELA":
        return packed[16 : 16 + size]
    window = bytearray(_PRESET.ljust(4096, b"\0"))
    write, at = len(_PRESET), 16
    out = bytearray()
    while at < len(packed) and len(out) < size:
        control, at = packed[at], at + 1
        for bit in range(8):
            if at >= len(packed):
                break
            if not control >> bit & 1:
                out.append(packed[at])
                window[write % 4096] = packed[at]
                write, at = write + 1, at + 1
                continue
            reference, at = int.from_bytes(packed[at : at + 2], "big"), at + 2
            offset, length = reference >> 4, (reference & 0xF) + 2
            if offset == write % 4096:
                return bytes(out)
            for i in range(length):
                byte = window[(offset + i) % 4096]
                out.append(byte)
                window[write % 4096] = byte
                write += 1
    return bytes(out)


_PRESET = (
    b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \\fdecor MS Sans "
    b"SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx"
)


def _unicode(number: int) -> str:
    return chr(number & 0xFFFF)


def _joined_surrogates(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", errors="replace")
