def validate(original, optimized, facts, *, seconds=2.0):
    return []
