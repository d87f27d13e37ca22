"""SipHash-2-4 with a zero key: 64 bits, and the 128 bits of ClickHouse's partition ids.

The 128 bits are not the reference's variant: the state starts as for 64 bits and the result is ``v0^v1`` then ``v2^v3``
after the four final rounds. It runs once per distinct partition value, never per row.
Source: the ids ClickHouse shows in ``system.parts``; Aumasson and Bernstein, "SipHash: a fast short-input PRF".
"""

from __future__ import annotations

INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_MASK = (1 << 64) - 1


def sip_hash_128(data: bytes) -> bytes:
    """Returns the 16 bytes of the hash."""
    state = list(INITIAL)
    finish_sip_hash(state, data, len(data))
    return (state[0] ^ state[1]).to_bytes(8, "little") + (state[2] ^ state[3]).to_bytes(8, "little")


def finish_sip_hash(state: list[int], data: bytes, length: int) -> None:
    """Hashes ``data``, the rest of a text of ``length`` bytes, and runs the final rounds."""
    padded = data + bytes(7 - len(data) % 8) + bytes([length & 0xFF])
    for offset in range(0, len(padded), 8):
        word = int.from_bytes(padded[offset : offset + 8], "little")
        state[3] ^= word
        _round(state)
        _round(state)
        state[0] ^= word
    state[2] ^= 0xFF
    for _ in range(4):
        _round(state)


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _round(v: list[int]) -> None:
    v[0] = (v[0] + v[1]) & _MASK
    v[1] = _rotate(v[1], 13) ^ v[0]
    v[0] = _rotate(v[0], 32)
    v[2] = (v[2] + v[3]) & _MASK
    v[3] = _rotate(v[3], 16) ^ v[2]
    v[0] = (v[0] + v[3]) & _MASK
    v[3] = _rotate(v[3], 21) ^ v[0]
    v[2] = (v[2] + v[1]) & _MASK
    v[1] = _rotate(v[1], 17) ^ v[2]
    v[2] = _rotate(v[2], 32)
