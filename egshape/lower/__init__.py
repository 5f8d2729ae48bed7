"""From kernels and a host program to native code."""
