"""Spark's hash of strings, by which multi-part checkpoints are divided.

Murmur3 (x86, 32 bits) but for the bytes after the last whole word: Spark mixes in each of them as
a word of its own, sign-extended.
"""

from __future__ import annotations

SEED = 42
_MASK = 0xFFFFFFFF


def spark_hash(text: str, seed: int = SEED) -> int:
    """Return the hash as an unsigned number; hash several values by passing on each result."""
    data = text.encode()
    whole = len(data) & ~3
    words = [int.from_bytes(data[at : at + 4], "little") for at in range(0, whole, 4)]
    words += [byte if byte < 128 else byte | 0xFFFFFF00 for byte in data[whole:]]
    state = seed
    for word in words:
        mixed = (word * 0xCC9E2D51) & _MASK
        mixed = ((mixed << 15) | (mixed >> 17)) & _MASK
        state ^= (mixed * 0x1B873593) & _MASK
        state = ((state << 13) | (state >> 19)) & _MASK
        state = (state * 5 + 0xE6546B64) & _MASK
    state ^= len(data)
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _MASK
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _MASK
    return state ^ (state >> 16)


def spark_partition(hashed: int, partitions: int) -> int:
    """Return which of ``partitions`` a hash belongs to, counted from 0."""
    signed = hashed - (1 << 32) if hashed >= 1 << 31 else hashed
    return signed % partitions
