"""PyTorch programs: ``torch.export.ExportedProgram`` and its files become graphs."""
