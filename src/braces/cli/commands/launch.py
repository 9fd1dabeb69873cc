"""`braces launch -n 4 train.py`: run a program as several processes."""

from __future__ import annotations

import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from pathlib import Path

from braces.cli.common.command import BAD_USAGE, Command, declare
from braces.cluster.launch import Job, launch
from braces.cluster.ray_launch import launch_on_ray
from braces.errors import ClusterError

_USAGE = """\
-n --processes N     processes per host (default: 1)
--restarts N         restart the job up to N times
--devices K          virtual CPU devices per process
--log-dir D          the folder for logs
--log-mb MB          the maximum log size of each process; old lines are dropped (default: 256)
--grace-s SECONDS    the time between SIGTERM and SIGKILL when the job is ended (default: 30);
                     a second Ctrl-C or SIGTERM kills at once
--timeout SECONDS    the time limit for all processes to connect at the start (default: 300)
--hosts N            the number of hosts (default: 1)
--host-index I       the index of this host, from 0
--address HOST:PORT  the address of process 0
--ray                run on a Ray cluster
--gpus K             with --ray: GPUs per process
-m                   run PROGRAM as a module
program PROGRAM      a program and its arguments
"""


def _arguments(parser: ArgumentParser) -> None:
    counts = {"processes": 1, "restarts": 0, "devices": int, "gpus": 0}
    hosts = {"hosts": 1, "host_index": 0}
    limits = {"log_mb": 256.0, "grace_s": 30.0, "timeout": 300.0}
    words = {"log_dir": Path, "m": {"dest": "module"}, "program": {"nargs": REMAINDER}}
    declare(parser, _USAGE, **counts, **hosts, **limits, **words)


def _run(options: Namespace) -> int:
    module = ("-m",) if options.module else ()
    job = Job(
        (*module, *options.program),
        options.processes,
        restarts=options.restarts,
        devices=options.devices,
        log_dir=options.log_dir,
        timeout_s=options.timeout,
        hosts=options.hosts,
        host_index=options.host_index,
        address=options.address,
        grace_s=options.grace_s,
        log_mb=options.log_mb,
    )
    try:
        job.check()
        if not options.ray:  # machines of Ray have their own files
            job.check_file()
    except ClusterError as error:
        print(f"braces launch: {error}", file=sys.stderr)
        return BAD_USAGE
    return launch_on_ray(job, options.gpus) if options.ray else launch(job)


COMMAND = Command(
    "launch",
    "run a program as several processes, and restart them after a failure",
    "braces launch -n 4 --restarts 3 train.py --steps 1000",
    _arguments,
    _run,
)
