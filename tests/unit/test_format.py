"""Sizes and durations as people read them."""

from __future__ import annotations

import pytest

from polylake._format import format_bytes, format_duration
from polylake.errors import ValidationError


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (512, "512 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (128 * 1024**2, "128.0 MiB"),
        (5 * 1024**4, "5.0 TiB"),
        (3000 * 1024**6, "3000.0 EiB"),
    ],
)
def test_sizes_are_in_binary_units(size: int, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (850, "850 ms"),
        (999.9, "999 ms"),
        (12_345, "12.3 s"),
        (59_999, "59.9 s"),
        (60_000, "1 min 0 s"),
        (200_000, "3 min 20 s"),
        (7_500_000, "2 h 5 min"),
        (86_400_000 * 3 + 3_600_000 * 4 + 59, "3 d 4 h"),
    ],
)
def test_durations_are_in_their_two_largest_units(ms: float, text: str) -> None:
    assert format_duration(ms) == text


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(ValidationError, match="below zero"):
        format_bytes(-1)


def test_a_negative_duration_is_refused() -> None:
    with pytest.raises(ValidationError, match="below zero"):
        format_duration(-0.5)
