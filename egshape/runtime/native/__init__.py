"""What compiled programs call beside their kernels, in C, and its LLVM IR as it is checked in (``make native``)."""
