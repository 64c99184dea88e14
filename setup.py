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


def extensions() -> list[Extension]:
    if os.environ.get("HEADWATER_PURE") == "1":
        return []
    try:
        from Cython.Build import cythonize
    except ImportError as error:
        _say_plain(error)
        return []
    parts = sorted(f"{KERNELS}/{name}" for name in os.listdir(KERNELS) if name.endswith(".pxi"))
    kernel = Extension(
        "headwater.kernels._native",
        [f"{KERNELS}/_native.pyx"],
        depends=parts,
        extra_compile_args=["-O3", "-g0", "-fno-strict-aliasing", "-Wno-unused-function", "-Wno-unreachable-code"],
    )
    result: list[Extension] = cythonize([kernel], build_dir="build/cython")
    return result


setup(ext_modules=extensions(), cmdclass={"build_ext": OptionalBuildExt})
