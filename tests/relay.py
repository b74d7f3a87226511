"""A relay to a loopback server that can be cut and repaired: bytes pass until a request matches."""

import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit


class Relay:
    """Listens on a port of its own and hands on to `url`, until `cut`; `mend` listens there again."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._there = (parts.hostname, parts.port)
        self.is_last: Callable[[str], bool] = lambda _path: False
        #: In answers, one text in place of another of the same length.
        self.replaced: tuple[bytes, bytes] = b"", b""
        self._lock = threading.Lock()
        #: Holds the port while nobody listens there.
        self._taken: socket.socket | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._open: set[socket.socket] = set()
        self._serve()

    def cut(self) -> None:
        """Refuse connections, and end every one that is open. The port stays taken: nobody else is to answer there."""
        with self._lock:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)  # wakes whoever waits in accept
            self._listener.close()
            if self._taken is None:
                self._taken = socket.socket()
                self._taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                self._taken.bind(("127.0.0.1", self.port))
            for connection in list(self._open):
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Listen on the same port again; no request cuts it any more."""
        self.is_last = lambda _path: False
        assert self._taken is not None
        self._listener, self._taken = self._taken, None
        self._listener.listen()
        self._serve()

    def close(self) -> None:
        """Cut it for good."""
        self.cut()
        if self._taken is not None:
            self._taken.close()

    def _serve(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                here, _ = listener.accept()
                there = socket.create_connection(self._there)
                with self._lock:
                    if listener.fileno() < 0:  # cut meanwhile
                        here.close()
                        there.close()
                        return
                    self._open |= {here, there}
                for source, target, watched in ((here, there, True), (there, here, False)):
                    threading.Thread(
                        target=self._copy, args=(source, target), kwargs={"watched": watched}, daemon=True
                    ).start()

    def _copy(self, source: socket.socket, target: socket.socket, *, watched: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                # a request of these clients comes in one piece
                path = re.match(rb"[A-Z]+ (\S+) HTTP", data) if watched else None
                if path and self.is_last(path[1].decode()):
                    self.cut()
                    break
                target.sendall(data.replace(*self.replaced) if self.replaced[0] and not watched else data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
        source.close()
        self._open.discard(source)
