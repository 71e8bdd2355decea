"""Who may speak on a wire: the parties of one run, by the names in their certificates, over TLS 1.3 and nothing older."""

import logging
import shutil
import socket
import ssl
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509

from reticent.errors import WireError
from reticent.wires.dialling import dial
from reticent.wires.processes import Processes
from reticent.wires.tls import context, make, own_name


def echo(letter: bytes) -> bytes:
    return letter


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    make(folder, ["bank", "shop", "mallory"])
    return folder


@pytest.fixture
def wire(folder: Path) -> Iterator[Processes]:
    wire = Processes("bank", ["shop"], ("127.0.0.1", 0), folder / "bank")
    yield wire
    wire.close()


def mixed(folder: Path, other: Path, to: Path) -> Path:
    """The certificate of `other`, which trusts the authority of `folder`."""
    shutil.copytree(other, to)
    shutil.copy(folder / "shop" / "ca.pem", to)
    return to


def refused(wire: Processes, caplog: pytest.LogCaptureFixture) -> str:
    """What the host wrote down, once it has."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and not wire.refusals:
        time.sleep(0.01)
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING][-1] == wire.refusals[-1]
    assert wire.post.lines == {}
    return wire.refusals[-1]


def dialled(wire: Processes, folder: Path, name: str = "shop", host: str = "bank") -> str:
    """The sentence with which a guest is refused, at once although it has a minute's patience."""
    began = time.monotonic()
    with pytest.raises(WireError) as caught:
        dial(name, host, wire.address, folder, echo, patience=60.0)
    assert time.monotonic() - began < 5
    return str(caught.value)


def test_a_guest_of_another_authority_is_refused(wire: Processes, folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rogue = mixed(folder, make(tmp_path / "rogue", ["shop"])["shop"], tmp_path / "mixed")
    sentence = dialled(wire, rogue)
    assert sentence.startswith(f"shop cannot join bank at 127.0.0.1:{wire.address[1]}: the other end refuses this one: ")
    assert "alert" in sentence
    assert "its certificate is not accepted: " in refused(wire, caplog)


def test_a_host_of_another_authority_is_refused_by_the_guest(wire: Processes, tmp_path: Path) -> None:
    sentence = dialled(wire, make(tmp_path, ["shop"])["shop"])
    assert "its certificate is not accepted: " in sentence
    assert sentence.endswith("all certificates of a run come from one authority and end on a day")


def test_a_name_that_is_not_expected_is_refused(wire: Processes, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    sentence = dialled(wire, folder / "mallory", "mallory")
    assert sentence == "mallory was refused by bank: bank expects no guest of the name 'mallory': is this the right study, and the right host?"
    assert "bank expects no guest of the name 'mallory'" in refused(wire, caplog)


def test_the_host_itself_cannot_dial_in_as_a_guest(wire: Processes, folder: Path) -> None:
    assert "expects no guest of the name 'bank'" in dialled(wire, folder / "bank", "bank")


def test_a_certificate_that_has_expired_is_refused_at_both_ends(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make(tmp_path, ["bank", "shop"], days=0)
    trusting = Processes("bank", ["shop"], ("127.0.0.1", 0), mixed(tmp_path, folder / "bank", tmp_path / "trusting"))
    sentence = dialled(trusting, mixed(folder, tmp_path / "shop", tmp_path / "expired"))
    assert "the other end refuses this one: sslv3 alert certificate expired" in sentence
    assert "its certificate is not accepted: certificate has expired" in refused(trusting, caplog)
    trusting.close()
    with_old = Processes("bank", ["shop"], ("127.0.0.1", 0), tmp_path / "bank")
    assert "its certificate is not accepted: certificate has expired" in dialled(with_old, tmp_path / "shop")
    with_old.close()


def test_a_host_of_another_name_is_refused_by_the_guest(wire: Processes, folder: Path) -> None:
    address = f"127.0.0.1:{wire.address[1]}"
    expected = f"{address} shows the certificate of 'bank', and this study's host is 'insurer': nothing was said; check --connect"
    assert dialled(wire, folder / "shop", host="insurer") == expected


def test_a_party_with_the_folder_of_another_does_not_start(wire: Processes, folder: Path) -> None:
    expected = f"the certificate in {folder / 'mallory'} names 'mallory', and this party is 'shop': give it its own folder of certificates"
    assert dialled(wire, folder / "mallory", "shop") == expected


def test_tls_1_2_is_refused(wire: Processes, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname = False
    old.load_verify_locations(folder / "shop" / "ca.pem")
    old.load_cert_chain(folder / "shop" / "cert.pem", folder / "shop" / "key.pem")
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(wire.address) as plain, pytest.raises(ssl.SSLError, match="(?i)protocol.version"):
        old.wrap_socket(plain)
    assert refused(wire, caplog).endswith("the other end does not speak TLS 1.3 with a certificate: unsupported protocol")


def test_a_connection_without_a_certificate_is_refused(wire: Processes, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname = False
    bare.load_verify_locations(folder / "shop" / "ca.pem")
    with socket.create_connection(wire.address) as plain, bare.wrap_socket(plain) as connection, pytest.raises(ssl.SSLError, match="(?i)certificate.required"):
        connection.recv(1)
    assert refused(wire, caplog).endswith("peer did not return a certificate")


def test_plain_text_is_refused(wire: Processes, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_connection(wire.address) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        plain.settimeout(5)
        assert b"HTTP" not in plain.recv(100)
    assert refused(wire, caplog).endswith("the other end does not speak TLS 1.3 with a certificate: http request")


def test_a_host_that_speaks_no_tls_is_refused_by_the_guest(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def talk() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"220 mail.example ready\r\n")
                connection.settimeout(5)
                connection.recv(4096)

        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        with pytest.raises(WireError, match=r"the other end does not speak TLS 1\.3 with a certificate: wrong version number$"):
            dial("shop", "bank", server.getsockname()[:2], folder / "shop", echo)
        thread.join(5)


def test_a_silent_stranger_keeps_nobody_waiting(wire: Processes, folder: Path) -> None:
    with socket.create_connection(wire.address):
        thread = threading.Thread(target=dial, args=("shop", "bank", wire.address, folder / "shop", echo))
        thread.start()
        wire.wait(5)
        assert dict(wire.exchange({"shop": b"hello"}, 5.0)) == {"shop": b"hello"}
        wire.close()
        thread.join(5)
        assert not thread.is_alive()


def test_wait_says_who_was_refused_and_why(wire: Processes, folder: Path) -> None:
    dialled(wire, folder / "mallory", "mallory")
    with pytest.raises(
        WireError, match=r"^shop did not dial in .*; a connection from 127\.0\.0\.1:\d+ was refused: bank expects no guest of the name 'mallory'"
    ):
        wire.wait(0.1)


def test_two_hosts_cannot_take_one_port(wire: Processes, folder: Path) -> None:
    with pytest.raises(WireError, match=rf"bank cannot listen on 127\.0\.0\.1:{wire.address[1]}: .*; choose another address"):
        Processes("bank", ["shop"], wire.address, folder / "bank")


def test_keys_are_for_their_owner_only_and_the_authority_has_none_on_disk(folder: Path) -> None:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert [str(path.relative_to(folder)) for path in files] == [
        f"{name}/{file}" for name in ("bank", "mallory", "shop") for file in ("ca.pem", "cert.pem", "key.pem")
    ]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o700}
    authority = x509.load_pem_x509_certificate((folder / "shop" / "ca.pem").read_bytes()).public_key()
    keys = {(folder / name / "key.pem").read_bytes() for name in ("bank", "mallory", "shop")}
    assert len(keys) == 3
    for name in ("bank", "mallory", "shop"):
        assert own_name(folder / name) == name
        assert x509.load_pem_x509_certificate((folder / name / "cert.pem").read_bytes()).public_key() != authority


def test_certificates_hold_from_yesterday_for_the_days_asked(tmp_path: Path) -> None:
    make(tmp_path, ["shop"], days=7)
    found = x509.load_pem_x509_certificate((tmp_path / "shop" / "cert.pem").read_bytes())
    assert (found.not_valid_after_utc - found.not_valid_before_utc).days == 8


@pytest.mark.parametrize("name", ["", "../bank", "reticent authority", "a" * 64, "bänk", "-shop"])
def test_a_name_that_is_no_name_gets_no_certificate(tmp_path: Path, name: str) -> None:
    with pytest.raises(WireError, match="cannot be a certificate's name: use 1 to 63 letters"):
        make(tmp_path, ["bank", name])
    assert list(tmp_path.iterdir()) == []


def test_a_name_twice_gets_no_certificate(tmp_path: Path) -> None:
    with pytest.raises(WireError, match="a name stands twice"):
        make(tmp_path, ["bank", "bank"])


def test_a_folder_without_certificates_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(WireError, match=r"has no ca\.pem, cert\.pem, key\.pem: ask the host"):
        context(tmp_path, server=False)


def test_a_key_that_does_not_fit_its_certificate_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "shop", tmp_path / "shop")
    shutil.copy(folder / "bank" / "key.pem", tmp_path / "shop")
    with pytest.raises(WireError, match="cannot be used: .*make them anew"):
        context(tmp_path / "shop", server=False)
