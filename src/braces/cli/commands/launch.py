"""`braces launch -n 4 train.py`: run a program as several processes."""

from __future__ import annotations

import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from pathlib import Path

from braces.cli.common.command import BAD_USAGE, Command
from braces.cluster.launch import Job, launch
from braces.cluster.ray_launch import launch_on_ray
from braces.errors import ClusterError


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-n",
        "--processes",
        type=int,
        default=1,
        metavar="N",
        help="processes per host (default: 1)",
    )
    parser.add_argument(
        "--restarts", type=int, default=0, metavar="N", help="restart the job up to N times"
    )
    parser.add_argument(
        "--devices", type=int, metavar="K", help="virtual CPU devices per process"
    )
    parser.add_argument("--log-dir", type=Path, metavar="D", help="the folder for logs")
    parser.add_argument(
        "--log-mb",
        type=float,
        default=256.0,
        metavar="MB",
        help="the maximum log size of each process; old lines are dropped (default: 256)",
    )
    parser.add_argument(
        "--grace-s",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="the time between SIGTERM and SIGKILL when the job is ended (default: 30); a "
        "second Ctrl-C or SIGTERM kills at once",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="the time limit for all processes to connect at the start (default: 300)",
    )
    parser.add_argument(
        "--hosts", type=int, default=1, metavar="N", help="the number of hosts (default: 1)"
    )
    parser.add_argument(
        "--host-index", type=int, default=0, metavar="I", help="the index of this host, from 0"
    )
    parser.add_argument("--address", metavar="HOST:PORT", help="the address of process 0")
    parser.add_argument("--ray", action="store_true", help="run on a Ray cluster")
    parser.add_argument(
        "--gpus", type=int, default=0, metavar="K", help="with --ray: GPUs per process"
    )
    parser.add_argument(
        "-m", dest="module", action="store_true", help="run PROGRAM as a module"
    )
    parser.add_argument(
        "program", nargs=REMAINDER, metavar="PROGRAM", help="a program and its arguments"
    )


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
