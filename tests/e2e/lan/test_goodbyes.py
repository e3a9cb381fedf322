"""Why skills say goodbye, as it is heard on the network: of servers that are told to end, fail, and go on."""

import shutil

import pytest
from tests.support.eavesdropper import Eavesdropper
from tests.support.publishing import write_skill

pytestmark = pytest.mark.spec("SDP-unregister-reason")


@pytest.fixture
def skills(tmp_path):
    for name in ("leads-sync", "csv-profile"):
        write_skill(tmp_path / "skills", name)
    return tmp_path / "skills"


def test_a_server_that_is_told_to_end_shuts_down_and_so_does_a_skill_that_is_taken_away(place, skills):
    with Eavesdropper(place.lan) as heard:
        server = place.serve(skills).started()
        observer = place.agent()
        observer.wait_for(lambda found: found.keys() == {"leads-sync", "csv-profile"}, "not both were found")
        write_skill(skills, "leads-sync", version="2.0.0")
        observer.wait_for_change("updated", "leads-sync")
        shutil.rmtree(skills / "csv-profile")
        observer.wait_for_change("left", "csv-profile")
        heard.wait_for_goodbyes({"csv-profile": "SHUTDOWN"})  # a newer version says none
        assert server.end() == 0
        observer.wait_for_change("left", "leads-sync")
        heard.wait_for_goodbyes({"csv-profile": "SHUTDOWN", "leads-sync": "SHUTDOWN"})
