"""How alike translations are to those of people: BLEU, on the host."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence

from braces.errors import ProgramError

Words = Sequence[Hashable]


def bleu(
    candidates: Sequence[Words],
    references: Sequence[Sequence[Words]],
    *,
    longest: int = 4,
    smooth: bool = False,
) -> float:
    """BLEU of a corpus: how many runs of words of translations stand in those of people.

        bleu = min(1, exp(1 - r / c)) * (precision_1 * ... * precision_n)^(1 / n)

    c is the number of words of all candidates, r that of the references that are nearest in
    length (of two that are as near, the shorter). A precision is the share of runs of so many
    words that stand in a reference, each counted as often as in the reference that has it most.
    It is a function of Python: sentences are no arrays.

    Papineni, Roukos, Ward, Zhu: BLEU, a Method for Automatic Evaluation of Machine Translation,
    2002; smoothed as Lin and Och: ORANGE, 2004.

    Args:
        candidates: A sentence each, of words: strings, or ids.
        references: Of each candidate one or more sentences of people.
        longest: n, the length of the longest runs.
        smooth: Whether 1 is added to counts of runs of two words and more, above and below.

    Returns:
        From 0 to 1; 0 where no run of some length is found.

    Raises:
        ProgramError: Candidates and references are not as many, a candidate has no reference,
            a sentence is a string, or there is no length.

    Example:
        >>> import braces as br
        >>> said, true = "the cat sat on a mat".split(), "the cat sat on the mat".split()
        >>> round(br.metrics.bleu([said], [[true]]), 4)
        0.5373
    """
    _check(candidates, references, longest)
    hits, totals, said, true = [0] * longest, [0] * longest, 0, 0
    for candidate, others in zip(candidates, references, strict=True):
        said += len(candidate)
        true += min((abs(len(one) - len(candidate)), len(one)) for one in others)[1]
        for n in range(1, longest + 1):
            own, most = _runs(candidate, n), Counter[Words]()
            for other in others:
                most |= _runs(other, n)
            hits[n - 1] += (own & most).total()
            totals[n - 1] += own.total()
    logs = 0.0
    for n, (hit, total) in enumerate(zip(hits, totals, strict=True)):
        more = 1 if smooth and n else 0
        if hit + more == 0 or total + more == 0:
            return 0.0
        logs += math.log((hit + more) / (total + more)) / longest
    return math.exp(min(0.0, 1 - true / said) + logs)


def _runs(sentence: Words, length: int) -> Counter[Words]:
    """How often each run of so many words stands in a sentence."""
    return Counter(tuple(sentence[i : i + length]) for i in range(len(sentence) - length + 1))


def _check(
    candidates: Sequence[Words], references: Sequence[Sequence[Words]], longest: int
) -> None:
    if len(candidates) != len(references) or not all(map(len, references)):
        raise ProgramError(
            f"bleu is given {len(candidates)} candidates and {len(references)} lists of "
            "references.",
            fix="Give a list of one sentence or more for each candidate.",
        )
    sentences = [*candidates, *(one for some in references for one in some)]
    if any(isinstance(sentence, str) for sentence in sentences):
        raise ProgramError(
            "bleu takes sentences of words, not strings.", fix="Write sentence.split()."
        )
    if longest < 1:
        raise ProgramError(f"bleu cannot count runs of {longest} words.", fix="Use 1 or more.")
