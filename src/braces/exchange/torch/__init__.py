"""Programs of torch.export as ours: `importer` declares, `reader` walks, `rules` builds."""
