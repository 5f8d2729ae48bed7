"""From a graph to native code, through all steps."""
