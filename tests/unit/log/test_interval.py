from __future__ import annotations

import pytest

from polylake.errors import ValidationError
from polylake.log._interval import parse_interval

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("interval 1 week", 168 * HOUR),
        ("interval 168 hours", 168 * HOUR),
        ("INTERVAL 2 Days", 48 * HOUR),
        (" 7 days ", 168 * HOUR),
        ("interval 1 day 12 hours  30 minutes", 36 * HOUR + HOUR // 2),
        ("interval 90 seconds 5 milliseconds 1999 microseconds", 90_006),
        ("interval +1 hour", HOUR),
        ("interval 0 hours", 0),
    ],
)
def test_an_interval_is_its_length(text: str, milliseconds: int) -> None:
    assert parse_interval(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    ["", "interval", "interval 1", "week", "1 month", "interval 1 year", "interval -1 day",
     "interval 1 day 2", "1day", "interval 1.5 hours", "interval 1 daysx", "P7D", "9" * 5000],
)  # fmt: skip
def test_anything_else_is_refused_with_the_name_of_the_property(text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        parse_interval(text, field="delta.deletedFileRetentionDuration")
    assert caught.value.field == "delta.deletedFileRetentionDuration"
