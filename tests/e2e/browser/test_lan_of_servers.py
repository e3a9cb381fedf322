"""Two servers on one network, and a browser at one of them: what the other announces is seen, until its goodbye."""

import re
import socket

import pytest
from playwright.sync_api import expect
from tests.support.command import run_command
from tests.support.free_port import free_port
from tests.support.publishing import ServeProcess, write_skill

pytestmark = pytest.mark.deep
#: Loopback carries multicast, and nothing of it leaves the machine; a port of its own keeps tests apart.
SETTINGS = "discovery:\n  udp:\n    port: {port}\n    interfaces: [lo]\n  mdns:\n    enabled: false\n"


@pytest.fixture
def place(tmp_path):
    (tmp_path / "lan.yaml").write_text(SETTINGS.format(port=free_port(socket.SOCK_DGRAM)))
    return tmp_path


def serve(place, name):
    write_skill(place / name, f"notes-of-{name}")
    options = ("--lan", "--discovery", place / "lan.yaml")
    return ServeProcess(place / name, *options, home=place / f"home-of-{name}")


def key_of(place, name):
    environment = {"SKILLWIRE_HOME": str(place / f"home-of-{name}")}
    made = run_command("token", "create", "ann", "--scope", "operator", "--quiet", env=environment)
    (key,) = re.findall(r"sw_\S+", made.out)
    return key


def test_what_another_server_announces_is_seen_until_it_says_goodbye(visit, place):
    with serve(place, "kitchen") as kitchen:
        page = visit("/login?next=/lan", root=f"http://127.0.0.1:{kitchen.port}")
        page.get_by_label("API key").fill(key_of(place, "kitchen"))
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/lan")
        expect(page.locator(".lan-table")).to_contain_text("notes-of-kitchen")
        page.evaluate("window.still = true")
        with serve(place, "attic"):
            row = page.locator(".lan-table tr", has_text="notes-of-attic")
            expect(row).to_contain_text("Healthy")
            expect(row).to_contain_text("Unverified")
            expect(page.locator(".map.wide .hub")).to_have_count(2)
            expect(page.locator(".map.wide")).to_contain_text("this server")
        expect(page.locator(".lan-table")).not_to_contain_text("notes-of-attic")
        assert page.evaluate("window.still") is True
