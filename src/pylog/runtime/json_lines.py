"""Facts as lines of JSON."""

import base64
import json

__all__ = ["json_line", "printable_json", "text_or_base64"]

# One encoder for all lines: json.dumps would make one for each.
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False)


def text_or_base64(data: bytes | None) -> str | dict[str, str] | None:
    """Bytes for JSON: a string where they are UTF-8, else {"base64": ...}; null stays null."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def json_line(value: object) -> str:
    """A value as one line of JSON: UTF-8, no spaces. Characters that do not print are escaped as JSON has it."""
    return printable_json(_ENCODER.encode(value))


def printable_json(text: str) -> str:
    """JSON on one line, with characters that do not print, and halves of surrogate pairs, as JSON escapes them."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)
