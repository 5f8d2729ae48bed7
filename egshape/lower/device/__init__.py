"""Host programs that drive a CUDA device."""
