"""What logs are told of an execution."""

import msgspec
import pytest

from skillwire.executions.callable_skill import new_execution_id
from skillwire.executions.view import ExecutionList, without_ids


@pytest.mark.parametrize("is_task", [True, False])
def test_of_an_id_that_finds_it_is_told_and_96_random_bits_are_not(is_task):
    one, other = (new_execution_id(1_750_000_000.0, is_task=is_task) for _ in range(2))
    assert one.startswith(without_ids(one))
    assert len(one) - len(without_ids(one)) == 96 / 4
    assert (
        without_ids(f"GET /executions/{one}/events, {other}.") == f"GET /executions/{one[:-24]}/events, {other[:-24]}."
    )


@pytest.mark.parametrize("text", ["", "exec-", "exec-7", "execute", "/skills/exec-plan", f"exec-{'f' * 31}"])
def test_what_is_no_id_stays(text):
    assert without_ids(text) == text


@pytest.mark.parametrize("answer", [{"at": 1e300}, {"at": -1.0}, {"counts": {"\x1b[2J": 1}}])
def test_a_list_from_a_server_has_real_instants_and_known_statuses(answer):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"at": 1.0, "counts": {"failed": 1}, "executions": [], **answer}, ExecutionList)
