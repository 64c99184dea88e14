"""Fuzz one target, or all in turn, for as long as it is let.

    python -m tests.fuzz --list
    python -m tests.fuzz xlog_blocks --seconds 3600 --seed 1      random mutations, without any tool
    python -m tests.fuzz xlog_blocks --atheris -- -runs=1000000   guided by coverage, if `atheris` is installed

What fails is written as `crash-<target>-<hash>` and shown; `--replay FILE` runs it again.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.mutate import mutate
from tests.fuzz.targets import TARGETS, Target
from tests.fuzz.test_fuzz import SLOW_SECONDS, check, cost


def main() -> int:
    options = _arguments()
    names = list(TARGETS) if options.target == "all" else [options.target]
    if options.list:
        print("\n".join(TARGETS))
        return 0
    if options.replay is not None:
        check(TARGETS[options.target], options.replay.read_bytes())
        return 0
    if options.atheris:
        return _atheris(TARGETS[options.target], options.rest)
    failed = 0
    for name in names:
        failed += _run(name, options.seconds / len(names), options.seed)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    """What stands behind `--` is for libFuzzer."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", nargs="?", default="all", choices=["all", *TARGETS])
    parser.add_argument("--list", action="store_true", help="names of the targets")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--replay", type=Path, help="run one input again")
    parser.add_argument("--atheris", action="store_true")
    given = sys.argv[1:]
    cut = given.index("--") if "--" in given else len(given)
    options = parser.parse_args(given[:cut])
    options.rest = given[cut + 1 :]
    return options


def _run(name: str, seconds: float, seed: int) -> int:
    """How many inputs failed; it stops at the first."""
    target = TARGETS[name]
    seeds = list(target.seeds())
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        data = mutate(random.Random(f"{seed} {name} {number}"), seeds)
        try:
            spent = cost(target, data)
            if spent > SLOW_SECONDS and min(cost(target, data) for _ in range(3)) > SLOW_SECONDS:
                raise TimeoutError(f"{spent:.3f} s for {len(data)} bytes")
        except Exception as error:
            print(f"{name}: input {number} of seed {seed}: {error!r}, kept in {_keep(name, data)}")
            return 1
        number += 1
    print(f"{name}: {number} inputs, nothing found")
    return 0


def _keep(name: str, data: bytes) -> Path:
    path = Path(f"crash-{name}-{hashlib.sha256(data).hexdigest()[:12]}")
    path.write_bytes(data)
    return path


def _atheris(target: Target, rest: list[str]) -> int:
    try:
        import atheris  # type: ignore[import-untyped]
    except ImportError:
        print("atheris is not installed: pip install atheris", file=sys.stderr)
        return 2
    atheris.instrument_all()
    with tempfile.TemporaryDirectory(prefix="headwater-fuzz-") as corpus:
        for number, seed in enumerate(target.seeds()):
            (Path(corpus) / f"seed-{number}").write_bytes(seed)
        atheris.Setup([sys.argv[0], *rest, corpus], lambda data: check(target, data) and None)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
