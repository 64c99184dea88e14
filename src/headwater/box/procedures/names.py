"""Names of procedures as CALL takes them: `box.space.t:select`, `box.space["t"].index[0]:get`
(lua/call.c, box_lua_find)."""

from __future__ import annotations

import re

_STOP = re.compile(r"[.:\[]")

Path = tuple[str | int, ...]


def parse_path(name: str) -> Path | None:
    """The steps of a name. Everything behind the first colon is one step. None where Lua would find nothing by it."""
    head = _STOP.search(name)
    path: list[str | int] = [name[: head.start()] if head else name]
    at = head.start() if head else len(name)
    while at < len(name):
        step = name[at]
        if step == ":":
            path.append(name[at + 1 :])
            break
        if step == ".":
            end = _end(name, at + 1)
            path.append(name[at + 1 : end])
        elif step == "[":
            end = name.find("]", at)
            key = _bracketed(name[at + 1 : end]) if end > 0 else None
            if key is None:
                return None
            path.append(key)
            end += 1
        else:
            return None
        at = end
    return tuple(path)


def _end(name: str, start: int) -> int:
    stop = _STOP.search(name, start)
    return stop.start() if stop else len(name)


def _bracketed(text: str) -> str | int | None:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    try:
        return int(text)
    except ValueError:
        return None
