"""A day of order events as a shop would send them: a file an hour, and not all of it good."""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

DAY = datetime(2026, 3, 14, tzinfo=UTC)
HOURS = 24
COUNTRIES = {"de": "EUR", "fr": "EUR", "us": "USD", "gb": "GBP", "jp": "JPY"}
STATES = ("placed", "paid", "shipped")

# Of a thousand events, how many come twice, come hours late, correct the amount, or are bad.
TWICE, LATE, CORRECTED = 20, 30, 40
CUT_SHORT, NEGATIVE, NOBODY, ODD_CURRENCY, TEST = 3, 5, 4, 6, 5


def write_hours(folder: Path, hours: range, orders: int) -> int:
    """Write the files of some hours of a day of orders; return how many events they have."""
    folder.mkdir(parents=True, exist_ok=True)
    arriving: dict[int, list[str]] = {hour: [] for hour in range(HOURS)}
    for hour, line in arrivals(orders):
        arriving[min(hour, HOURS - 1)].append(line)
    for hour in hours:
        # The stream must see a file only once it is whole.
        staged = folder / f".hour-{hour:02}.json"
        staged.write_text("".join(f"{line}\n" for line in arriving[hour]))
        staged.rename(folder / f"hour-{hour:02}.json")
    return sum(len(arriving[hour]) for hour in hours)


def arrivals(orders: int) -> Iterator[tuple[int, str]]:
    """Yield events as lines of JSON, each with the hour in which it arrives."""
    chance = random.Random(14)  # the same day every time
    for number in range(orders):
        placed = DAY + timedelta(seconds=HOURS * 3600 * number / orders)
        for at, line in order_events(f"o{number:06}", placed, chance):
            hour = (at - DAY) // timedelta(hours=1)
            late = chance.randrange(1, 4) if chance.randrange(1000) < LATE else 0
            yield hour + late, line
            if chance.randrange(1000) < TWICE:
                yield hour + chance.randrange(2), line


def order_events(
    order: str, placed: datetime, chance: random.Random
) -> Iterator[tuple[datetime, str]]:
    """Yield what happens to one order, and when."""
    country = chance.choice(list(COUNTRIES))
    customer = f"c{chance.randrange(5000):04}"
    amount, at = chance.lognormvariate(3.5, 0.8), placed
    for state in STATES[: chance.choice((1, 2, 3, 3))]:
        luck = [chance.randrange(1000) for _ in range(6)]
        if luck[0] < CORRECTED:
            amount *= 0.9
        event = {
            "order_id": order,
            "customer": None if luck[1] < NOBODY else customer,
            "state": state,
            "amount": round(-amount if luck[2] < NEGATIVE else amount, 2),
            "currency": "???" if luck[3] < ODD_CURRENCY else COUNTRIES[country],
            "country": "test" if luck[4] < TEST else country,
            "at": at.isoformat(),
        }
        line = json.dumps(event)
        yield at, line[: len(line) // 2] if luck[5] < CUT_SHORT else line
        at += timedelta(minutes=chance.randrange(10, 120))
