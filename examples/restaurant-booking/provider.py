"""The provider of the story: a skill that books a table, for callers with a token of an authorization server.

``python provider.py`` serves it at http://127.0.0.1:8000 and trusts the authorization server that server.toml names.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import itertools
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

import skillwire

SEARCH_SECONDS = 3.0  # so that a request in between sees it running
SEATS = 8

publisher = skillwire.Publisher("booking-example")


@dataclass
class Restaurant:
    name: str
    cuisine: str
    city: str
    address: str
    opens: str
    closes: str
    bookings: itertools.count[int]


@dataclass
class Reservation:
    restaurant: str
    confirmation_code: str
    time: str
    address: str


RESTAURANTS = [
    Restaurant(
        "Golden Gate Dim Sum", "Chinese", "San Francisco", "8 Grant Ave, SF", "11:00", "21:00", itertools.count(1)
    ),
    Restaurant(
        "Trattoria Roma", "Italian", "San Francisco", "123 Columbus Ave, SF", "17:00", "22:00", itertools.count(42)
    ),
    Restaurant("Osteria Lupa", "Italian", "New York", "5 Thompson St, NYC", "17:00", "23:00", itertools.count(7)),
]


@publisher.skill(
    version="1.0.0",
    capability_type="task",
    access="restricted",
    tags=["restaurant", "booking", "reservation"],
    timeout=30,
)
async def restaurant_booking(
    cuisine: str,
    date: datetime.date,
    time: Annotated[str, msgspec.Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")],
    party_size: Annotated[int, msgspec.Meta(ge=1, le=20)],
    city: str,
) -> Reservation:
    """Book a table in a restaurant. Use to reserve a table when place, time and number of guests are known.

    Args:
        cuisine: What is cooked there, such as Italian.
        date: The day.
        time: When, as HH:MM on the restaurant's clock.
        party_size: For how many people.
        city: Where.

    Returns:
        Where the table is, and the code by which the restaurant knows the reservation.
    """
    await asyncio.sleep(SEARCH_SECONDS)
    for one in RESTAURANTS:
        if (one.cuisine.lower(), one.city.lower()) != (cuisine.lower(), city.lower()):
            continue
        if one.opens <= time < one.closes and party_size <= SEATS:
            initials = "".join(word[0] for word in one.name.split())
            code = f"{initials}-{date:%Y%m%d}-{next(one.bookings):03}"
            return Reservation(one.name, code, time, one.address)
    raise LookupError(f"no {cuisine} restaurant in {city} has a table for {party_size} at {time}")


def main() -> int:
    """Serve until the process is ended; the first line says where."""
    parser = argparse.ArgumentParser(description="Serve the skill restaurant-booking.")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one (default 8000)")
    parser.add_argument("--config", default=Path(__file__).with_name("server.toml"), help="whom it trusts")
    parser.add_argument("--access-log", action="store_true", help="log each request to standard error")
    options = parser.parse_args()
    publisher.serve(
        port=options.port,
        configuration=options.config,
        access_log=options.access_log,
        on_ready=lambda address: print(f"provider at {address}", flush=True),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
