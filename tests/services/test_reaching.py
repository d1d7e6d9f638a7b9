"""The way out to addresses that people type in: where it may lead, and where it never does."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from accounts.errors import Invalid
from scheduler.models import Webhook
from scheduler.services.inbox import add_webhook, reaching
from scheduler.services.inbox.reaching import post, problem_of

OK = b"HTTP/1.1 204 No Content\r\n\r\n"
Talk = Callable[[socket.socket], None]


@pytest.fixture
def strict(settings):
    """As an operator who has set nothing."""
    settings.WEBHOOK_NETWORKS, settings.WEBHOOK_PORTS = (), frozenset({443})
    settings.WEBHOOKS_IN_THE_CLEAR = False


@pytest.fixture
def listening() -> Iterator[Callable[[Talk], int]]:
    """`listening(talk)`: the port of a server that has `talk` with each who connects."""
    ends: list[tuple[socket.socket, threading.Thread]] = []

    def listen(talk: Talk) -> int:
        door = socket.create_server(("127.0.0.1", 0))

        def serve() -> None:
            with suppress(OSError):
                while True:
                    line, _ = door.accept()
                    with line, suppress(OSError):
                        talk(line)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        ends.append((door, thread))
        return int(door.getsockname()[1])

    yield listen
    for door, thread in ends:
        with suppress(OSError):
            door.shutdown(socket.SHUT_RDWR)
        door.close()
        thread.join(10)


def asked(line: socket.socket) -> bytes:
    """All that was sent, the body `{}` included: closing before that would cut the answer off."""
    found = b""
    while not found.endswith(b"{}"):
        piece = line.recv(65536)
        if not piece:
            break
        found += piece
    return found


def answering(got: list[bytes], answer: bytes = OK) -> Talk:
    def talk(line: socket.socket) -> None:
        got.append(asked(line))
        line.sendall(answer)

    return talk


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("http://chat.example.org/hook", "https://"),
        ("https://chat.example.org:8443/hook", "TRAINYARD_WEBHOOK_PORTS"),
        ("https://chat.example.org:22/", "TRAINYARD_WEBHOOK_PORTS"),
        *(
            (f"https://{host}/hook", "TRAINYARD_WEBHOOK_NETWORKS")
            for host in (
                *("127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254"),
                *("0.0.0.0", "100.64.0.1", "224.0.0.1", "255.255.255.255", "localhost"),
                *("hook.localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1"),
                *("[::1]", "[fe80::1]", "[fd00::1]", "[::ffff:10.0.0.1]", "[64:ff9b::7f00:1]"),
                *("[2002:7f00:1::]", "[::]", "[ff02::1]", "[64:ff9b:1::808:808]", "[fec0::1]"),
                *("[::8.8.8.8]", "[::ffff:0:8.8.8.8]"),
            )
        ),
    ],
)
def test_where_no_webhook_may_lead_is_told_when_it_is_saved(db, root, strict, url, remedy):
    with pytest.raises(Invalid) as refused:
        add_webhook(actor=root, url=url)
    assert refused.value.field == "url" and remedy in refused.value.detail
    assert not Webhook.objects.exists()


@pytest.mark.parametrize(
    "url",
    [
        "https://chat.example.org/hook?a=1",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]:443/x",
        "https://[64:ff9b::808:808]/",
        "https://höök.example.org/h%C3%B6",
    ],
)
def test_the_open_internet_is_right(strict, url):
    assert problem_of(url) == ""


def test_an_operator_allows_networks_ports_and_plain_http(strict, settings):
    settings.WEBHOOK_NETWORKS = (ip_network("10.0.0.0/8"),)
    settings.WEBHOOK_PORTS = frozenset({443, 8065})
    settings.WEBHOOKS_IN_THE_CLEAR = True
    assert problem_of("http://10.0.0.5:8065/hooks/x") == ""
    assert problem_of("http://10.0.0.5/") != ""
    assert problem_of("https://192.168.0.1/") != ""


def test_one_private_address_among_a_names_public_ones_is_refused(strict, monkeypatch):
    def meant(host, port, **_more):
        return [(2, 1, 6, "", (each, port)) for each in ("93.184.215.14", "10.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", meant)
    with pytest.raises(OSError, match=r"10\.0\.0\.1.*not of the open internet"):
        post("https://chat.example.org/hook", b"{}", {})


def test_a_name_is_looked_up_once_and_that_address_is_called(listening, monkeypatch):
    """What it means a moment later (DNS rebinding) is nobody's business."""
    got: list[bytes] = []
    port, names, real = listening(answering(got)), [], socket.getaddrinfo

    def meant(host, *more, **named):
        if host != "chat.example.org":
            return real(host, *more, **named)
        names.append(host)
        return real("127.0.0.1" if len(names) == 1 else "127.0.0.99", *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", meant)
    assert post(f"http://chat.example.org:{port}/hook?room=1", b"{}", {"X-Own": "1"}).status == 204
    assert names == ["chat.example.org"]
    assert got[0].startswith(b"POST /hook?room=1 HTTP/1.1\r\n")
    assert f"Host: chat.example.org:{port}\r\n".encode() in got[0]


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Key and certificate of `localhost`, signed by itself."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    # OpenSSL asks the machine what day it is, whatever TRAINYARD_TEST_NOW says.
    years = timedelta(days=20 * 365)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - years)
        .not_valid_after(now + years)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    path = tmp_path / "own.pem"
    path.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.mark.parametrize("is_known", [True, False])
def test_tls_asks_for_the_name_and_believes_known_certificates_alone(
    listening, certificate, monkeypatch, is_known
):
    got: list[bytes] = []
    names: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.sni_callback = lambda _line, name, _context: names.append(name)

    def talk(line: socket.socket) -> None:
        with context.wrap_socket(line, server_side=True) as secret:
            got.append(asked(secret))
            secret.sendall(OK)

    port = listening(talk)
    if is_known:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert post(f"https://localhost:{port}/hook", b"{}", {}).status == 204
        assert f"Host: localhost:{port}\r\n".encode() in got[0]
    else:
        with pytest.raises(OSError, match="certificate verify failed"):
            post(f"https://localhost:{port}/hook", b"{}", {})
        assert not got
    assert names == ["localhost"]


def test_of_an_answer_no_more_than_64_kib_are_read(listening):
    header = b"X-More: " + b"x" * 1000 + b"\r\n"
    port = listening(answering([], b"HTTP/1.1 200 OK\r\n" + header * 70 + b"\r\n"))
    with pytest.raises(OSError, match="longer than 64 KiB"):
        post(f"http://127.0.0.1:{port}/", b"{}", {})


def test_who_answers_letter_by_letter_is_left(listening, monkeypatch):
    """Each letter comes in time, and the whole never."""
    monkeypatch.setattr(reaching, "WHOLE_S", 0.3)
    left = threading.Event()

    def talk(line: socket.socket) -> None:
        asked(line)
        line.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        line.settimeout(0.05)
        for _ in range(200):
            line.sendall(b"x")
            try:
                if not line.recv(1):
                    break
            except TimeoutError:
                continue
        left.set()

    port = listening(talk)
    with pytest.raises(OSError, match="no whole answer within"):
        post(f"http://127.0.0.1:{port}/", b"{}", {})
    assert left.wait(10)


def test_a_redirect_is_an_answer_and_leads_nowhere(listening):
    got: list[bytes] = []
    port = listening(answering(got, b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n"))
    assert post(f"http://127.0.0.1:{port}/", b"{}", {}).status == 302
    assert len(got) == 1
