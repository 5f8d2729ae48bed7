"""Programs that nobody here chose, through egshape: what becomes of each, and how long it takes (docs/robustness.md).

python -m benchmarks.robustness [--only jax,onnx,grammar,zoo] [--limit N] [--seconds S] [--fresh]"""
