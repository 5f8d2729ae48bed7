"""The commands of the command line, one file a subject; each thin over ``egshape.api``."""
