"""An encoder and a decoder behind it, each of many layers: two parts of two lengths, each repeated, so that there is no
one distance between equal ops. Written like the decoder (``benchmarks/decoder.py``), whose pieces it takes."""

from __future__ import annotations

from benchmarks.decoder import WIDTH, B, Cache, Decoder
from egshape.ir.graph import Graph, Value

_READING = ("q", "k", "v", "o")


class EncoderDecoder(Decoder):
    """Both under construction."""

    def encoder_layer(self, x: Value, weights: dict[str, Value]) -> Value:
        read = self.read(self.norm(x, weights["norm1"]), None, weights)
        x = self.b.one("add", (x, read))
        inner = self.feed_forward(self.norm(x, weights["norm2"]), *(weights[name] for name in ("gate", "up", "down")))
        return self.b.one("add", (x, inner))

    def read(self, x: Value, memory: Value | None, weights: dict[str, Value]) -> Value:
        """Attention of x to the encoder's result, or to itself."""
        q, k, v, o = (weights[name] for name in _READING)
        queries = self.heads(self.linear(x, q), 4)
        keys, values = (self.heads(self.linear(x if memory is None else memory, each), 2) for each in (k, v))
        return self.linear(self.mixed(queries, keys, values), o)

    def decoder_layer(self, x: Value, memory: Value, number: int, angles: list[Value]) -> tuple[Value, Cache]:
        weights = self.weights(number)
        across = self.read(self.norm(x, weights["norm1"]), memory, weights)
        return self.layer(self.b.one("add", (x, across)), weights, self.cache(number), angles)


def encoder_decoder(encoders: int = 24, decoders: int = 24) -> Graph:
    """An encoder of [b, s, WIDTH], and one step of a decoder that reads its result in each layer."""
    made = EncoderDecoder()
    memory = made.b.arg("text", "f32", [None, None, WIDTH], ["b", "s", None])
    for number in range(encoders):
        memory = made.encoder_layer(memory, made.weights(number))
    memory = made.norm(memory, made.b.arg("norm", "f32", [WIDTH]))
    x, angles = made.b.arg("x", "f32", [B, 1, WIDTH]), made.angles(0)
    out = []
    for number in range(encoders, encoders + decoders):
        x, cache = made.decoder_layer(x, memory, number, angles)
        out += [cache.keys, cache.values]
    results = [x, *out]
    return Graph("encoder_decoder", made.b.finish(results), tuple(f"out{place}" for place in range(len(results))))
