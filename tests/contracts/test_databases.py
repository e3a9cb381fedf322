"""What a database raises: an error of ours for what may pass, and its own for a statement that is wrong."""

import pytest
from tests.support.opened import Blocking

from skillwire.errors import SkillwireError

WRONG = ("SELECT absent FROM grants", "SELECT 1 FROM absent", "SELECT FROM WHERE")


@pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("statement", WRONG)
@pytest.mark.parametrize("is_part", [False, True])
def test_a_wrong_statement_is_an_internal_error(database, statement, is_part):
    async def run(connection):
        if is_part:
            async with connection.part():
                await connection.value(statement)
        await connection.value(statement)

    asked = Blocking(database)
    for call in (asked.read, asked.write)[is_part:]:
        with pytest.raises(Exception, match=r"(?i)absent|syntax") as caught:
            call(run)
        assert not isinstance(caught.value, SkillwireError)
    assert asked.read(lambda connection: connection.value("SELECT 1")) == 1
