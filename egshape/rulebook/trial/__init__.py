"""Try rules out: does each fire where it should, and is what it states true?"""
