"""Kernels as CUDA C++: the loop IR mapped to blocks and threads, printed, and compiled without a GPU."""
