"""`braces debug FILE --feed x=@x.npy`: run a program in the debugger, with a page."""

from __future__ import annotations

import sys
import webbrowser
from argparse import ArgumentParser, Namespace

from braces.cli.common.command import NO, YES, Command, declare
from braces.cli.common.prepared_run import feeds_for, prepare_run
from braces.cli.common.program_selection import add_file
from braces.debugger.debugger import Debugger
from braces.debugger.session import default_fetch
from braces.errors import visible_lines
from braces.ir.files.atomic_write import refuse_unwritable

_USAGE = """\
--feed NAME=VALUE ...  @x.npy, @x.npz:key, a number, [numbers], true, random, or random:f32[4,8]
--fetch NAMES ...      the variables to compute, such as y or y,z
--params FILE          a safetensors file of parameters
--seed N               the seed of random operators (default: the seed in the model file)
--break TEXT ...       a breakpoint: PATH, 'PATH if max > 10' or 'if nan'
--run                  run at once to the first breakpoint, or to the end
--port N               the port of the page (default: a free one)
--open                 open the page in the browser of the system
--save OUT.html        run to the end, and write the recording as a page; nothing is served
"""


def _arguments(parser: ArgumentParser) -> None:
    add_file(parser)
    declare(parser, _USAGE, seed=int, port=0, **{"break": {"dest": "breakpoints"}})
    parser.set_defaults(without=None)


def _run(options: Namespace) -> int:
    if options.save:
        refuse_unwritable(options.save)
    session = _session(options)
    with session:
        if options.save:
            session.finish().to_html(options.save)
            return _report(session)
        print(session.url, flush=True)
        print("Open this address once, in one browser. Ctrl-C ends.", file=sys.stderr)
        if options.open:
            webbrowser.open(session.url)
        session.wait_closed()
    return YES


def _session(options: Namespace) -> Debugger:
    ready = prepare_run(options.file, options, default_fetch)
    return Debugger(
        ready.program,
        ready.scope,
        feeds_for(ready, options),
        list(ready.fetches.values()),
        seed=ready.seed,
        breakpoints=options.breakpoints or (),
        paused=not (options.run or options.save),
        serve=not options.save,
        port=options.port,
    )


def _report(session: Debugger) -> int:
    recording = session.recording
    if recording.first_nan_path is not None:
        print(f"first NaN: {visible_lines(recording.first_nan_path)}")
    if session.error:
        print(visible_lines(session.error), file=sys.stderr)
        return NO
    return YES


COMMAND = Command(
    "debug",
    "run a program step by step, and show its values on a page (prog.debug)",
    "braces debug demo/digits.model --feed image=@image.npy",
    _arguments,
    _run,
)
