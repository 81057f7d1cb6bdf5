"""A private certificate authority for one federation, and a key pair for each client.

The CA signs the server's certificate; clients trust this CA alone. A client proves who it is with an
ECDSA key (P-384), whose public half the server registers under the client's name. Private files can be
read by their owner only.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_DAYS = 825


def write_authority(folder: Path, hosts: list[str]) -> None:
    """ca.crt, ca.key, server.crt and server.key; the certificate is good for these hosts."""
    folder.mkdir(parents=True, exist_ok=True)
    authority, server = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    issuer = _name("protofed private CA")
    root = _builder(issuer, issuer, authority.public_key())
    root = root.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    root = root.add_extension(_usage(signs=True), critical=True)
    root_identity = x509.SubjectKeyIdentifier.from_public_key(authority.public_key())
    root = root.add_extension(root_identity, critical=False)
    leaf = _builder(_name(hosts[0]), issuer, server.public_key())
    leaf = leaf.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    leaf = leaf.add_extension(_usage(signs=False), critical=True)
    leaf = leaf.add_extension(x509.SubjectAlternativeName([_host(h) for h in hosts]), critical=False)
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    leaf = leaf.add_extension(purpose, critical=False)
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(root_identity)
    leaf = leaf.add_extension(issued_by, critical=False)
    for name, certificate in (("ca", root), ("server", leaf)):
        signed = certificate.sign(authority, hashes.SHA384())
        (folder / f"{name}.crt").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    pem = serialization.PrivateFormat.PKCS8
    for name, key in (("ca", authority), ("server", server)):
        _write_private(
            folder / f"{name}.key",
            key.private_bytes(serialization.Encoding.PEM, pem, serialization.NoEncryption()),
        )


def write_key_pair(path: Path) -> None:
    """`path` (private) and `path`.pub, in OpenSSH's form, which Flower reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP384R1())
    openssh = serialization.PrivateFormat.OpenSSH
    _write_private(path, key.private_bytes(serialization.Encoding.PEM, openssh, serialization.NoEncryption()))
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    path.with_name(path.name + ".pub").write_bytes(public + b"\n")


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
    )


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _write_private(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
