"""Models that strangers exported, beside ONNX Runtime and what simplifies models: ``python -m benchmarks.zoo``."""
