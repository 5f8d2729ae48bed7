"""The loop IR and the host program: what a plan is made of."""
