"""Programs of Paddle with its values and gradients; `write` runs where Paddle is installed."""
