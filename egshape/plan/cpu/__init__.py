"""Plans for this processor: products by panels, attention, convolutions, layouts."""
