"""Build the compiled kernels if this machine can; everything else about the package is in pyproject.toml.

Without a C compiler or Cython the install goes on: `headwater.kernels` then uses its plain Python twin.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

KERNELS = "src/headwater/kernels"


def _say_plain(why: object) -> None:
    sys.stderr.write(f"headwater: the compiled kernels are not built ({why}); the plain Python ones will be used.\n")


class OptionalBuildExt(build_ext):
    """A build that does not fail the install where there is no compiler, unless HEADWATER_REQUIRE_KERNELS=1."""

    def run(self) -> None:
        self._try(super().run)

    def build_extension(self, ext: Extension) -> None:
        self._try(lambda: super(OptionalBuildExt, self).build_extension(ext))

    def _try(self, build: Any) -> None:
        try:
            build()
        except Exception as error:
            if os.environ.get("HEADWATER_REQUIRE_KERNELS") == "1":
                raise
            _say_plain(error)


def _parts() -> list[str]:
    return sorted(name for name in os.listdir(KERNELS) if name.endswith(".pxi"))


def _native_parts() -> list[str]:
    return [name for name in _parts() if not name.startswith("columns")]


def _column_parts() -> list[str]:
    """What is between files and Arrow, and the little of the other kernel that it stands on."""
    return ["crc32c.pxi", "ext.pxi", "mp.pxi", *(name for name in _parts() if name.startswith("columns"))]


def _split_parts() -> list[str]:
    """What is between logs and states: keys and their order, and how rows are read."""
    keys = ["mp", "ext", "number", "compare", "types", "probe", "keydef", "columns_buffer", "columns_row"]
    return [f"{name}.pxi" for name in keys]


def _kernel(name: str, parts: list[str]) -> Extension:
    return Extension(
        f"headwater.kernels.{name}",
        [f"{KERNELS}/{name}.pyx"],
        depends=[f"{KERNELS}/{part}" for part in parts],
        extra_compile_args=["-O3", "-g0", "-fno-strict-aliasing", "-Wno-unused-function", "-Wno-unreachable-code"],
    )


def extensions() -> list[Extension]:
    if os.environ.get("HEADWATER_PURE") == "1":
        return []
    try:
        from Cython.Build import cythonize
    except ImportError as error:
        _say_plain(error)
        return []
    kernels = [
        _kernel("_native", _native_parts()),
        _kernel("_columns", _column_parts()),
        _kernel("_split", _split_parts()),
    ]
    result: list[Extension] = cythonize(kernels, build_dir="build/cython")
    return result


setup(ext_modules=extensions(), cmdclass={"build_ext": OptionalBuildExt})
