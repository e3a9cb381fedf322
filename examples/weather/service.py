"""A weather service with the inputs and the output of the skill ``weather-forecast``, as typed Python.

It replaces the placeholder address of that skill's descriptor, and does not forecast: it answers with the rounded
averages of the month, for four cities, from a table. ``python service.py`` serves it at http://127.0.0.1:8001.
"""

from __future__ import annotations

import argparse
import datetime
import enum
import sys
from dataclasses import dataclass
from typing import Annotated

import msgspec

import skillwire

#: City → of each month the average high and low in degrees Celsius, and the share of days with rain.
CLIMATE = {
    "Berlin": list(
        zip(
            (3, 5, 9, 15, 20, 23, 25, 25, 20, 14, 7, 4),
            (-2, -2, 1, 4, 9, 12, 14, 14, 10, 6, 2, -1),
            (0.5, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.5, 0.5),
        )
    ),
    "Freiburg": list(
        zip(
            (5, 7, 12, 16, 20, 24, 26, 26, 21, 15, 9, 6),
            (-1, -1, 2, 5, 9, 12, 14, 14, 10, 7, 3, 0),
            (0.4, 0.4, 0.4, 0.4, 0.5, 0.4, 0.4, 0.4, 0.3, 0.3, 0.4, 0.4),
        )
    ),
    "San Francisco": list(
        zip(
            (14, 16, 16, 17, 18, 19, 19, 20, 21, 21, 17, 14),
            (8, 9, 9, 10, 11, 12, 12, 13, 13, 12, 10, 8),
            (0.4, 0.4, 0.3, 0.2, 0.1, 0.1, 0.0, 0.0, 0.1, 0.1, 0.3, 0.4),
        )
    ),
    "Tokyo": list(
        zip(
            (10, 10, 14, 19, 23, 26, 30, 31, 27, 22, 17, 12),
            (1, 2, 5, 10, 15, 19, 23, 24, 21, 15, 10, 4),
            (0.2, 0.2, 0.3, 0.3, 0.3, 0.4, 0.4, 0.3, 0.4, 0.3, 0.2, 0.2),
        )
    ),
}
OFTEN, SELDOM = 0.35, 0.15

publisher = skillwire.Publisher("example-weather")


class Units(enum.Enum):
    METRIC = "metric"
    IMPERIAL = "imperial"


@dataclass
class Day:
    date: datetime.date
    high: float
    low: float
    condition: str
    precipitation_probability: float


@dataclass
class Forecast:
    location: str
    issued_at: datetime.datetime
    units: Units
    forecasts: list[Day]


@publisher.skill(
    version="1.0.0", capability_type="api", tags=["weather", "forecast", "planning"], timeout=10, idempotent=True
)
def weather_forecast(
    location: Annotated[str, msgspec.Meta(min_length=2, max_length=200)],
    days: Annotated[int, msgspec.Meta(ge=1, le=14)] = 7,
    units: Units = Units.METRIC,
) -> Forecast:
    """Say what weather a place has on the next days, by the averages of the month. Use to plan what happens outdoors.

    Args:
        location: A city: Berlin, Freiburg, San Francisco or Tokyo.
        days: For how many days, counted from today.
        units: metric (Celsius) or imperial (Fahrenheit).

    Returns:
        The place as it was understood, when the forecast was issued, and one entry per day.
    """
    city = next((name for name in CLIMATE if name.lower() == location.partition(",")[0].strip().lower()), None)
    if city is None:
        raise LookupError(f"no place called {location!r}; known are {', '.join(CLIMATE)}")
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    return Forecast(city, now, units, [day(city, now.date() + datetime.timedelta(n), units) for n in range(days)])


def day(city: str, date: datetime.date, units: Units) -> Day:
    """Return the average day of a month."""
    high, low, wet = CLIMATE[city][date.month - 1]
    if units is Units.IMPERIAL:
        high, low = high * 9 / 5 + 32, low * 9 / 5 + 32
    condition = "rain" if wet > OFTEN else "partly_cloudy" if wet > SELDOM else "clear"
    return Day(date, float(high), float(low), condition, round(wet * 100))


def main() -> int:
    """Serve until the process is ended; the first line says where."""
    parser = argparse.ArgumentParser(description="Serve the skill weather-forecast.")
    parser.add_argument("--port", type=int, default=8001, help="0 takes a free one (default 8001)")
    options = parser.parse_args()
    publisher.serve(
        port=options.port,
        access_log=False,
        on_ready=lambda address: print(f"weather service at {address}", flush=True),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
