import pytest

from skillwire.errors import TrustError, UsageError, ValidationError
from skillwire.model.url import parse_url
from skillwire.trust.address import (
    Address,
    AddressPolicy,
    AddressScope,
    Network,
    classify,
    is_local_host,
    is_local_name,
    is_localhost,
    read_address,
    read_network,
)

# ruff: noqa: RUF001 - characters that look like others are the subject


@pytest.mark.parametrize(
    ("text", "reach"),
    [
        ("1.0.0.0", AddressScope.PUBLIC),
        ("223.255.255.255", AddressScope.PUBLIC),
        ("172.15.255.255", AddressScope.PUBLIC),
        ("172.16.0.0", AddressScope.PRIVATE),
        ("172.31.255.255", AddressScope.PRIVATE),
        ("172.32.0.0", AddressScope.PUBLIC),
        ("100.63.255.255", AddressScope.PUBLIC),
        ("100.127.255.255", AddressScope.PRIVATE),
        ("0.255.255.255", AddressScope.SPECIAL),
        ("224.0.0.1", AddressScope.NOWHERE),
        ("0.0.0.0", AddressScope.NOWHERE),  # noqa: S104 - an address to classify
        ("240.0.0.1", AddressScope.SPECIAL),
        ("255.255.255.255", AddressScope.NOWHERE),
        ("169.254.169.254", AddressScope.METADATA),
        ("168.63.129.16", AddressScope.METADATA),
        ("169.254.169.253", AddressScope.LINK_LOCAL),
        ("::1", AddressScope.LOOPBACK),
        ("::", AddressScope.NOWHERE),
        ("::ffff:8.8.8.8", AddressScope.SPECIAL),
        ("64:ff9b::808:808", AddressScope.SPECIAL),
        ("2002:808:808::", AddressScope.SPECIAL),
        ("2001:1ff::", AddressScope.SPECIAL),
        ("2001:200::", AddressScope.PUBLIC),
        ("3fff:fff::", AddressScope.SPECIAL),
        ("3ffe::", AddressScope.PUBLIC),
        ("4000::", AddressScope.SPECIAL),
        ("fe80::1%eth0", AddressScope.LINK_LOCAL),
        ("fec0::1", AddressScope.SPECIAL),
        ("fdff::1", AddressScope.PRIVATE),
        ("ff02::1", AddressScope.NOWHERE),
    ],
)
def test_where_packets_end(text, reach):
    assert classify(read_address(text)) is reach


@pytest.mark.parametrize("text", ["", "1.2.3", "01.2.3.4", "1.2.3.4.5", "localhost", "1.2.3.4/32", ":::", "１.2.3.4"])
def test_what_is_no_address(text):
    with pytest.raises(ValidationError):
        read_address(text)


def test_a_network_covers_its_ends_and_its_own_family():
    network = read_network("10.0.0.0/8")
    assert network == Network(4, 0x0A000000, 0x0AFFFFFF)
    assert network.covers(Address(4, 0x0AFFFFFF))
    assert not network.covers(Address(4, 0x0B000000))
    assert not network.covers(Address(6, 0x0A000000))
    assert read_network("::1") == Network(6, 1, 1)


@pytest.mark.parametrize("text", ["10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10.0.0.1/8", "::1/64", "::/129", "10/8"])
def test_what_is_no_network(text):
    with pytest.raises(ValidationError):
        read_network(text)


PUBLIC_V4, PUBLIC_V6 = "93.184.215.14", "2606:2800:21f:cb07::1"


def naming(*urls, allow=()):
    policy = AddressPolicy(allow=allow)
    for url in urls:
        policy = policy.naming(parse_url(url))
    return policy


def refusal(policy, url, address=None):
    try:
        policy.check_url(parse_url(url))
        if address is not None:
            policy.check_address(parse_url(url), address)
    except TrustError as error:
        return error.code
    return None


@pytest.mark.parametrize("address", [PUBLIC_V4, PUBLIC_V6])
def test_https_to_a_public_address_needs_no_naming(address):
    assert refusal(AddressPolicy(), "https://example.com/", address) is None


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "::1", "fd00::1", "64:ff9b::5db8:d70e"],  # noqa: S104 - an address to refuse
)
def test_a_public_name_never_leads_inside_though_the_user_typed_it(address):
    assert refusal(naming("https://example.com/"), "https://example.com/", address) == "ADDRESS_REFUSED"


def test_a_typed_address_opens_itself_and_nothing_beside_it():
    policy = naming("http://127.0.0.1:8000/")
    assert refusal(policy, "http://127.0.0.1:8000/x", "127.0.0.1") is None
    assert refusal(policy, "http://127.0.0.1:8000/x", "127.0.0.2") == "ADDRESS_REFUSED"
    assert refusal(policy, "http://127.0.0.2:8000/x") == "ADDRESS_REFUSED"
    assert refusal(policy, "http://localhost:8000/x") == "ADDRESS_REFUSED"
    for other in ("http://127.0.0.1:9200/", "http://127.0.0.1/", "https://127.0.0.1/", "https://127.0.0.1:8000/"):
        assert refusal(policy, other) == "PORT_REFUSED"
    assert refusal(naming("http://127.0.0.1/"), "https://127.0.0.1/", "127.0.0.1") is None
    assert refusal(policy, "https://example.com/", "127.0.0.1") == "ADDRESS_REFUSED"


@pytest.mark.parametrize("host", ["192.168.1.5", "10.9.8.7", "100.64.0.9", "169.254.3.4", "[fe80::1]", "[fd12::1]"])
def test_a_typed_local_address_opens(host):
    assert refusal(naming(f"http://{host}/"), f"http://{host}/", host.strip("[]")) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "224.0.0.1", "255.255.255.255", "192.0.2.1", "[::]", "[ff02::1]"])  # noqa: S104 - an address to refuse
def test_some_addresses_do_not_open_by_typing_them(host):
    assert refusal(naming(f"http://{host}/"), f"http://{host}/") == "ADDRESS_REFUSED"


def test_the_fix_for_a_typed_address_that_stays_closed_opens_it():
    url = parse_url("http://192.0.2.2:8000/notes")
    with pytest.raises(TrustError) as refused:
        AddressPolicy().naming(url).check_url(url)
    found = refused.value.diagnostics()
    assert "document, redirect" not in found.cause
    assert 'allow = ["192.0.2.2"]' in found.fix
    assert "SKILLWIRE_ALLOW=192.0.2.2" in found.fix
    AddressPolicy(allow=("192.0.2.2",)).naming(url).check_url(url)


@pytest.mark.parametrize("allow", [(), ("127.0.0.1",)])
def test_the_fix_names_the_origin_where_the_host_alone_leaves_the_port_refused(allow):
    url = parse_url("https://127.0.0.1:8000/notes")
    with pytest.raises(TrustError) as refused:
        AddressPolicy(allow=allow).check_url(url)
    assert "add https://127.0.0.1:8000 to allow" in refused.value.diagnostics().fix
    AddressPolicy(allow=("https://127.0.0.1:8000",)).check_url(url)


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "169.254.170.23",
        "169.254.42.42",
        "169.254.0.23",
        "100.100.100.200",
        "[fd00:ec2::254]",
        "[fd00:ec2::23]",
        "[fd20:ce::254]",
        "[fd00:c1::a9fe:a9fe]",
        "[fd00:100::100:200]",
        "[fd00:42::42]",
    ],
)
def test_a_metadata_service_opens_through_allow_alone(host):
    assert refusal(naming(f"http://{host}/"), f"http://{host}/") == "ADDRESS_REFUSED"
    assert refusal(naming("http://box.internal/"), "http://box.internal/", host.strip("[]")) == "ADDRESS_REFUSED"
    assert refusal(AddressPolicy(allow=(host.strip("[]"),)), f"http://{host}/") is None


def test_localhost_is_loopback_only():
    policy = naming("http://localhost:8000", "http://a.localhost:8000")
    for host in ("localhost", "a.localhost"):
        assert refusal(policy, f"http://{host}:8000/", "127.0.0.1") is None
        assert refusal(policy, f"http://{host}:8000/", "::1") is None
        assert refusal(policy, f"http://{host}:8000/", "192.168.0.1") == "ADDRESS_REFUSED"
    assert refusal(policy, "http://b.localhost:8000/") == "ADDRESS_REFUSED"


def test_a_local_name_is_refused_before_it_is_looked_up_unless_it_was_named():
    assert refusal(AddressPolicy(), "https://nas.local/") == "ADDRESS_REFUSED"
    policy = naming("http://nas.local/")
    assert refusal(policy, "http://nas.local/", "192.168.0.9") is None
    assert refusal(policy, "https://nas.local/", "192.168.0.9") is None, "where such hosts redirect to"
    assert refusal(policy, "https://nas.local:8443/") == "PORT_REFUSED"
    assert refusal(naming("https://nas.local/"), "http://nas.local/") == "PORT_REFUSED"
    assert refusal(naming("http://nas.local:443/"), "https://nas.local/") == "PORT_REFUSED"
    assert refusal(AddressPolicy(allow=("http://nas.local",)), "https://nas.local/") == "PORT_REFUSED"
    assert refusal(naming("http://nas.local:8000/"), "http://nas.local/") == "PORT_REFUSED"
    assert refusal(naming("https://nas.local/"), "https://nas.local/", PUBLIC_V4) is None
    assert refusal(policy, "http://nas.local/", PUBLIC_V4) == "PLAIN_HTTP_REFUSED"
    assert refusal(policy, "http://nas.local/", "169.254.169.254") == "ADDRESS_REFUSED"


@pytest.mark.parametrize("policy", [AddressPolicy(), naming("http://example.com/")])
def test_plain_http_is_refused_on_the_public_internet_though_the_user_typed_it(policy):
    assert refusal(policy, "http://example.com/") == "PLAIN_HTTP_REFUSED"
    assert refusal(naming(f"http://{PUBLIC_V4}/"), f"http://{PUBLIC_V4}/") == "PLAIN_HTTP_REFUSED"


def test_an_unusual_port_opens_for_the_very_origin_that_was_named():
    policy = naming("https://example.com:8443/")
    assert refusal(policy, "https://example.com:8443/a", PUBLIC_V4) is None
    assert refusal(policy, "https://example.com:8444/a") == "PORT_REFUSED"
    assert refusal(policy, "https://example.org:8443/a") == "PORT_REFUSED"
    assert refusal(policy, "https://example.com/a") is None


def test_allow_lists_networks_whatever_the_name():
    policy = AddressPolicy(allow=("10.0.0.0/8", "fd12::/16"))
    assert refusal(policy, "https://skills.example.com/", "10.1.2.3") is None
    assert refusal(policy, "https://skills.example.com/", "fd12::9") is None
    assert refusal(policy, "https://skills.example.com/", "192.168.0.1") == "ADDRESS_REFUSED"
    assert refusal(policy, "https://skills.example.com/", "::1") == "ADDRESS_REFUSED"
    assert refusal(policy, "http://skills.example.com/", "10.1.2.3") == "PLAIN_HTTP_REFUSED"
    assert refusal(policy, "http://10.1.2.3/", "10.1.2.3") is None


def test_allow_lists_hosts_and_endings():
    policy = AddressPolicy(allow=("skills.example.com", "*.corp.example"))
    for host in ("skills.example.com", "a.corp.example", "a.b.corp.example"):
        assert refusal(policy, f"http://{host}/", "10.1.2.3") is None
        assert refusal(policy, f"http://{host}/", PUBLIC_V4) == "PLAIN_HTTP_REFUSED"
    for host in ("www.skills.example.com", "corp.example", "evilcorp.example"):
        assert refusal(policy, f"https://{host}/", "10.1.2.3") == "ADDRESS_REFUSED"


def test_allow_lists_origins_with_their_port():
    policy = AddressPolicy(allow=("http://127.0.0.1:8000", "https://skills.example.com:8443"))
    assert refusal(policy, "http://127.0.0.1:8000/", "127.0.0.1") is None
    for other in ("http://127.0.0.1:8001/", "http://127.0.0.1/", "https://127.0.0.1/", "https://127.0.0.1:8000/"):
        assert refusal(policy, other) == "PORT_REFUSED"
    assert refusal(policy, "https://skills.example.com:8443/", "10.1.2.3") is None
    assert refusal(policy, "https://skills.example.com/", "10.1.2.3") == "ADDRESS_REFUSED"
    assert refusal(policy, "http://skills.example.com/") == "PLAIN_HTTP_REFUSED"
    assert refusal(AddressPolicy(allow=("http://127.0.0.1:8000", "127.0.0.1")), "http://127.0.0.1/") is None


@pytest.mark.parametrize(
    ("entry", "origin"),
    [
        ("127.0.0.1:8311", "http://127.0.0.1:8311"),
        ("[::1]:8311", "http://[::1]:8311"),
        ("localhost:8311", "http://localhost:8311"),
        ("skills.example.com:8443", "https://skills.example.com:8443"),
    ],
)
def test_allow_reads_an_origin_without_its_scheme_as_references_are_read(entry, origin):
    policy = AddressPolicy(allow=(entry,))
    assert refusal(policy, f"{origin}/", "127.0.0.1" if "[" not in entry else "::1") is None
    other = origin.replace("http:", "https:") if "http:" in origin else origin.replace("https:", "http:")
    assert None not in {refusal(policy, f"{other}/"), refusal(policy, f"{origin[:-1]}/")}


@pytest.mark.parametrize("address", ["0.0.0.0", "224.0.0.1", "::", "ff02::1"])  # noqa: S104 - an address to refuse
def test_what_is_no_destination_stays_refused_though_allow_lists_everything(address):
    policy = AddressPolicy(allow=("0.0.0.0/0", "::/0"))
    assert refusal(policy, "https://example.com/", "127.0.0.1") is None
    assert refusal(policy, "https://example.com/", address) == "ADDRESS_REFUSED"


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "10.0.0.1/8",
        "10.0.0.0/33",
        "10.0.0.0/",
        "a b",
        "ftp://x",
        "*",
        "*.a.example:1",
        "a.example:x",
        "a.example:99999",
    ],
)
def test_an_unreadable_entry_is_refused_when_the_policy_is_made(entry):
    with pytest.raises(UsageError) as caught:
        AddressPolicy(allow=(entry,))
    assert caught.value.code == "ALLOW_ENTRY"


@pytest.mark.parametrize("target", ["/hook", "/?a=1", "//"])
def test_an_origin_with_a_path_is_refused_because_it_would_open_whole(target):
    with pytest.raises(UsageError, match="an origin has no path") as caught:
        AddressPolicy(allow=("http://127.0.0.1:19600" + target,))
    assert (caught.value.code, caught.value.fix) == ("ALLOW_ENTRY", "Remove the path: an origin opens whole.")
    AddressPolicy(allow=("http://127.0.0.1:19600/",)).check_url(parse_url("http://127.0.0.1:19600/hook"))


def test_an_address_that_is_none_is_refused():
    with pytest.raises(ValidationError):
        AddressPolicy().check_address(parse_url("https://example.com/"), "example.com")


def test_a_policy_is_a_value():
    policy = naming("http://localhost:8000/")
    assert policy.naming(parse_url("http://localhost:8000/other")) is policy
    assert policy == naming("http://localhost:8000/x")
    assert hash(policy) == hash(naming("http://localhost:8000/x"))
    assert policy != AddressPolicy()


def test_a_refusal_says_what_leads_where():
    with pytest.raises(TrustError) as caught:
        AddressPolicy().check_address(parse_url("https://example.com/a"), "10.0.0.1")
    assert caught.value.message == "example.com leads to 10.0.0.1, a private address (the local network)"
    assert caught.value.details == {"host": "example.com", "address": "10.0.0.1"}
    assert "allow" in caught.value.diagnostics().fix


def test_a_refusal_that_naming_does_not_lift_says_so():
    with pytest.raises(TrustError) as caught:
        naming("http://0.0.0.0:8000").check_url(parse_url("http://0.0.0.0:8000"))
    assert "127.0.0.1" in caught.value.diagnostics().fix


def test_a_public_name_with_a_private_address_is_opened_by_the_setting_that_the_refusal_names():
    url = parse_url("https://skills.corp.example/")
    with pytest.raises(TrustError) as caught:
        AddressPolicy().naming(url).check_address(url, "10.0.0.1")
    assert 'allow = ["skills.corp.example"]' in caught.value.diagnostics().fix
    AddressPolicy(allow=("skills.corp.example",)).check_address(url, "10.0.0.1")


def test_names_of_hosts():
    assert is_localhost("localhost")
    assert is_localhost("a.b.localhost")
    assert not is_localhost("notlocalhost")
    assert is_local_name("metadata.google.internal")
    assert not is_local_name("example.com")
    assert not is_local_name("internal.example.com")
    assert [is_local_host(host) for host in ("nas", "10.0.0.1", "::1", "93.184.215.14", "example.com")] == [
        True,
        True,
        True,
        False,
        False,
    ]
