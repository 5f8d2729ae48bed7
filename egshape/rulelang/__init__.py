"""The language of `.egg` rules: read, checked, and made into programs for the engine."""
