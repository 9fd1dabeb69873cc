"""File formats: parameters, models and checkpoints, all of them safetensors."""
