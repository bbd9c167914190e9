"""Values as bytes: compact, checked, and of one version. No pickle: what Redis holds must not run.

.. code-block:: text

    "RAGC" schema(1)  CRC-32 of the rest(4)  length of the identity(2)  identity  subject(32)  body

The identity is model, version, training run, dimension and kind; the subject is the SHA-256 of what was asked, so a
value under another question's key does not fit either. Numbers are little-endian.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from airflow_provider_ragops.workloads.serving.cache.values import Decomposition, Hit, Identity, MakeHit

SCHEMA = 1
_MAGIC = b"RAGC" + bytes([SCHEMA])
_CHECK = struct.Struct("<I")
_HEAD = len(_MAGIC) + _CHECK.size
_COUNT = struct.Struct("<H")
_MOST = 0xFFFF
_VECTORS = np.dtype("<f4")
_SCORES = np.dtype("<f8")
_LENGTHS = np.dtype("<u4")


class Unfit(Exception):
    """A value that is not the loaded version's, or none at all; the text is the reason, one word."""


class Seal:
    """Wraps and unwraps the bodies of one kind for one identity."""

    def __init__(self, identity: Identity, kind: str) -> None:
        parts = (identity.model, identity.version, identity.run, str(identity.dimension), kind)
        owner = "\x1f".join(parts).encode(errors="surrogatepass")
        self._owner = _COUNT.pack(len(owner)) + owner

    def wrap(self, subject: bytes, body: bytes) -> bytes:
        rest = self._owner + subject + body
        return b"".join((_MAGIC, _CHECK.pack(zlib.crc32(rest)), rest))

    def unwrap(self, subject: bytes, raw: bytes) -> memoryview:
        """The body.

        :raises Unfit: schema, checksum, identity or subject is another.
        """
        if not raw.startswith(_MAGIC) or len(raw) < _HEAD:
            raise Unfit("schema")
        rest = memoryview(raw)[_HEAD:]
        if zlib.crc32(rest) != _CHECK.unpack_from(raw, len(_MAGIC))[0]:
            raise Unfit("checksum")
        if not raw.startswith(self._owner, _HEAD):
            raise Unfit("identity")
        start = _HEAD + len(self._owner)
        if not raw.startswith(subject, start):
            raise Unfit("subject")
        return rest[len(self._owner) + len(subject):]


def pack_decomposition(found: Decomposition, dimension: int) -> bytes:
    """:raises Unfit: it is no decomposition of this dimension: the builder's fault, and never to be kept."""
    vectors = np.ascontiguousarray(found.vectors, dtype=_VECTORS)
    count = len(found.sub_queries)
    if not 1 <= count <= _MOST or vectors.shape != (count, dimension) or not np.isfinite(vectors).all():
        raise Unfit("body")
    return _texts(found.sub_queries) + vectors.tobytes()


def unpack_decomposition(body: memoryview, dimension: int) -> Decomposition:
    """:raises Unfit: anything else than one."""
    sub_queries, rest = _read_texts(body)
    count = len(sub_queries)
    if not count or len(rest) != count * dimension * _VECTORS.itemsize:
        raise Unfit("body")
    vectors = np.frombuffer(rest, _VECTORS).reshape(count, dimension).astype(np.float32)  # a copy: aligned, ours
    if not np.isfinite(vectors).all():
        raise Unfit("body")
    vectors.setflags(write=False)
    return Decomposition(sub_queries, vectors)


def pack_hits(hits: Sequence[Any]) -> bytes:
    """:raises Unfit: a score is no number."""
    scores = np.array([hit.score for hit in hits], _SCORES)
    if len(hits) > _MOST or not np.isfinite(scores).all():
        raise Unfit("body")
    return _texts([hit.passage for hit in hits]) + scores.tobytes()


def unpack_hits(body: memoryview, make: MakeHit = Hit) -> tuple[Any, ...]:
    """:raises Unfit: anything else than hits."""
    passages, rest = _read_texts(body)
    if len(rest) != len(passages) * _SCORES.itemsize:
        raise Unfit("body")
    scores = np.frombuffer(rest, _SCORES).tolist()
    if not all(map(math.isfinite, scores)):
        raise Unfit("body")
    return tuple(map(make, passages, scores))


def _texts(texts: Sequence[str]) -> bytes:
    encoded = [text.encode(errors="surrogatepass") for text in texts]
    lengths = np.array([len(each) for each in encoded], _LENGTHS)
    return b"".join((_COUNT.pack(len(encoded)), lengths.tobytes(), *encoded))


def _read_texts(body: memoryview) -> tuple[tuple[str, ...], memoryview]:
    """The texts, and what follows them."""
    try:
        count = _COUNT.unpack_from(body)[0]
        lengths = np.frombuffer(body, _LENGTHS, count, _COUNT.size).tolist()
        start = _COUNT.size + count * _LENGTHS.itemsize
        ends = list(accumulate(lengths, initial=start))
        if ends[-1] > len(body):
            raise Unfit("body")
        texts = tuple(str(body[first:last], "utf-8", "surrogatepass") for first, last in pairwise(ends))
    except (struct.error, ValueError) as error:  # too short; no UTF-8
        raise Unfit("body") from error
    return texts, body[ends[-1]:]
