# Notifications of people against real programs: a mail server (aiosmtpd), and Mozilla's reader of push messages (http-ece).

import base64
import contextlib
import email
import email.policy
import json
import os
import re
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import http_ece
import httpx
import jwt
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword
from conftest import AGENTS, GRACE, PROGRAM, environment, serving
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PERSON, KEY = GRACE
PUBLIC = "https://entente.test"
PATIENCE = 20.0


class Mailbox:
    """What a mail server took."""

    def __init__(self):
        self.mails = []

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("nobody@"):
            return "550 5.1.1 No such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        self.mails.append(email.message_from_bytes(envelope.content, policy=email.policy.default))
        return "250 OK"

    def until(self, count):
        end = time.monotonic() + PATIENCE
        while len(self.mails) < count:
            assert time.monotonic() < end, f"only {len(self.mails)} of {count} mails came"
            time.sleep(0.05)
        return self.mails


def certificate(directory: Path):
    """Writes an authority's certificate, and a server's with its key."""
    now = datetime.now(timezone.utc)

    def issue(name, key, issuer, signer, *extensions):
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer or subject)
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(signer, hashes.SHA256())

    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = issue("Test authority", authority_key, None, authority_key, (x509.BasicConstraints(True, None), True))
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    own = issue("localhost", key, authority.subject, authority_key, (names, False))
    pem = serialization.Encoding.PEM
    (directory / "ca.pem").write_bytes(authority.public_bytes(pem))
    (directory / "cert.pem").write_bytes(own.public_bytes(pem))
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    (directory / "key.pem").write_bytes(key.private_bytes(pem, form, plain))


class OnAnyPort(Controller):
    """A mail server on a port that the system chose."""

    def _trigger_server(self):
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@contextlib.contextmanager
def mail_server(**more):
    mailbox = Mailbox()
    controller = OnAnyPort(mailbox, hostname="127.0.0.1", port=0, **more)
    controller.start()
    try:
        yield mailbox, controller.port
    finally:
        controller.stop()


def question(stem="When should release 1.4 ship?"):
    return {
        "principal_id": PERSON,
        "binding_moment": {
            "synopsis": "Ship release 1.4 now.",
            "findings": ["CI is green."],
            "recommendations": ["Tag v1.4."],
            "offer": "Ask for detail.",
            "question": {
                "stem": stem,
                "options": [
                    {"label": "Ship now", "reasoning": "All checks pass."},
                    {"label": "Wait", "reasoning": "A reviewer is away."},
                ],
                "recommended_idx": 0,
            },
        },
    }


def client(url, key):
    return httpx.Client(base_url=f"{url}/api/v1", headers={"x-api-key": key}, timeout=20)


def entente(url, *arguments):
    """Runs the command line as the person."""
    run = subprocess.run(
        [PROGRAM, *arguments, "--json"],
        env=environment() | {"ENTENTE_URL": url, "ENTENTE_API_KEY": KEY},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_a_mail_address_is_confirmed_and_told():
    checked = []

    def check(server, session, envelope, mechanism, data):
        checked.append(session.ssl is not None)
        is_right = isinstance(data, LoginPassword) and data.password == b"pass word"
        return AuthResult(success=is_right)

    with tempfile.TemporaryDirectory() as directory:
        certificate(Path(directory))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(Path(directory, "cert.pem"), Path(directory, "key.pem"))
        options = {"tls_context": tls, "require_starttls": True, "authenticator": check, "auth_required": True}
        with mail_server(**options) as (mailbox, port):
            settings = {
                "ENTENTE_SMTP_URL": f"smtp://entente:pass%20word@localhost:{port}",
                "ENTENTE_SMTP_FROM": "Entente <entente@entente.test>",
                "ENTENTE_PUBLIC_URL": PUBLIC,
                "ENTENTE_CA_FILE": os.path.join(directory, "ca.pem"),
            }
            with serving(**settings) as url:
                told(url, mailbox)
    assert checked and all(checked), "the password was said without TLS"


def told(url, mailbox):
    made = entente(url, "contact", "create", "mail", "grace@example.com", "--label", "work")
    assert made["confirmed_at"] is None
    (confirmation,) = mailbox.until(1)
    assert confirmation["Subject"] == "Confirm this address"
    with client(url, AGENTS["agent.ada"]) as agent, client(url, KEY) as person:
        assert agent.post("/moments", json=question()).status_code == 201
        code = re.search(r"^  (\d{8})\r?$", confirmation.get_content(), re.MULTILINE).group(1)
        wrong = "00000000" if code != "00000000" else "11111111"
        refused = person.post(f"/contact-points/{made['id']}/confirm", json={"code": wrong})
        assert refused.status_code == 422, refused.text
        confirmed = entente(url, "contact", "confirm", made["id"], f"{code[:4]} {code[4:]}")
        assert confirmed["confirmed_at"]
        asked = agent.post("/moments", json=question("When should release 1.5 ship? Ünder all circumstances 🙂")).json()
    mail = mailbox.until(2)[1]
    assert mail["Subject"] == "Decide: When should release 1.5 ship? Ünder all circumstances 🙂"
    assert mail["To"] == "grace@example.com" and mail["From"] == "Entente <entente@entente.test>"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert re.fullmatch(rf"<{made['id']}\.\d+@entente\.test>", mail["Message-ID"])
    text = mail.get_content()
    assert f"{PUBLIC}/inbox/{asked['id']}" in text and "agent.ada asks you to decide" in text
    assert mail.get_content_type() == "text/plain" and "Ship now" not in text
    # Five wrong codes, and the right one no longer counts.
    second = entente(url, "contact", "create", "mail", "other@example.com")
    right = re.search(r"^  (\d{8})\r?$", mailbox.until(3)[2].get_content(), re.MULTILINE).group(1)
    with client(url, KEY) as person:
        path = f"/contact-points/{second['id']}/confirm"
        for _ in range(5):
            assert person.post(path, json={"code": "1"}).status_code == 422
        assert person.post(path, json={"code": right}).status_code == 422
        # A mailbox that does not exist: the person sees what the mail server says.
        gone = person.post(f"/people/{PERSON}/contact-points", json={"kind": "mail", "address": "nobody@example.com"}).json()
        end = time.monotonic() + PATIENCE
        while not (found := person.get(f"/contact-points/{gone['id']}").json())["last_error"]:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert "No such mailbox" in found["last_error"], found


class Receiver(BaseHTTPRequestHandler):
    """A push service or a chat: records requests."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((self.path, dict(self.headers), body))
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def receiver(status=201):
    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        server.got, server.status = [], status
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def until(server, count):
    end = time.monotonic() + PATIENCE
    while len(server.got) < count:
        assert time.monotonic() < end, f"only {len(server.got)} of {count} came"
        time.sleep(0.05)
    return server.got


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_a_browser_reads_its_push_messages_and_the_service_knows_the_sender():
    browser, secret = ec.generate_private_key(ec.SECP256R1()), os.urandom(16)
    point = browser.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    with receiver() as (service, address), serving() as url, client(url, KEY) as person, client(
        url, AGENTS["agent.ada"]
    ) as agent:
        keys = {"p256dh": encoded(point), "auth": encoded(secret)}
        ask = {"kind": "web_push", "address": f"{address}/push/1", "push_keys": keys}
        made = person.post(f"/people/{PERSON}/contact-points", json=ask)
        assert made.status_code == 201, made.text
        asked = agent.post("/moments", json=question()).json()
        path, headers, body = until(service, 1)[0]
        assert path == "/push/1" and headers["content-encoding"] == "aes128gcm"
        assert int(headers["ttl"]) > 0 and len(headers["topic"]) == 32 and len(body) <= 4096
        told = json.loads(http_ece.decrypt(body, private_key=browser, auth_secret=secret, version="aes128gcm"))
        assert told["path"] == f"/inbox/{asked['id']}" and told["count"] == 1
        assert told["title"] == "Decide: When should release 1.4 ship?"
        # Nobody else reads it.
        with pytest.raises(http_ece.ECEException):
            http_ece.decrypt(body, private_key=browser, auth_secret=os.urandom(16), version="aes128gcm")
        token, _, key = headers["authorization"].removeprefix("vapid t=").partition(", k=")
        assert key == person.get("/contact-points/push-key").json()["public_key"]
        public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decoded(key))
        claims = jwt.decode(token, public, algorithms=["ES256"], audience=address)
        assert claims["exp"] - time.time() < 24 * 3600 and claims["sub"].startswith("http")
        # A subscription that has ended is told nothing more.
        service.status = 404
        person.post(f"/contact-points/{made.json()['id']}/test")
        until(service, 2)
        end = time.monotonic() + PATIENCE
        while (found := person.get(f"/contact-points/{made.json()['id']}").json())["active"]:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert found["disabled_reason"] == "gone"


def test_a_mail_server_that_hangs_keeps_no_chat_waiting():
    with socket.create_server(("127.0.0.1", 0)) as silent, receiver(200) as (chat, address):
        settings = {
            "ENTENTE_SMTP_URL": f"smtp://127.0.0.1:{silent.getsockname()[1]}?tls=none",
            "ENTENTE_SMTP_FROM": "entente@entente.test",
            "ENTENTE_PUBLIC_URL": PUBLIC,
        }
        with serving(**settings) as url, client(url, KEY) as person, client(url, AGENTS["agent.ada"]) as agent:
            for n in range(6):
                ask = {"kind": "mail", "address": f"grace{n}@example.com"}
                assert person.post(f"/people/{PERSON}/contact-points", json=ask).status_code == 201
            # All connections to the mail server hang by now.
            held = [silent.accept()[0] for _ in range(4)]
            ask = {"kind": "slack", "address": f"{address}/hook"}
            assert person.post(f"/people/{PERSON}/contact-points", json=ask).status_code == 201
            assert agent.post("/moments", json=question()).status_code == 201
            until(chat, 1)
            for connection in held:
                connection.close()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"ENTENTE_SMTP_URL": "smtp://mail.test"}, "ENTENTE_SMTP_FROM"),
        ({"ENTENTE_SMTP_URL": "smtp://mail.test", "ENTENTE_SMTP_FROM": "a@b.test"}, "ENTENTE_PUBLIC_URL"),
        ({"ENTENTE_SMTP_URL": "smtp://a:secret@mail.test?tls=none", "ENTENTE_SMTP_FROM": "a@b.test"}, "without TLS"),
        ({"ENTENTE_SMTP_URL": "mail.test", "ENTENTE_SMTP_FROM": "a@b.test"}, "smtps://"),
    ],
)
def test_a_mail_server_that_cannot_be_used_is_said_at_the_start(settings, says):
    run = subprocess.run([PROGRAM, "doctor"], env=environment() | settings, capture_output=True, text=True, timeout=30)
    assert run.returncode != 0 and says in run.stderr + run.stdout, run.stderr + run.stdout
    assert "secret" not in run.stderr + run.stdout
