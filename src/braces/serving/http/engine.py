"""Models with their queues: compiled in a thread, ready once all of them are."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping
from threading import Event, Lock, Thread
from time import perf_counter

from braces.errors import BracesError, FeedError, IndexRangeError, RunError, ShapeError
from braces.lower.interrupt.deadline import join_threads
from braces.serving.batching.batcher import Batcher
from braces.serving.batching.joining import batch_sizes
from braces.serving.http.settings import ServingSettings
from braces.serving.models.model_files import Repository
from braces.serving.models.served_model import Arrays, ServedModel
from braces.serving.protocol.refusal import RefusalError, busy, invalid
from braces.serving.protocol.tensor_spec import check_inputs

LOGGER = logging.getLogger("braces.serving")
_OF_CLIENT = (FeedError, ShapeError, IndexRangeError)
"""Errors of a run that the inputs cause."""


class Engine:
    """The models of a server, with their queues.

    Args:
        repository: The models by name and version.
        settings: The limits.

    Attributes:
        failed: By model and version, why it could not be compiled.
    """

    def __init__(self, repository: Repository, settings: ServingSettings) -> None:
        self.settings = settings
        self.repository = repository
        self.failed: dict[tuple[str, str], str] = {}
        self._batchers: dict[tuple[str, str], Batcher] = {}
        self._starters: dict[tuple[str, str], Batcher] = {}
        self._ready = set[tuple[str, str]]()
        self._lock = Lock()
        self._ended = Event()
        self._compiler: Thread | None = None

    # ---- start and end -----------------------------------------------------------------------

    def start(self) -> None:
        """Start to compile the models; later calls do nothing."""
        if self._compiler is not None:
            return
        with self._lock:
            if self._compiler is None:
                sizes = batch_sizes(self.settings.max_batch)
                for model in self.models():
                    self._add(model, sizes)
                self._compiler = Thread(
                    target=self._compile_all, name="braces-serve-compile", daemon=True
                )
                self._compiler.start()

    def models(self) -> Iterator[ServedModel]:
        """Yield all versions of all models."""
        for versions in self.repository.values():
            yield from versions.values()

    def _add(self, model: ServedModel, sizes: tuple[int, ...]) -> None:
        key = (model.name, model.version)
        self._batchers[key] = self._make_batcher(model, sizes)
        if model.start is not None:
            self._starters[key] = self._make_batcher(model.start, sizes)

    def _make_batcher(self, model: ServedModel, sizes: tuple[int, ...]) -> Batcher:
        settings = self.settings
        if reason := model.signature.separate:
            LOGGER.info(
                "model %s/%s: requests are not joined: %s", model.name, model.version, reason
            )
        is_joined = settings.max_batch > 1
        return Batcher(
            model, sizes if is_joined else (), settings.wait_ms / 1000, settings.max_queue
        )

    def _compile_all(self) -> None:
        for model in self.models():
            key = (model.name, model.version)
            started = perf_counter()
            try:
                for program in filter(None, (model, model.start)):
                    for feed in self._examples(program):
                        if self._ended.is_set():
                            return
                        program.compile(feed)
            except Exception as error:
                self.failed[key] = str(error)
                LOGGER.exception("model %s/%s could not be compiled.", *key)
                continue
            self._ready.add(key)
            LOGGER.info("model %s/%s: ready after %.1f s", *key, perf_counter() - started)

    def _examples(self, model: ServedModel) -> Iterator[Arrays]:
        """Yield inputs for each set of types that is compiled at the start."""
        signature = model.signature
        free = signature.free_sizes()
        if missing := [name for name in free if name not in self.settings.sizes]:
            LOGGER.info(
                "model %s/%s: compiled at the first request of each `%s`",
                *(model.name, model.version, "`, `".join(missing)),
            )
            return
        rows_of_batches = self._batchers[model.name, model.version].sizes
        for numbers in itertools.product(*(self.settings.sizes[name] for name in free)):
            sizes = dict(zip(free, numbers, strict=True))
            for rows in (rows_of_batches if signature.is_joined else ()) or (1,):
                yield signature.example(rows, sizes)

    def close(self) -> None:
        """Refuse requests that wait, and end the threads."""
        self._ended.set()
        for batcher in (*self._batchers.values(), *self._starters.values()):
            batcher.close()

    def join(self, within_s: float) -> None:
        """Wait for the threads after `close`; a run aborts an interpreter that exits."""
        threads = [each.thread for each in (*self._batchers.values(), *self._starters.values())]
        if self._compiler is not None:
            threads.append(self._compiler)
        join_threads(threads, within_s)

    # ---- state -------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """True once all models are compiled."""
        return len(self._ready) == sum(map(len, self.repository.values()))

    def is_model_ready(self, model: ServedModel) -> bool:
        """Return whether a model is compiled."""
        return (model.name, model.version) in self._ready

    def batchers(self) -> Mapping[tuple[str, str], Batcher]:
        """Return the queues by model and version."""
        return self._batchers

    def batcher(self, model: ServedModel) -> Batcher:
        """Return the queue of a model.

        Raises:
            RefusalError: If the model is not compiled; status 503.
        """
        key = (model.name, model.version)
        if key in self.failed:
            raise RefusalError(500, f"model `{model.name}` could not be compiled.")
        if key not in self._ready:
            raise busy(f"model `{model.name}` is being compiled.")
        return self._batchers[key]

    def starter(self, model: ServedModel) -> Batcher | None:
        """Return the queue of the program that computes the first state of a generation."""
        return self._starters.get((model.name, model.version))

    def find(self, name: str, version: str | None = None) -> ServedModel:
        """Return a version of a model; the newest by default.

        Raises:
            RefusalError: If the model or version does not exist; status 404.
        """
        versions = self.repository.get(name)
        if versions is None:
            known = ", ".join(f"`{each}`" for each in list(self.repository)[:20])
            raise RefusalError(404, f"unknown model `{name[:128]}`; there are {known}.")
        if version is None:
            return next(reversed(versions.values()))
        if version not in versions:
            known = ", ".join(versions)
            raise RefusalError(
                404, f"unknown version {version[:32]} of `{name}`; there are {known}."
            )
        return versions[version]

    # ---- requests ----------------------------------------------------------------------------

    def admit(self, model: ServedModel, feed: Arrays) -> None:
        """Check the inputs of a request.

        Raises:
            RefusalError: If the inputs do not have the declared types; status 400.
        """
        sizes = check_inputs(model.signature.inputs, feed)
        if not self.settings.sizes:
            return
        for name in model.signature.free_sizes():
            accepted = self.settings.sizes.get(name, ())
            if accepted and sizes[name] not in accepted:
                raise invalid(f"size {name}={sizes[name]}; expected one of {accepted}.")


def refusal_of(error: Exception) -> RefusalError:
    """Return a failed run as a refusal: 400 if the inputs cause it, else 500."""
    if isinstance(error, RefusalError):
        return error
    if isinstance(error, _OF_CLIENT):
        return invalid(str(error))
    if isinstance(error, BracesError):
        status = 500 if type(error) is RunError else 400
        return RefusalError(status, str(error))
    return RefusalError(500, "the model failed.")
