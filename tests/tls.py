"""TLS in front of a server that does not speak it."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate(folder: Path) -> Path:
    """A self-signed certificate for 127.0.0.1 with its key, in one PEM file."""
    folder.mkdir()
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, folder.name)])
    now = datetime.datetime.now(datetime.timezone.utc)
    built = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "server.pem"
    file.write_bytes(pem + built.public_bytes(serialization.Encoding.PEM))
    return file


class tls_in_front_of:  # noqa: N801 - used as a function
    """A port that speaks TLS and passes what it hears on to a server that does not (the embedded Valkey can't)."""

    def __init__(self, server: tuple[str, int], file: Path) -> None:
        self._server = server
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(file)
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> int:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._run(self._accept)
        return int(self._listener.getsockname()[1])

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    def _run(self, work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        for plain in self._connections():
            try:
                secure = self._context.wrap_socket(plain, server_side=True)
            except OSError:  # the client refused our certificate
                plain.close()
                continue
            upstream = socket.create_connection(self._server, timeout=10)
            self._run(self._pass_on, secure, upstream)
            self._run(self._pass_on, upstream, secure)

    def _connections(self) -> Iterator[socket.socket]:
        while True:
            try:
                found, _ = self._listener.accept()
            except OSError:
                return
            found.settimeout(10)
            yield found

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket) -> None:
        with source:
            try:
                while data := source.recv(65536):
                    target.sendall(data)
                target.shutdown(socket.SHUT_WR)
            except OSError:
                return
