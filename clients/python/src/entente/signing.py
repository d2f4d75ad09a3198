"""Signatures of envelopes in the profile `aee-jcs-1`: Ed25519 over the canonical form (RFC 8785) of the envelope without `sig`.

The package `cryptography` signs: `pip install "./clients/python[signing]"` in a clone of Entente.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import EntenteError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PROFILE = "aee-jcs-1"


class SigningKey:
    """The private half of an entity's signing key, and the name (`kid`) under which the other half is registered."""

    def __init__(self, private: Ed25519PrivateKey, kid: str) -> None:
        self._private = private
        self.kid = kid

    @classmethod
    def generate(cls, kid: str = "key-1") -> SigningKey:
        """Makes a new key. Keep it: `save` writes it to a file that only its owner may read."""
        return cls(_ed25519().Ed25519PrivateKey.generate(), kid)

    @classmethod
    def load(cls, path: str | Path, kid: str = "key-1") -> SigningKey:
        """Reads a key that `save` wrote, or another Ed25519 key in PEM."""
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        private = load_pem_private_key(Path(path).read_bytes(), None)
        if not isinstance(private, _ed25519().Ed25519PrivateKey):
            raise EntenteError(f"{path} has no Ed25519 key.")
        return cls(private, kid)

    def save(self, path: str | Path) -> None:
        """Writes the private half to a new file that only its owner may read."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        pem = self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        target = Path(path)
        target.touch(mode=0o600, exist_ok=False)
        target.write_bytes(pem)

    @property
    def public(self) -> str:
        """The public half, as it is registered."""
        return "ed25519:" + _base64url(self._private.public_key().public_bytes_raw())

    def sign(self, envelope: Mapping[str, Any]) -> dict[str, str]:
        """Returns the `sig` of an envelope."""
        signed = {name: value for name, value in envelope.items() if name != "sig"}
        value = self._private.sign(f"{PROFILE}\n".encode() + canonical(signed))
        return {"alg": "ed25519", "kid": self.kid, "value": _base64url(value), "profile": PROFILE}


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        how = 'pip install "./clients/python[signing]"'
        raise EntenteError(f"Signing needs the package cryptography: {how}, in a clone of Entente.") from None
    return ed25519


def _base64url(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def canonical(value: Any) -> bytes:
    """Returns the canonical form of JSON (RFC 8785)."""
    return _written(value).encode()


def _written(value: Any) -> str:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, Mapping):
        # By UTF-16 code units, which is not the order of code points.
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{_written(value[name])}" for name in names) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_written, value)) + "]"
    raise EntenteError(f"{type(value).__name__} is no JSON and cannot be signed.")


def _number(value: int | float) -> str:
    """Returns a number as ECMAScript writes it (RFC 8785 §3.2.2.3)."""
    try:
        double = float(value)
    except OverflowError:
        double = math.inf
    if not math.isfinite(double) or (isinstance(value, int) and int(double) != value):
        raise EntenteError(f"{value} is no double, so its canonical form is another number; send it as a text.")
    if double == 0:
        return "0"
    # Python and ECMAScript choose the same shortest digits, and write the exponent differently.
    digits, _, exponent = f"{abs(double)!r}".partition("e")
    whole, _, fraction = digits.partition(".")
    fraction = "" if fraction == "0" else fraction
    point = len(whole) + int(exponent or 0)
    figures = whole + fraction
    point -= len(figures) - len(figures.lstrip("0"))
    figures = figures.strip("0")
    sign = "-" if double < 0 else ""
    count = len(figures)
    if count <= point <= 21:
        return sign + figures + "0" * (point - count)
    if 0 < point <= 21:
        return f"{sign}{figures[:point]}.{figures[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{figures}"
    tail = f"e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return f"{sign}{figures[0]}{'.' + figures[1:] if count > 1 else ''}{tail}"
