"""BLEU, the similarity of translations and references, computed on the host."""

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
    """BLEU of a corpus: the geometric mean of n-gram precisions, with a brevity penalty.

        bleu = min(1, exp(1 - r / c)) * (precision_1 * ... * precision_n)^(1 / n)

    c is the number of words of all candidates. r is that of the references nearest in length
    (in a tie, the shorter). A precision is the share of the candidates' n-grams that occur in a
    reference; each counts at most as often as in the reference with most of it. It is a Python
    function, for sentences are not arrays.

    Papineni, Roukos, Ward, Zhu: BLEU, a Method for Automatic Evaluation of Machine Translation,
    2002; smoothed as Lin and Och: ORANGE, 2004.

    Args:
        candidates: The translated sentences, each a sequence of words: strings, or ids.
        references: One or more human translations of each candidate.
        longest: n, the length of the longest n-grams.
        smooth: Whether to add 1 to the numerator and denominator of n-grams of two words and
            more.

    Returns:
        From 0 to 1; 0 if no n-gram of some length matches.

    Raises:
        ProgramError: If the numbers of candidates and references differ, a candidate has no
            reference, a sentence is a string, or `longest` is below 1.

    Example:
        >>> import braces as br
        >>> said, true = "the cat sat on a mat".split(), "the cat sat on the mat".split()
        >>> round(br.metrics.bleu([said], [[true]]), 4)
        0.5373
    """
    _check(candidates, references, longest)
    hits, totals, candidate_words, reference_words = [0] * longest, [0] * longest, 0, 0
    for candidate, others in zip(candidates, references, strict=True):
        candidate_words += len(candidate)
        reference_words += min(
            (abs(len(reference) - len(candidate)), len(reference)) for reference in others
        )[1]
        for n in range(1, longest + 1):
            ngrams, reference_ngrams = _count_ngrams(candidate, n), Counter[Words]()
            for other in others:
                reference_ngrams |= _count_ngrams(other, n)
            hits[n - 1] += (ngrams & reference_ngrams).total()
            totals[n - 1] += ngrams.total()
    logs = 0.0
    for n, (hit, total) in enumerate(zip(hits, totals, strict=True)):
        smoothing = 1 if smooth and n else 0
        if hit + smoothing == 0 or total + smoothing == 0:
            return 0.0
        logs += math.log((hit + smoothing) / (total + smoothing)) / longest
    return math.exp(min(0.0, 1 - reference_words / candidate_words) + logs)


def _count_ngrams(sentence: Words, length: int) -> Counter[Words]:
    """Return the counts of the n-grams of a sentence."""
    return Counter(tuple(sentence[i : i + length]) for i in range(len(sentence) - length + 1))


def _check(
    candidates: Sequence[Words], references: Sequence[Sequence[Words]], longest: int
) -> None:
    if len(candidates) != len(references) or not all(map(len, references)):
        raise ProgramError(
            f"bleu got {len(candidates)} candidates and {len(references)} lists of references.",
            fix="Pass a list of at least one reference for each candidate.",
        )
    sentences = [*candidates, *(reference for group in references for reference in group)]
    if any(isinstance(sentence, str) for sentence in sentences):
        raise ProgramError(
            "bleu: expected sentences as sequences of words, got a string.",
            fix="Use sentence.split().",
        )
    if longest < 1:
        raise ProgramError(
            f"bleu: expected longest of 1 or more, got {longest}.", fix="Use longest=4."
        )
