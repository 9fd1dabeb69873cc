"""The program description of Paddle: files, operators, names, constant folding."""
