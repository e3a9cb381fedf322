"""Nothing gets out of the sandbox: each probe is a skill's code that tries, and what it aims at is watched outside.

The server runs as root and as an ordinary user, where the tests run as root; otherwise as whoever runs them.
"""

import time

import pytest
from tests.support.sandbox_world import World, sandbox_missing, users

MIB = 1024 * 1024
MISSING = sandbox_missing()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@pytest.fixture(scope="module", params=users())
def world(request):
    world = World(request.param)
    yield world
    world.close()


#: Probes that try something and say what they could do: nothing.
REFUSED = [
    "reads_files_of_the_machine", "reads_the_state_directory", "reads_homes", "reads_a_file_that_everybody_may_read",
    "finds_the_canary_anywhere", "follows_symlinks", "climbs_through_roots_of_processes", "sees_other_processes",
    "reads_environments", "reads_command_lines", "changes_the_skill", "changes_what_it_is_given",
    "finds_what_others_are_given", "changes_the_interpreter", "changes_the_root", "writes_kernel_settings", "mounts",
    "makes_namespaces", "changes_its_root", "traces_processes", "kills_processes_outside", "opens_raw_sockets",
    "connects_to_the_machine", "connects_to_the_internet", "asks_metadata_services", "looks_names_up",
    "sends_datagrams", "connects_to_abstract_sockets", "connects_to_sockets_in_files", "fills_memory_without_a_name",
    "leaves_daemons", "finds_open_files", "opens_devices", "reads_keyrings", "becomes_somebody_else",
    "runs_setuid_programs", "runs_other_programs", "types_into_terminals", "makes_core_files", "changes_the_machine",
    "asks_the_kernel_for_much", "raises_its_limits", "leaves_its_group",
]  # fmt: skip


def test_what_is_tried_fails(world):
    answer = world.run("tries_everything", inputs={**world.knows(), "probes": REFUSED}, seconds=60.0)
    assert answer.get("failure") is None, answer
    assert answer["output"] == {probe: [] for probe in REFUSED}
    world.check()


#: Probe → the bounds that it runs with, and the one that ends it.
STOPPED = {
    "fills_memory": ({"memory_bytes": 128 * MIB}, "memory_bytes"),
    "fills_memory_at_once": ({"memory_bytes": 128 * MIB}, "address_bytes"),
    "fills_memory_in_many_processes": ({"memory_bytes": 128 * MIB}, "memory_bytes"),
    "fills_shared_memory": ({"memory_bytes": 128 * MIB}, "memory_bytes"),
    "writes_one_large_file": ({}, "file_bytes"),
    "makes_files_without_end": ({}, "files"),
    "opens_files_without_end": ({}, "open_files"),
    "spins": ({"cpu_seconds": 1}, "cpu_seconds"),
    "spins_in_many_processes": ({"cpu_seconds": 1}, "cpu_seconds"),
    "spins_in_short_lived_processes": ({"cpu_seconds": 1}, "cpu_seconds"),
    "prints_without_end": ({}, "log_bytes"),
    "returns_much": ({}, "output_bytes"),
    "writes_a_result_without_end": ({}, "output_bytes"),
    "hands_out_much": ({}, "blob_bytes"),
    "hands_out_many": ({}, "blobs"),
}


@pytest.mark.parametrize("probe", STOPPED)
def test_what_takes_too_much_is_stopped(world, probe):
    bounds, limit = STOPPED[probe]
    answer = world.run(probe, bounds=bounds)
    assert answer["failure"]["details"]["limit"] == limit, answer
    assert answer["failure"]["reason"] == ("output" if limit == "output_bytes" else "limit")
    assert not answer["failure"]["is_passing"]
    world.check()


@pytest.mark.parametrize("probe", ["ignores_the_end", "stops_itself", "forks_without_end", "holds_the_processor_lock"])
def test_what_does_not_end_is_ended(world, probe):
    answer = world.run(probe, seconds=1.0)
    assert answer["failure"]["code"] == "INVOCATION_TIMEOUT"
    assert answer["failure"]["reason"] == "deadline"
    world.check()


@pytest.mark.parametrize("probe", ["ignores_the_end", "stops_itself", "forks_without_end"])
def test_what_is_cancelled_is_gone_when_that_returns(world, probe):
    answer = world.run(probe, cancel=0.3)
    assert answer["cancelled"]
    assert list(world._in_sandboxes()) == []
    world.check()


def test_the_files_that_it_writes_have_a_bound_together(world):
    answer = world.run("fills_the_work_folder", bounds={"work_bytes": 16 * MIB, "shared_bytes": 4 * MIB})
    written = {folder: row[0] for folder, row in answer["output"].items()}
    assert written["/work"] + written["/tmp"] <= 16  # noqa: S108  # inside
    assert written["/dev/shm"] <= 4  # noqa: S108  # same
    assert {row[1] for row in answer["output"].values()} == {"ENOSPC"}
    world.check()


def test_pipes_hold_little(world):
    assert world.run("holds_kernel_memory_in_pipes")["output"] <= 130
    world.check()


#: Reason of the failure, and whether another attempt may pass → probes.
FAILED = {
    ("output", False): ["returns_no_json", "returns_not_a_number", "returns_itself", "returns_much_depth"],
    ("exception", True): ["writes_a_strange_result", "raises_what_cannot_be_told"],
    ("exit", True): ["ends_without_a_result", "closes_everything", "speaks_the_old_calling_convention"],
}


@pytest.mark.parametrize(("expected", "probe"), [(key, probe) for key, probes in FAILED.items() for probe in probes])
def test_what_is_no_result_is_told_as_what_it_is(world, expected, probe):
    failure = world.run(probe)["failure"]
    assert (failure["reason"], failure["is_passing"]) == expected
    world.check()


def test_a_false_result_is_no_json_and_what_is_printed_is_no_result(world):
    answer = world.run("writes_a_false_result")
    assert answer["failure"]["reason"] == "output"
    assert "printed" in answer["log"]
    world.check()


def test_names_that_lead_elsewhere_are_refused(world):
    answer = world.run("hands_out_names_that_lead_elsewhere")
    assert answer["failure"]["reason"] == "output"
    assert answer["left"] == {}
    world.check()


@pytest.mark.parametrize("probe", ["hands_out_what_is_not_its_own", "hands_out_another_folder"])
def test_nothing_is_handed_out_through_a_link_or_a_device(world, probe):
    answer = world.run(probe)
    assert answer.get("failure") is None, answer
    assert answer["left"] == {}
    world.check()


def test_what_changes_while_it_is_read_is_its_own_or_nothing(world):
    answer = world.run("changes_what_it_hands_out_while_it_is_read")
    assert set("".join(answer["left"].values())) <= {"\0"}
    if answer["failure"] is not None:
        assert answer["failure"]["reason"] == "output"
    world.check()


def test_what_kills_its_parents_ends_itself(world):
    answer = world.run("kills_its_parents", seconds=2.0)
    assert answer["failure"] is None or answer["failure"]["reason"] in {"exit", "deadline"}
    world.check()


def test_secrets_are_handed_over_and_not_shown(world):
    answer = world.run("raises_with_a_secret", secrets=["GRANTED_KEY"])
    shown = str(answer)
    assert answer["failure"]["reason"] == "exception"
    assert "[secret]" in answer["failure"]["message"]
    assert "[secret]" in answer["log"]
    assert "Zugang" not in shown
    assert "WnVnYW5n" not in shown  # the same in base64


def test_only_what_is_granted_is_in_the_environment(world):
    answer = world.run("returns_its_environment", secrets=["GRANTED_KEY"])
    assert answer["output"] == {
        "GRANTED_KEY": "Zugang-äöü/42",
        "SKILLWIRE_EXECUTION_ID": "exec-" + "0" * 32,
        "SKILLWIRE_TRACE_ID": "trace-1",
        "SKILLWIRE_ATTEMPT": "1",
    }


@pytest.mark.parametrize("names", [["MISSING_KEY"], ["GRANTED_KEY", "SKILLWIRE_HOME"]])
def test_a_secret_that_nobody_set_or_that_is_ours_is_not_handed_over(world, names):
    answer = world.run("returns_its_environment", secrets=names)
    assert answer["failure"]["reason"] == "unavailable"
    assert names[-1] in answer["failure"]["message"]


def test_control_characters_are_shown_harmless(world):
    answer = world.run("prints_control_characters")
    assert not {"\x1b", "\u202e", "\0", "\x07"} & set(answer["log"] + answer["failure"]["message"])


@pytest.mark.parametrize("user", users())
@pytest.mark.parametrize("after", [0.002, 0.01, 0.02, 0.03, 0.05, None])
def test_a_server_that_is_killed_takes_its_sandboxes_along(user, after):
    """Also one that only starts; None: it runs."""
    world = World(user)
    try:
        assert world.run("returns_its_environment")["failure"] is None  # it is up
        world.order("ignores_the_end", seconds=60.0)
        if after is None:
            assert len(world.sandboxes(at_least=2)) == 2  # the first process, and the skill
        else:
            time.sleep(after)
        assert world.kill_server() == []
        assert world.survivors() == []
    finally:
        world.close()
