"""Z85, the Base85 that Delta puts into JSON (https://rfc.zeromq.org/spec/32/).

Four bytes, read as one big-endian number, become five characters. The standard library's ``b85``
packs alike and differs in its alphabet only.
"""

from __future__ import annotations

import base64
from typing import Final

from polylake.errors import ValidationError

_Z85: Final = (
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
)
_B85: Final = (
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
)
_TO_Z85: Final = bytes.maketrans(_B85, _Z85)
_TO_B85: Final = bytes.maketrans(_Z85, _B85)


def encode(data: bytes) -> str:
    """Encode bytes, padded with zeros to a multiple of four as Delta's writers do."""
    return base64.b85encode(data, pad=True).translate(_TO_Z85).decode("ascii")


def decode(encoded: str, size: int) -> bytes:
    """Decode ``size`` bytes and drop the padding behind them.

    Raises:
        ValidationError: ``encoded`` is not Z85, or does not hold ``size`` bytes.
    """
    blocks = -(-size // 4)
    if len(encoded) != blocks * 5:
        raise ValidationError(
            f"Z85 of {size} bytes takes {blocks * 5} characters, not {len(encoded)}",
            size=size,
            characters=len(encoded),
        )
    raw = encoded.encode("utf-8", "surrogatepass")
    if raw.translate(None, _Z85):
        raise ValidationError(f"characters outside the Z85 alphabet in {encoded[:40]!r}")
    try:
        return base64.b85decode(raw.translate(_TO_B85))[:size]
    except ValueError as error:
        raise ValidationError("five characters of Z85 say more than 32 bits") from error
