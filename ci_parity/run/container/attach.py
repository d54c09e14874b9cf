"""The socket that carries a container's streams: one request, then bytes both ways.

docker-py's own way gives a socket that only reads, and loses hold of what is under it; this is the
request it makes (Docker Engine API, "Attach to a container": hijacking).
"""

import socket
from urllib.parse import urlsplit

_TIMEOUT_S = 60.0
_MAX_HEAD_BYTES = 64 * 1024
_UPGRADED = ("101", "200")
_REQUEST = (
    "POST /v{version}/containers/{container}/attach?stream=1&stdin=1&stdout=1&stderr=1 HTTP/1.1\r\n"
    "Host: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n"
)


def attach(address: str, version: str, container: str) -> socket.socket:
    """Return a socket to the streams of a container that need not have been started.

    Args:
        address: of the daemon, `unix://…` or `tcp://…`.
        version: of its interface.
        container: its ID.

    Raises:
        OSError: the daemon does not answer, or refuses.
    """
    connection = open_socket(address, timeout_s=_TIMEOUT_S)
    try:
        request = _REQUEST.format(version=version, container=container)
        connection.sendall(request.encode())
        status, _, rest = _head(connection).partition("\r\n")
        if status.split(" ")[1:2] not in [[code] for code in _UPGRADED]:
            raise OSError(f"attaching failed: {status} {rest}".strip())  # noqa: TRY301 - closed below
    except BaseException:
        connection.close()
        raise
    return connection


def open_socket(address: str, *, timeout_s: float) -> socket.socket:
    """Return a connection to a daemon.

    Raises:
        OSError: nobody answers there, or we may not.
    """
    if not address.startswith("unix://"):
        place = urlsplit(address)
        return socket.create_connection((place.hostname or "", place.port or 2375), timeout_s)
    if not hasattr(socket, "AF_UNIX"):
        raise OSError("this system has no such sockets: name a tcp:// address")
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(timeout_s)
        connection.connect(address.removeprefix("unix://"))
    except BaseException:
        connection.close()
        raise
    return connection


def _head(connection: socket.socket) -> str:
    """Read an answer's head and no byte more: what follows belongs to the streams."""
    head = b""
    while not head.endswith(b"\r\n\r\n") and len(head) < _MAX_HEAD_BYTES:
        byte = connection.recv(1)
        if not byte:
            break
        head += byte
    return head.decode("latin-1").strip()
