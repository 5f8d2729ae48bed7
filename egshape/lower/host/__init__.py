"""The host program: sizes, checks, memory and the order of kernels, as one native function."""
