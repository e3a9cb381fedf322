"""The command that runs in this process."""

import sys

import structlog
from tests.support import command


def test_what_another_thread_logs_while_a_command_runs_is_not_in_its_output(monkeypatch, tmp_path):
    # The stream that structlog found at its import is the one for which a PrintLogger follows sys.stdout.
    monkeypatch.setattr(structlog._output, "stdout", sys.stdout)
    structlog.reset_defaults()

    def main(_arguments):
        structlog.get_logger().warning("from a thread of the tests")
        print("{}")  # noqa: T201  # what a command writes

    monkeypatch.setattr(command, "main", main)
    assert command.run_command(cwd=tmp_path).out == "{}\n"
