"""Publish a typed function, call it over HTTP, and get a typed output: python publish_function.py"""

import signal
import threading
from dataclasses import dataclass

import skillwire

publisher = skillwire.Publisher("example-corp")


@dataclass
class Price:
    amount: float
    currency: str


@publisher.skill
def convert(amount: float, rate: float = 1.1) -> Price:
    """Convert euros to dollars. Use when a price in euros is needed in dollars."""
    return Price(round(amount * rate, 2), "USD")


def call(address: str) -> None:
    with skillwire.Client() as client:
        price = client.call(f"{address}/convert", {"amount": 20}, into=Price)
    print(price)
    signal.raise_signal(signal.SIGTERM)  # ends the server


def start_call(address: str) -> None:
    threading.Thread(target=call, args=[address]).start()


publisher.serve(port=0, access_log=False, on_ready=start_call)
