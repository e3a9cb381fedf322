"""What calls skills over ASGI here is what the tests of the server call them with."""

import json

import pytest
from tests.conformance import sharing_examples as example
from tests.support.invoking import write_action
from tests.unit.server.conftest import executor, home, serving  # noqa: F401  # fixtures

WEATHER = "https://api.weather.example.com"


@pytest.fixture
def weather(tmp_path):
    """Write the skill of SSP 3.6, called as in 5.3, with ``changes`` to its descriptor; return its base URL."""

    def write(*, open_to_all=False, **changes):
        descriptor = json.loads(example.DESCRIPTOR) | {"id": "example-corp/weather-forecast"} | changes
        if open_to_all:
            descriptor["auth"] = {"type": "none"}
        write_action(
            tmp_path / "skills",
            "weather-forecast",
            more='id = "example-corp/weather-forecast"\nversion = "2.1.0"',
            files={"descriptor.json": json.dumps(descriptor)},
            version="2.1.0",
            description=descriptor["description"],
        )
        return WEATHER

    return write
