"""MinHash signatures: 64 positions cut into 16 bands of 4 (Leskovec, Rajaraman, Ullman: Mining of Massive Datasets, 3.4)."""

from __future__ import annotations

import hashlib

import numpy as np

from cortex.errors import InputError

N_PERMUTATIONS = 64
N_BANDS = 16
NEAR_DUPLICATE_SIMILARITY = 0.85
_BAND_BYTES = N_PERMUTATIONS // N_BANDS * 4


def bands(signature: bytes) -> list[int]:
    """Hash each band to a signed 64-bit key; documents that share a key are worth comparing. Empty gives none."""
    if not signature:
        return []
    if len(signature) != N_BANDS * _BAND_BYTES:
        raise InputError(
            f"a signature has {N_BANDS * _BAND_BYTES} bytes, not {len(signature)}", code="signature.invalid"
        )
    return [
        int.from_bytes(
            hashlib.blake2b(
                signature[band * _BAND_BYTES : (band + 1) * _BAND_BYTES],
                digest_size=8,
                salt=band.to_bytes(2, "big"),
            ).digest(),
            "big",
            signed=True,
        )
        for band in range(N_BANDS)
    ]


def similarity(one: bytes, other: bytes) -> float:
    """Estimate the Jaccard similarity of two bodies, in [0, 1]: the share of equal positions."""
    return float(np.mean(np.frombuffer(one, dtype="<u4") == np.frombuffer(other, dtype="<u4")))
