# A TCP proxy that loses what a network loses: connections, answers, and the server altogether.

import contextlib
import socket
import threading
from urllib.parse import urlsplit


class Proxy:
    """Passes bytes on to a server, whose address may change."""

    def __init__(self, url):
        self.aim(url)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.pairs = []
        self.lock = threading.Lock()
        # How many answers to requests that begin with this are still to be lost.
        self.losing = (b"", 0)
        self.lost = 0
        # An answer of the proxy's own, as of one whose server is gone, and how often it is still given to such requests.
        self.answering = (b"", b"", 0)
        self.down = False
        threading.Thread(target=self._accept, daemon=True).start()

    def aim(self, url):
        """Passes new connections on to another server."""
        parts = urlsplit(url)
        self.target = (parts.hostname, parts.port)

    def lose_answers(self, beginning, count):
        """Passes the next requests on that begin like this, and breaks the connections in place of their answers."""
        self.losing = (beginning.encode(), count)

    def answer(self, beginning, status, count, headers="Retry-After: 0"):
        """Answers the next requests that begin like this in place of the server, as a proxy does whose server is gone."""
        told = f"HTTP/1.1 {status} Unavailable\r\n{headers}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        self.answering = (beginning.encode(), told.encode(), count)

    def cut(self):
        """Breaks all connections."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for one in (one for pair in pairs for one in pair):
            _break(one)

    def close(self):
        self.down = True
        _break(self.listener)
        self.cut()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return self.listener.close()
            try:
                if self.down:
                    raise OSError
                far = socket.create_connection(self.target, timeout=5)
                far.settimeout(None)
            except OSError:
                near.close()
                continue
            with self.lock:
                self.pairs.append((near, far))
            state = {"lose": False, "passing": 2}
            threading.Thread(target=self._pass, args=[near, far, state, True], daemon=True).start()
            threading.Thread(target=self._pass, args=[far, near, state, False], daemon=True).start()

    def _pass(self, source, sink, state, asks):
        with contextlib.suppress(OSError):
            while chunk := source.recv(65536):
                beginning, count = self.losing
                start, told, times = self.answering
                if asks and times and chunk.startswith(start):
                    self.answering = (start, told, times - 1)
                    source.sendall(told)
                    break
                if asks and count and chunk.startswith(beginning):
                    self.losing = (beginning, count - 1)
                    state["lose"] = True
                if not asks and state["lose"]:
                    self.lost += 1
                    break
                sink.sendall(chunk)
        _break(source)
        _break(sink)
        with self.lock:
            state["passing"] -= 1
            if state["passing"] == 0:
                self.pairs = [pair for pair in self.pairs if source not in pair]
                source.close()
                sink.close()


def _break(one):
    """Breaks a connection. Whoever still reads from it closes it: a number that is free belongs to the next connection of this
    program, from which that thread would read then."""
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
