"""Write docs/options.md from the options table: `python tools/write_options.py [--check]`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from headwater.config import ENV_PREFIX
from headwater.options import SETTINGS, Setting, Support

PAGE = Path(__file__).resolve().parents[1] / "docs" / "options.md"

HEAD = """# Options

Written by `tools/write_options.py` from `src/headwater/options/`; do not edit.

Every option can be given in three ways. A flag has preference, then the environment, then the file, then the default:

- a flag of `headwater node` with dashes: `--wal-mode fsync`; a list is one value with commas, a boolean is a flag
  without value (`--read-only`, `--no-read-only`);
- a variable: `HEADWATER_WAL_MODE=fsync`;
- a key of the YAML file that `--config` (or `HEADWATER_CONFIG`) names. Keys are those of Tarantool 3 for one instance;
  every option may also stand under `headwater:` by its own name. `database.mode: ro` is `read_only`, `log.to` and
  `log.file` make `log`, `credentials` creates users and roles when the node is first writable, and
  `{{ instance_name }}` is filled in.

Sizes may have a suffix (`64KiB`, `1.5GiB`), durations too (`500ms`, `10m`, `2h`). Options marked *dynamic* may be
changed while the node runs, by CALL of `box.cfg` with a map; `box.cfg` without arguments returns all that have a value.
"""


def page() -> str:
    return "\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    served = [row for row in SETTINGS.values() if row.support in (Support.SERVED, Support.OURS)]
    for section, rows in groupby(served, key=lambda row: row.section):
        yield f"## {section}\n"
        yield "| option | YAML | default | |\n|---|---|---|---|"
        yield from (_line(row) for row in rows)
        yield ""
    yield "## Known and not served\n"
    yield "Options of Tarantool's that are accepted and do nothing, so that its configurations go on working, or that"
    yield "take their default only, because any other value would promise what is not there. Those of its enterprise"
    yield "edition are unknown.\n"
    yield "| option | what happens | why |\n|---|---|---|"
    for row in SETTINGS.values():
        if row.support in (Support.IGNORED, Support.REFUSED):
            yield f"| `{row.name}` | {row.support.value} | {row.why} |"
    yield ""
    yield f"Variables are the names in capitals behind `{ENV_PREFIX}`."
    yield ""


def _line(row: Setting) -> str:
    notes = ["*dynamic*"] if row.dynamic else []
    meaning = row.meaning.replace("|", "\\|")
    yaml = f"`{row.yaml}`" if row.yaml else ""
    return f"| `{row.name}` | {yaml} | {row.default_text} | {' '.join([meaning, *notes])} |"


def main() -> int:
    text = page()
    if "--check" in sys.argv:
        return int(PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
