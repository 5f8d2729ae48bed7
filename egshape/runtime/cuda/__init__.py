"""CUDA devices: the driver, arrays, calls."""
