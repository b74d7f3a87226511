"""A redirect from an address that counts as public leads no download into the operator's network."""

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from resources.enterprise import errors
from resources.enterprise.http import bounds, transport
from tests.unit.enterprise.loopback import Loopback, Reply

PATH = "/v2/batches/2026-11-01/05/enwiki_namespace_0/download"
#: Where the service is in these tests; Linux has all of 127.0.0.0/8.
PUBLIC = "127.0.0.1"


@pytest.fixture
def inside():
    """A server that the redirect must not reach, on a loopback address that is not the service's."""
    server = Loopback(lambda _: Reply(200, b"secret"), "127.0.0.2")
    yield server
    server.close()


@pytest.fixture
def names(monkeypatch):
    """What a name server says of a host, look by look; and `127.0.0.1` counts as public, all else as what it is."""
    known = {"meta.example.org": ["127.0.0.2"], "both.example.org": [PUBLIC, "127.0.0.2"], "127.0.0.2.": ["127.0.0.2"]}
    look_up, network_of = socket.getaddrinfo, bounds.network_of

    def found(host, port, *args, **options):
        if host in known:
            host = known[host].pop(0) if len(known[host]) > 1 else known[host][0]
        return look_up(host, port, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", found)
    monkeypatch.setattr(transport, "network_of", lambda one: "public" if one == PUBLIC else network_of(one))


#: The forms that a resolver takes for the same, and names.
HOSTS = ["127.0.0.2", "127.2", "2130706434", "0x7f000002", "0x7f.0.0.2", "0177.0.0.02", "127.0.0.2."]
HOSTS += ["[::ffff:127.0.0.2]", "[::ffff:7f00:2]", "meta.example.org", "both.example.org"]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_no_redirect_leads_inside(client, fake, inside, names, hour, batch, tmp_path, scheme, host):
    location = f"{scheme}://{host}:{urlsplit(inside.url).port}/latest/meta-data?X-Amz-Signature=1"
    fake.script(PATH, *[Reply(307, b"", {"Location": location})] * 9)
    with pytest.raises(errors.EnterpriseError) as caught:
        client.hours.download(hour, batch, tmp_path / "x.tar.gz")
    assert type(caught.value) is errors.UnexpectedAnswer
    assert "redirects to a loopback address" in caught.value.message
    assert "Signature" not in caught.value.message
    assert inside.requests == []
    assert not any(tmp_path.glob("x*"))
    # asked for once: a redirect that leads inside costs no second unit of quota
    assert len(fake.api.seen(PATH)) == 1


def test_where_the_service_is_its_files_may_be_but_a_store_that_redirects_is_not_followed(
    client, fake, inside, hour, batch, tmp_path
):
    assert client.hours.download(hour, batch, tmp_path / "x.tar.gz").fetched  # as ever, all on loopback
    assert client._transport._networks == {"public", "loopback"}
    fake.script("/objects/*", *[Reply(302, b"", {"Location": f"{inside.url}/x"})] * 30)
    with pytest.raises(errors.ServiceUnavailable, match="responded with status 302"):
        client.hours.download(hour, batch, tmp_path / "y.tar.gz")
    assert inside.requests == []


NETWORKS = [line.split() for line in Path(__file__).with_name("networks.txt").read_text().splitlines()]


@pytest.mark.parametrize(("address", "network"), NETWORKS)
def test_addresses_belong_to_networks(address, network):
    assert bounds.network_of(address) == network


@pytest.mark.parametrize("name", ["auth_url", "base_url", "realtime_url"])
def test_passwords_and_tokens_go_over_open_connections_to_this_machine_only(fake, name):
    for url in ("http://localhost.example.org", "http://no-localhost"):
        with pytest.raises(errors.InvalidRequest, match=f"WME_{name.upper()}, or set WME_ALLOW_HTTP=1"):
            fake.service(**{name: url})
    assert getattr(fake.service(**{name: f" {url}/ ", "allow_http": True}), name) == url
    for url in ("https://api.example.org", "http://a.localhost."):
        assert fake.service(**{name: url})
