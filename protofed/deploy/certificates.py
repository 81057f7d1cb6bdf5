"""A private certificate authority for one federation, and a key pair for each client.

The CA signs the server's certificate; clients trust this CA alone. The server's certificate is valid for
825 days and can be renewed with the CA's key, which clients do not notice; the CA for ten years. A client
proves who it is with an ECDSA key (P-384), whose public half the server registers under the client's name.
Private files can be read by their owner only.
"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ..core.errors import ConfigError
from .private import private_folder, write_private

AUTHORITY_DAYS, SERVER_DAYS = 3650, 825
PEM = serialization.Encoding.PEM


def write_authority(folder: Path, authority: Path, hosts: list[str]) -> None:
    """ca.crt, server.crt and server.key; the certificate is good for these hosts. The authority's own key
    goes to `authority`."""
    folder.mkdir(parents=True, exist_ok=True)
    private_folder(authority.parent)
    key = ec.generate_private_key(ec.SECP384R1())
    issuer = _name("protofed private CA")
    root = _builder(issuer, issuer, key.public_key(), AUTHORITY_DAYS)
    root = root.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    root = root.add_extension(_usage(signs=True), critical=True)
    identity = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    root = root.add_extension(identity, critical=False)
    (folder / "ca.crt").write_bytes(root.sign(key, hashes.SHA384()).public_bytes(PEM))
    _write_key(authority, key)
    _write_server(folder, authority, x509.SubjectAlternativeName([_host(host) for host in hosts]), hosts[0])


def renew_server(folder: Path, authority: Path) -> None:
    """A new server.crt and server.key for the same hosts."""
    old = read_certificate(folder / "server.crt")
    names = old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    common = old.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    _write_server(folder, authority, names, str(common))


def read_certificate(path: Path) -> x509.Certificate:
    """A certificate from a PEM file."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as a certificate: {error}") from error


def days_left(path: Path) -> int:
    """Whole days until a certificate expires; negative afterwards."""
    return (read_certificate(path).not_valid_after_utc - datetime.datetime.now(datetime.UTC)).days


def _write_server(folder: Path, authority: Path, hosts: x509.SubjectAlternativeName, common: str) -> None:
    try:
        signer = serialization.load_pem_private_key(authority.read_bytes(), None)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{authority} is needed to sign the server's certificate: {error}") from error
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    root, key = read_certificate(folder / "ca.crt"), ec.generate_private_key(ec.SECP384R1())
    leaf = _builder(_name(common), root.subject, key.public_key(), SERVER_DAYS)
    leaf = leaf.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    leaf = leaf.add_extension(_usage(signs=False), critical=True)
    leaf = leaf.add_extension(hosts, critical=False)
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    leaf = leaf.add_extension(purpose, critical=False)
    identity = root.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identity)
    leaf = leaf.add_extension(issued_by, critical=False)
    (folder / "server.crt").write_bytes(leaf.sign(signer, hashes.SHA384()).public_bytes(PEM))
    _write_key(folder / "server.key", key)


def write_key_pair(path: Path) -> None:
    """`path` (private) and `path`.pub, in OpenSSH's form, which Flower reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP384R1())
    openssh = serialization.PrivateFormat.OpenSSH
    write_private(path, key.private_bytes(PEM, openssh, serialization.NoEncryption()))
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    path.with_name(path.name + ".pub").write_bytes(public + b"\n")


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=days))
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


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    form = serialization.PrivateFormat.PKCS8
    write_private(path, key.private_bytes(PEM, form, serialization.NoEncryption()))
