"""``serve --json``: one object a line, each at once, each as its schema says."""

import json
import signal
import subprocess

from tests.support.documents import check_document
from tests.support.processes import skillwire
from tests.support.publishing import write_skill


def test_what_happens_is_told_line_by_line(tmp_path):
    skills = tmp_path / "skills"
    write_skill(skills, "notes")
    serving = ("serve", skills, "--port", "0", "--json")
    with skillwire(*serving, home=tmp_path / "home", stderr=subprocess.DEVNULL) as process:

        def told():
            assert process.stdout
            line = process.stdout.readline()
            check_document(line)
            event = json.loads(line)
            assert event.pop("schema") == "skillwire/serve/1"
            return event

        try:
            listening = told()
            assert (listening["event"], listening["skills"]) == ("listening", 1)
            assert told() == {
                "event": "published", "revision": 1, "skills": 1, "added": 1, "changed": 0, "removed": 0
            }  # fmt: skip
            write_skill(tmp_path / "new", "tools").rename(skills / "tools")  # never seen half-written
            assert [told()[key] for key in ("added",)] == [1]
            (tmp_path / "broken.md").write_text("---\nname: notes\n---\n")
            (tmp_path / "broken.md").rename(skills / "notes" / "SKILL.md")
            while (event := told())["event"] != "broken":
                assert event["event"] == "published"
            assert (event["skill"], event["serving"], event["code"]) == ("notes", True, "DESCRIPTION_FORM")
        finally:
            process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate()
    events = [json.loads(line) for line in rest.splitlines()]
    assert events[-1] == {"schema": "skillwire/serve/1", "event": "stopped"}
    assert process.returncode == 0


def test_joining_the_dht_is_a_line(tmp_path):
    write_skill(tmp_path / "skills", "notes")
    settings = tmp_path / "discovery.toml"
    settings.write_text("[discovery.dht]\nenabled = true\nport = 0\n")
    serving = ("serve", tmp_path / "skills", "--port", "0", "--dht", "--discovery", settings, "--json")
    with skillwire(*serving, home=tmp_path / "home", stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout
            for line in process.stdout:
                check_document(line)
                if (event := json.loads(line))["event"] == "dht":
                    break
            assert (bool(event["agent"]), event["reason"]) == (True, None)
        finally:
            process.send_signal(signal.SIGTERM)


def test_a_reader_who_goes_away_does_not_end_the_server(tmp_path):
    skills = tmp_path / "skills"
    write_skill(skills, "notes")
    log = tmp_path / "log"
    with (
        log.open("w") as errors,
        skillwire("serve", skills, "--port", "0", "--json", home=tmp_path / "home", stderr=errors) as process,
    ):
        assert process.stdout
        process.stdout.readline()
        process.stdout.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    assert "Traceback" not in log.read_text()
