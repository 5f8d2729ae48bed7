"""What is computed in one kernel, whatever the machine."""
