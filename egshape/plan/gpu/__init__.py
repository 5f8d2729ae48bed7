"""Plans for GPUs: what is computed in one kernel there, and how a kernel's loops become blocks, warps and threads."""
