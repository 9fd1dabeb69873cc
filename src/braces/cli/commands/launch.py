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
        "-n", "--processes", type=int, default=1, metavar="N", help="how many, on each host"
    )
    parser.add_argument(
        "--restarts", type=int, default=0, metavar="N", help="start again up to N times"
    )
    parser.add_argument(
        "--devices", type=int, metavar="K", help="virtual CPU devices of each process"
    )
    parser.add_argument("--log-dir", type=Path, metavar="D", help="the folder of the logs")
    parser.add_argument(
        "--log-mb",
        type=float,
        default=256.0,
        metavar="MB",
        help="the size of the log of each process; older lines are dropped (default: 256)",
    )
    parser.add_argument(
        "--grace-s",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="between SIGTERM and SIGKILL, where the job is ended (default: 30); a second "
        "Ctrl-C or SIGTERM kills at once",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="how long processes wait for one another at the start",
    )
    parser.add_argument("--hosts", type=int, default=1, metavar="N", help="how many run this")
    parser.add_argument(
        "--host-index", type=int, default=0, metavar="I", help="which one this is, from 0"
    )
    parser.add_argument("--address", metavar="HOST:PORT", help="where process 0 is met")
    parser.add_argument("--ray", action="store_true", help="on the machines of Ray")
    parser.add_argument(
        "--gpus", type=int, default=0, metavar="K", help="with --ray: GPUs of each process"
    )
    parser.add_argument("-m", dest="module", action="store_true", help="a module, not a file")
    parser.add_argument("program", nargs=REMAINDER, metavar="PROGRAM", help="and its arguments")


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
    "run a program as several processes, and again where one fails",
    "braces launch -n 4 --restarts 3 train.py --steps 1000",
    _arguments,
    _run,
)
