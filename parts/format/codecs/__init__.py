"""Column codecs: a chain of transforms (Delta, DoubleDelta) and at most one compressor.

The compressors are LZ4, LZ4HC, ZSTD, or NONE.

``parse_codec`` checks the text inside ``CODEC(…)`` against the column's type when the table is created; :class:`Codec`
encodes one Arrow buffer and returns the methods it used, and :func:`decode_chain` undoes them. The *chain* is stored
beside every buffer, so reading needs neither the table's definition nor the codec's text.

Chain: up to 8 bytes, in the order of encoding, zero-padded:

=============  ==================================================================
0x01           LZ4 block format (LZ4HC writes the same);
0x02           Zstandard frame;
0x10 + k       Delta over unsigned integers of 2^k bytes;
0x20 + k       DoubleDelta (delta of deltas) over unsigned integers of 2^k bytes;
0x30 + k       Split: values of 2^k bytes (k = 1 to 3) as their first bytes, then their second bytes, and so on;
0x40 + 8k + j  Narrow: integers of 2^k bytes (k = 4: decimals whose value fits 8) as 8 bytes of the smallest value
               and the differences to it in 2^j bytes each; j = 7: all are equal, no differences follow;
0x70 + e       Scale: 64-bit floats as the signed integers that divided by 10^e give them back, bit for bit.
=============  ==================================================================

Narrow is added automatically before LZ4 and ZSTD when no transform was asked for: it is many times faster to undo than
LZ4, which then has less to do. A compressor whose output is not smaller by 1/8 (LZ4) or at all (ZSTD) is left out of
the chain, and such a buffer is later read without a copy.

Split and Scale exist since version 2.0 of the parts (``parts.format.part_files``). :class:`DenseEncoder` uses them in
large merged parts where they save enough (``parts.format.codecs.dense_encoder``).
"""

from parts.format.codecs.codec_chain import BufferKind, ChainError, Codec, Encoder, decode_chain
from parts.format.codecs.codec_parser import DEFAULT_CODEC, parse_codec
from parts.format.codecs.dense_encoder import DenseEncoder

__all__ = [
    "DEFAULT_CODEC",
    "BufferKind",
    "ChainError",
    "Codec",
    "DenseEncoder",
    "Encoder",
    "decode_chain",
    "parse_codec",
]
