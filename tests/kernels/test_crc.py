"""CRC-32C without inversions, as xlog.c computes it."""

from __future__ import annotations

from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st


def test_the_usual_check_value_with_inversions_added(k: ModuleType) -> None:
    assert k.crc32c(b"123456789", 0xFFFFFFFF) ^ 0xFFFFFFFF == 0xE3069283


def test_start_value_is_zero_and_nothing_is_inverted_at_the_end(k: ModuleType) -> None:
    assert k.crc32c(b"") == 0
    assert k.crc32c(bytes(1000)) == 0
    assert k.crc32c(b"123456789") == 0x58E3FA20


def test_all_buffers_are_taken(k: ModuleType) -> None:
    data = bytes(range(256)) * 5
    assert k.crc32c(data) == k.crc32c(bytearray(data)) == k.crc32c(memoryview(data))
    assert k.crc32c(memoryview(data)[3:900]) == k.crc32c(data[3:900])


def _by_bits(data: bytes, crc: int) -> int:
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc


@given(data=st.binary(max_size=300), start=st.integers(0, 2**32 - 1), cut=st.integers(0, 300))
def test_equals_the_definition_whole_and_in_pieces(k: ModuleType, data: bytes, start: int, cut: int) -> None:
    expected = _by_bits(data, start)
    assert k.crc32c(data, start) == expected
    assert k.crc32c(data[cut:], k.crc32c(data[:cut], start)) == expected
