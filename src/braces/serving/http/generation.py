"""Generation in parts: runs of a few iterations, whose state is fed to the next run.

POST /v2/models/NAME[/versions/V]/generate_stream    one event for each iteration
POST /v2/models/NAME[/versions/V]/generate           all iterations in one response
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import numpy as np

from braces.errors import BracesError
from braces.lazy import asyncio
from braces.serving.batching.batcher import Batcher
from braces.serving.http.engine import Engine, refusal_of
from braces.serving.http.settings import ServingSettings
from braces.serving.models.generation import (
    CONTINUES,
    GenerationForm,
    generation_inputs,
    iterations_first,
)
from braces.serving.models.served_model import Arrays, ServedModel
from braces.serving.protocol.generation import (
    GenerateRequest,
    nested,
    parse_generate,
    write_event,
)
from braces.serving.protocol.refusal import RefusalError
from braces.serving.protocol.tensor_spec import Array

Rows = dict[str, Array]
"""The streamed outputs of one iteration."""


class Generation:
    """The generation of one request.

    Args:
        engine: The models.
        model: A model of the form of `braces.serving.models.generation`.
        form: The roles of its inputs and outputs.
        body: The body of the request.

    Raises:
        RefusalError: If the request is invalid, or the model is not ready.
    """

    def __init__(
        self, engine: Engine, model: ServedModel, form: GenerationForm, body: bytes
    ) -> None:
        self._model, self._form = model, form
        self._settings: ServingSettings = engine.settings
        self.batcher = engine.batcher(model)
        self._starter: Batcher | None = engine.starter(model)
        self._asked: GenerateRequest = parse_generate(
            body, generation_inputs(model, form), engine.settings.max_tokens
        )

    async def iterations(self) -> AsyncGenerator[Rows]:
        """Yield the streamed outputs of each iteration."""
        feed, left, asked = await self._first_feed(), self._asked.max_tokens, self._asked
        is_ended: Any = False
        while left > 0:
            count = min(asked.chunk, left)
            steps = np.array(count, self._form.steps.dtype)
            outputs = await self._run(self.batcher, {**feed, self._form.steps.name: steps})
            feed = feed | {name: outputs[name] for name in self._form.carried}
            rows = {name: iterations_first(outputs[name]) for name in self._form.streamed}
            computed = min(map(len, rows.values()))
            self.batcher.metrics.tokens += computed
            for i in range(computed):
                row = {name: values[i] for name, values in rows.items()}
                yield row
                is_ended = is_ended | np.isin(next(iter(row.values())), [*asked.stop])
                if asked.stop and np.all(is_ended):
                    return
            if computed < count or not outputs.get(CONTINUES, True):
                return
            left -= count

    async def _first_feed(self) -> Rows:
        feed = dict(self._asked.arrays)
        start = self._model.start
        if start is not None and self._starter is not None:
            inputs = {name: feed[name] for name in start.signature.inputs}
            feed |= await self._run(self._starter, inputs)
        wanted = self._model.signature.inputs
        return {name: array for name, array in feed.items() if name in wanted}

    async def _run(self, batcher: Batcher, feed: Arrays) -> Arrays:
        timeout_s = self._settings.timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                return await batcher.submit(feed)
        except TimeoutError:
            raise RefusalError(504, f"no result within {timeout_s:g} s.") from None
        except (BracesError, RefusalError) as error:
            raise refusal_of(error) from None


async def collect(iterations: AsyncGenerator[Rows]) -> dict[str, Any]:
    """Return the outputs of all iterations as nested lists, with iterations first."""
    rows = [row async for row in iterations]
    names = rows[0] if rows else {}
    return {name: nested(np.stack([row[name] for row in rows])) for name in names}


async def write_events(
    fields: dict[str, Any], first: Rows | None, rows: AsyncGenerator[Rows]
) -> AsyncGenerator[bytes]:
    """Yield an event for each iteration; a failure is the last event.

    Args:
        fields: Fields of each event.
        first: The first iteration; `None` if there is none.
        rows: The other iterations.
    """
    index = 0
    async with aclosing(rows):
        try:
            while first is not None:
                outputs = {name: nested(array) for name, array in first.items()}
                yield write_event({**fields, "index": index, **outputs})
                index += 1
                first = await anext(rows, None)
        except RefusalError as refusal:
            yield write_event({"error": refusal.message})
