"""What a plan rests on: what is known of sizes, what may run in parallel, how much work there is, where memory lies,
what the host of a device runs."""
