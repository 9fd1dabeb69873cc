"""Import programs of torch.export: `importer` declares, `reader` walks, `rules` builds."""
