"""An output as a type of the program: what fits is converted, and what does not is an error with its place."""

from dataclasses import dataclass
from datetime import date
from typing import TypedDict, assert_type

import msgspec
import pydantic
import pytest

from skillwire import AsyncClient, Client
from skillwire.errors import PendingError, UsageError, ValidationError
from skillwire.model.execution import ExecutionStatus
from skillwire.model.remote_execution import RemoteExecution


@dataclass
class Day:
    day: date
    high: int


class Report(TypedDict):
    days: list[Day]


class Struct(msgspec.Struct):
    days: list[Day]
    source: str | None = None


class Model(pydantic.BaseModel):
    high: int


@pydantic.dataclasses.dataclass
class Checked:
    high: pydantic.PositiveInt


@dataclass
class Mixed:
    models: list[Model]


class Unknown:
    pass


def completed(output):
    return RemoteExecution(
        execution_id="exec-1",
        skill_id="a/b",
        reference="example.com/b",
        status=ExecutionStatus.COMPLETED,
        output=output,
    )


DAYS = {"days": [{"day": "2026-11-28", "high": 7}]}


@pytest.mark.parametrize(
    ("output", "into", "value"),
    [
        (DAYS, Report, {"days": [Day(date(2026, 11, 28), 7)]}),
        (DAYS, Struct, Struct([Day(date(2026, 11, 28), 7)])),
        ([1, 2], list[int], [1, 2]),
        ({"high": 7}, Model, Model(high=7)),
        ({"high": 7}, Checked, Checked(7)),
        ({"models": [{"high": 7}]}, Mixed, Mixed([Model(high=7)])),
        (b"a,b\n", bytes, b"a,b\n"),
    ],
)
def test_an_output_is_converted(output, into, value):
    assert completed(output).output_as(into) == value


@pytest.mark.parametrize(
    ("output", "into", "path", "message"),
    [
        ({"days": [{"day": "x", "high": 7}]}, Report, "/days/0/day", "the output is not Report: /days/0/day: Invalid"),
        (DAYS | {"days": None}, Struct, "/days", "Expected `array`, got `null`"),
        (["a"], list[int], "/0", "Expected `int`, got `str`"),
        ("\x1b[2J", Day, "", "the output is not Day: Expected `object`, got `str`"),
        ({"high": "warm"}, Model, "/high", "the output is not Model: /high: Input should be a valid integer"),
        ({"high": 0}, Checked, "/high", "greater than 0"),
        ({"models": [{}]}, Mixed, "/models/0/high", "Field required"),
    ],
)
def test_a_difference_is_an_error_with_its_place(output, into, path, message):
    with pytest.raises(ValidationError, match="OUTPUT_DIFFERS") as caught:
        completed(output).output_as(into)
    assert message in caught.value.message
    assert str(caught.value.fix).startswith("Correct ")
    assert caught.value.details == {"path": path}
    assert str(caught.value.place) == f"example.com/b#{path}"


@pytest.mark.parametrize("into", [Unknown, 7, "Day", int | str | Unknown])
def test_a_type_that_no_json_value_has_is_refused(into):
    with pytest.raises(UsageError, match="not a type of JSON values"):
        completed({}).output_as(into)


def test_an_execution_that_runs_has_no_output():
    running = RemoteExecution(execution_id="e", skill_id="a/b", reference="r", status=ExecutionStatus.RUNNING)
    with pytest.raises(PendingError):
        running.output_as(Day)


def infer(client: Client) -> None:
    """Checked by mypy, and never called."""
    assert_type(client.call("example.com/a", {}, timeout=1), RemoteExecution)
    assert_type(client.call("example.com/a", {}, into=Day), Day)
    assert_type(client.call("example.com/a", into=Report), Report)
    assert_type(client.call("example.com/a", into=list[Day], timeout=1), list[Day])


async def infer_awaited(client: AsyncClient) -> None:
    """Checked by mypy, and never called."""
    assert_type(await client.call("example.com/a"), RemoteExecution)
    assert_type(await client.call("example.com/a", into=Model), Model)
