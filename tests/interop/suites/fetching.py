"""Gets the suites: source distributions from the package index, checked against their known hashes, never stored in
the project."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tarfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

import pytest
from tests.support.headwater import ROOT

INDEX = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple")
CACHE = ROOT / "var" / "suites"


@dataclass(frozen=True, slots=True)
class Suite:
    """One source distribution."""

    project: str
    version: str
    sha256: str

    @property
    def stem(self) -> str:
        return f"{self.project}-{self.version}"


ASYNCTNT = Suite("asynctnt", "2.4.0", "843be2a330b122f30b1473b75dcf6167cd58fbb9aa116a9e9444b1312097355c")
TARANTOOL = Suite("tarantool", "1.3.0", "4cb989565cea8304f59116c28be5395537897a08fedfd6caa1fbd299b03f04bd")


def unpacked(suite: Suite, directory: Path) -> Path:
    """The suite's tree below `directory`. Skips the test when it cannot be had."""
    archive = CACHE / f"{suite.stem}.tar.gz"
    if not archive.exists():
        try:
            data = download(suite)
        except (OSError, urllib.error.URLError) as error:
            pytest.skip(f"the sources of {suite.stem} cannot be downloaded: {error}")
        CACHE.mkdir(parents=True, exist_ok=True)
        archive.write_bytes(data)
    with tarfile.open(archive) as tar:
        tar.extractall(directory, filter="data")
    # The installed connector is tested, not the sources beside its tests.
    shutil.rmtree(directory / suite.stem / suite.project)
    return directory / suite.stem


def download(suite: Suite) -> bytes:
    page_url = f"{INDEX.rstrip('/')}/{suite.project}/"
    with urllib.request.urlopen(page_url, timeout=20) as page:
        links = re.findall(r'href="([^"#]*)', page.read().decode())
    link = next((link for link in links if link.endswith(f"/{suite.stem}.tar.gz")), None)
    if link is None:
        raise OSError(f"{suite.stem} is not in the package index")
    with urllib.request.urlopen(urljoin(page_url, link), timeout=60) as file:
        data: bytes = file.read()
    if hashlib.sha256(data).hexdigest() != suite.sha256:
        raise OSError(f"{suite.stem}.tar.gz is not the file that was tested before")
    return data
