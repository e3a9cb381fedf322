"""The duration of operations with a time limit: ``python bench/time_limits.py [SECONDS-FACTOR]``.

A test asserts results, never durations, because it runs beside other work. The time limits of such tests are here. A
factor extends all limits on a slow machine. The exit code is 1 when a test failed or exceeded its limit.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pytest

PROJECT: Final = Path(__file__).parent.parent
#: Test, or file of tests → seconds that each of its cases may take.
LIMITS: Final = {
    # Documents and texts of a hostile origin.
    "tests/corpus/test_archives.py::test_every_archive_behaves_as_expected": 20.0,
    "tests/corpus/test_folder_documents.py": 1.0,
    "tests/corpus/test_index_documents.py::test_rejected_with_a_fitting_code": 1.0,
    "tests/unit/executions/test_callable_skill.py::test_a_thousand_good_inputs_are_judged_alike": 0.05,
    "tests/unit/executions/test_callable_skill.py::test_refusing_a_megabyte_is_quick": 0.3,
    "tests/unit/executions/test_callable_skill.py::test_the_first_flaw_of_a_large_output_is_found": 0.3,
    "tests/unit/folder/test_lint_cost.py::test_cost": 1.5,
    "tests/unit/folder/test_lint_site.py::test_many_faults_cost_little": 5.0,
    "tests/unit/protocols/test_sharing_validation.py::test_judging_takes_time_that_grows_with_the_pattern": 1.0,
    "tests/unit/protocols/test_sharing_validation.py::test_what_is_let_through_is_quick_even_where_it_backtracks": 20.0,
    "tests/unit/trust/test_guarded_toml.py::test_the_largest_documents_cost_little": 1.0,
    "tests/unit/web/test_web_markdown.py::test_hostile_text_costs_little": 10.0,
    "tests/unit/web/test_web_markdown.py::test_one_hostile_paragraph_costs_nothing": 1.0,
    # Peers that answer slowly, or not at all.
    "tests/corpus/test_http_documents.py::test_a_server_that_misbehaves": 5.0,
    "tests/e2e/cluster/test_cluster.py::test_a_stopped_database_is_reported_in_time_and_the_public_index_stays": 20.0,
    "tests/e2e/test_upstreams.py::test_a_hostile_api_costs_little_and_is_told_apart": 10.0,
    "tests/integration/adapters/http/test_loopback.py::test_connections_that_are_opened_ahead_do_not_hold_it_up": 3.0,
    # Code that does not end, and servers that do.
    "tests/e2e/test_sandbox_escapes.py::test_what_does_not_end_is_ended": 10.0,
    "tests/e2e/test_sandbox_escapes.py::test_what_is_cancelled_is_gone_when_that_returns": 10.0,
    "tests/e2e/test_fast_path.py::test_told_to_end_it_waits_for_no_idle_connection": 10.0,
    "tests/e2e/test_serve_console.py::test_a_live_page_ends_with_the_server_and_does_not_hold_it_up": 10.0,
    "tests/integration/adapters/executors/test_python_executor.py"
    "::test_what_takes_too_long_has_ended_with_its_log_before_the_deadline": 2.0,
    "tests/integration/adapters/executors/test_python_executor.py"
    "::test_several_run_at_once_apart_and_the_loop_is_not_kept_waiting": 3.0,
    "tests/integration/adapters/executors/test_python_executor.py::test_cancelling_ends_it_before_it_returns": 5.0,
    "tests/unit/server/test_runs.py::test_a_run_has_no_longer_than_it_was_given": 5.0,
    # What a person waits for.
    "tests/e2e/test_completion.py::test_an_answer_takes_no_time_that_is_felt": 0.3,
}


class Stopwatch:
    """Notes how long each test took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the time of the test itself, without what its fixtures took."""
        if report.when == "call":
            name = report.nodeid.partition("[")[0]
            self.seconds[name] = max(self.seconds.get(name, 0.0), report.duration)


def main(factor: float = 1.0) -> int:
    """Run the tests, and print the longest case of each beside its limit."""
    watch = Stopwatch()
    tests = [str(PROJECT / name) for name in LIMITS]
    code = int(pytest.main(["-q", "-p", "no:randomly", "--rootdir", str(PROJECT), *tests], plugins=[watch]))
    for name, limit in LIMITS.items():
        took = max((seconds for test, seconds in watch.seconds.items() if test.startswith(name)), default=None)
        is_met = took is not None and took <= limit * factor
        shown = "not run" if took is None else f"{took:6.2f} s"
        print(f"{'  ' if is_met else '! '}{shown} of {limit:g} s  {name.rpartition('/')[2]}")
        code = code or int(not is_met and took is not None)
    return code


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:2])))
