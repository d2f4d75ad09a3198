# Ed25519 signatures (RFC 8032), for tests only: slow and without protection against side channels. The SDK itself signs
# nothing, and a signing package is not worth a dependency.

import base64
import hashlib
import json

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


def _add(a, b):
    (x1, y1), (x2, y2) = a, b
    product = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, P)
    y = (y1 * y2 + x1 * x2) * pow(1 - product, -1, P)
    return x % P, y % P


def _times(point, factor):
    result = (0, 1)
    while factor:
        if factor & 1:
            result = _add(result, point)
        point = _add(point, point)
        factor >>= 1
    return result


def _base():
    y = 4 * pow(5, -1, P) % P
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    return (x if x % 2 == 0 else P - x), y


BASE = _base()


def _packed(point) -> bytes:
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _number(*parts: bytes) -> int:
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little")


def encoded(data: bytes) -> str:
    """Returns base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def canonical(value) -> bytes:
    """Canonicalises by RFC 8785 as far as these tests need it: no fractions, and ASCII names."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


class Key:
    """A key derived from a seed."""

    def __init__(self, seed: str):
        digest = hashlib.sha512(hashlib.sha256(seed.encode()).digest()).digest()
        secret = int.from_bytes(digest[:32], "little")
        self._secret = secret & ((1 << 254) - 8) | 1 << 254
        self._prefix = digest[32:]
        self._public = _packed(_times(BASE, self._secret))
        self.public = "ed25519:" + encoded(self._public)

    def sign(self, message: bytes) -> str:
        nonce = _number(self._prefix, message) % ORDER
        point = _packed(_times(BASE, nonce))
        challenge = _number(point, self._public, message)
        return encoded(point + ((nonce + challenge * self._secret) % ORDER).to_bytes(32, "little"))
