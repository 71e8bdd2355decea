"""Certificates of one run, and what both ends of a connection demand: TLS 1.3, a certificate of the run's own authority, and the right name."""

import os
import re
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from reticent.errors import WireError


def write_private(path: Path, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        os.fchmod(file.fileno(), 0o600)  # a file that stood there keeps its old mode otherwise
        file.write(data)


def certify(
    name: str, key: ec.EllipticCurvePrivateKey, authority: str, signer: ec.EllipticCurvePrivateKey, begins: datetime, ends: datetime
) -> x509.Certificate:
    """A certificate of `name`, signed by `authority`; of the authority itself where the two are one."""
    is_authority = name == authority
    usage = x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    draft = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, authority)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if not is_authority:
        draft = draft.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        draft = draft.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    return draft.sign(signer, hashes.SHA256())


def make(folder: Path, names: Sequence[str], days: int = 30) -> dict[str, Path]:
    """A fresh authority, and for each name a folder (mode 700) of ca.pem, cert.pem and key.pem (mode 600). The authority's key is never written."""
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", name):
            raise WireError(f"{name!r} cannot be a certificate's name: use 1 to 63 letters, digits, '.', '_' and '-', with a letter or digit at both ends")
    if len(set(names)) != len(names):
        raise WireError(f"certificates for {', '.join(names)}: a name stands twice; give every party its own")
    now = datetime.now(UTC)
    begins, ends = now - timedelta(days=1), now + timedelta(days=days)  # a day back: clocks of two organisations differ
    authority, signer = "reticent authority", ec.generate_private_key(ec.SECP256R1())  # the blank keeps it apart from every party's name
    root = certify(authority, signer, authority, signer, begins, ends).public_bytes(serialization.Encoding.PEM)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folders = {}
    for name in names:
        key = ec.generate_private_key(ec.SECP256R1())
        secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        certificate = certify(name, key, authority, signer, begins, ends).public_bytes(serialization.Encoding.PEM)
        folders[name] = folder / name
        folders[name].mkdir(mode=0o700, exist_ok=True)
        folders[name].chmod(0o700)
        for file, data in {"ca.pem": root, "cert.pem": certificate, "key.pem": secret}.items():
            write_private(folders[name] / file, data)
    return folders


def context(folder: Path, server: bool) -> ssl.SSLContext:
    """What a party demands of the other end. Names are not the certificate library's affair: see `peer_name`."""
    missing = [file for file in ("ca.pem", "cert.pem", "key.pem") if not (folder / file).is_file()]
    if missing:
        raise WireError(f"{folder} has no {', '.join(missing)}: ask the host for this party's folder of certificates and name it with --tls")
    demand = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    demand.minimum_version = ssl.TLSVersion.TLSv1_3
    demand.check_hostname = False  # a party is its certificate's name, wherever it runs
    demand.verify_mode = ssl.CERT_REQUIRED
    demand.verify_flags |= ssl.VERIFY_X509_STRICT
    if server:
        demand.num_tickets = 0  # every connection shows its certificate anew
    try:
        demand.load_verify_locations(folder / "ca.pem")
        demand.load_cert_chain(folder / "cert.pem", folder / "key.pem", password=lambda: "")  # an encrypted key is refused, not asked about
    except (ssl.SSLError, OSError, ValueError) as error:
        raise WireError(f"the certificates in {folder} cannot be used: {error}; make them anew") from error
    return demand


def own_name(folder: Path) -> str:
    """The name in the certificate of this folder."""
    try:
        subject = x509.load_pem_x509_certificate((folder / "cert.pem").read_bytes()).subject
    except (OSError, ValueError) as error:
        raise WireError(f"{folder / 'cert.pem'} cannot be read: {error}; ask the host for this party's folder of certificates") from error
    return " ".join(str(part.value) for part in subject.get_attributes_for_oid(NameOID.COMMON_NAME))


def peer_name(socket: ssl.SSLSocket) -> str:
    """The one name of the certificate at the other end: its common name and its only DNS name, which must agree."""
    shown: Any = socket.getpeercert() or {}  # Any: typeshed's union of all fields
    common = [value for group in shown.get("subject", ()) for key, value in group if key == "commonName"]
    others = [value for key, value in shown.get("subjectAltName", ()) if key == "DNS"]
    if len(common) != 1 or common != others:
        raise WireError(f"a certificate with the common name {common} and the DNS names {others} names no one party; both must be the party's name")
    return str(common[0])
