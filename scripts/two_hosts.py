"""Start jobs on two hosts, as network namespaces of this machine, and check their output.

    sudo python scripts/two_hosts.py [--timeout 60]

Each host has a name of its own, its own /etc/hosts as Debian writes it (the host's own name is
127.0.1.1), a loopback interface, and one end of a virtual cable. Each case is a job of
`braces launch` that adds up numbers of all its processes. It needs Linux, root, and `ip` of
iproute2.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
HOSTS = "alpha", "beta"
ADDRESSES = {"alpha": "10.77.0.1", "beta": "10.77.0.2"}
ADDRESSES_6 = {"alpha": "fd77::1", "beta": "fd77::2"}
PORT = 47110

JOB = """
import numpy as np
import braces as br
job = br.cluster.start()
with br.Program() as prog:
    total = br.sum(br.data("x", ["rows"]))
exe = br.Executor(layout=br.Layout(br.Mesh({"data": -1}), dims={"rows": "data"}))
scope = exe.init(prog, br.Scope())
print("total", float(exe.run(prog, scope, {"x": np.full(2, 1.0 + job.process_index)}, total)))
"""


@dataclass(frozen=True)
class Case:
    """A job, and how it must end.

    Attributes:
        name: The description.
        address: The address of process 0; `None` for a job on one host.
        processes: The number of processes on each host.
        says: The expected output of each host's first process, or the expected error.
        fails: Whether the job must fail.
        own_name: Whether the name of a host is in its /etc/hosts.
        connected: Whether the cable exists.
        idle: The number of silent connections to the port of process 0.
    """

    name: str
    address: str | None
    processes: int
    says: str
    fails: bool = False
    own_name: bool = True
    connected: bool = True
    idle: int = 0

    @property
    def hosts(self) -> int:
        """The number of hosts."""
        return 1 if self.address is None else 2


CASES = (
    Case("by an address", f"{ADDRESSES['alpha']}:{PORT}", 2, "total 20.0"),
    Case("by a name", f"alpha:{PORT}", 2, "total 20.0"),
    Case("by an address of IPv6", f"[{ADDRESSES_6['alpha']}]:{PORT}", 2, "total 20.0"),
    Case("one process each", f"alpha:{PORT}", 1, "total 6.0"),
    Case("own names unknown", f"{ADDRESSES['alpha']}:{PORT}", 2, "total 20.0", own_name=False),
    Case("one host", None, 2, "total 6.0"),
    Case("one host, own name unknown", None, 2, "total 6.0", own_name=False),
    Case("idle connections", f"{ADDRESSES['alpha']}:{PORT}", 1, "total 6.0", idle=20),
    Case("no cable", f"{ADDRESSES['alpha']}:{PORT}", 1, "ClusterError", True, connected=False),
)


def run(*command: str) -> None:
    """Run a command that must succeed."""
    subprocess.run(command, check=True, capture_output=True, text=True)


@contextmanager
def network() -> Generator[None]:
    """Two namespaces with a cable."""
    spaces = [f"braces-{host}" for host in HOSTS]
    try:
        for space in spaces:
            run("ip", "netns", "add", space)
        run("ip", "link", "add", "braces-a", "type", "veth", "peer", "name", "braces-b")
        for host, space, link in zip(HOSTS, spaces, ("braces-a", "braces-b"), strict=True):
            run("ip", "link", "set", link, "netns", space)
            inside = "ip", "-n", space
            run(*inside, "addr", "add", f"{ADDRESSES[host]}/24", "dev", link)
            run(*inside, "addr", "add", f"{ADDRESSES_6[host]}/64", "dev", link, "nodad")
            run(*inside, "link", "set", link, "up")
            run(*inside, "link", "set", "lo", "up")
        yield
    finally:
        for space in spaces:
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


def hosts_file(host: str, case: Case) -> str:
    """The hosts file of Debian's installer, with the other host."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    lines += [f"127.0.1.1 {host}"] if case.own_name else []
    lines += [f"{ADDRESSES[other]} {other}" for other in HOSTS if other != host]
    return "\n".join(lines) + "\n"


def on_host(host: str, case: Case, folder: Path, command: Sequence[str]) -> list[str]:
    """The command line that runs a command on a host."""
    file = folder / f"{host}.hosts"
    file.write_text(hosts_file(host, case))
    script = 'hostname "$1"; mount --bind "$2" /etc/hosts; shift 2; exec "$@"'
    inner = ["unshare", "--uts", "--mount", "sh", "-c", script, "sh", host, str(file), *command]
    return ["ip", "netns", "exec", f"braces-{host}", *inner]


IDLE = """
import socket, sys, time
held = []
until = time.monotonic() + 120
while len(held) < int(sys.argv[3]) and time.monotonic() < until:
    try:
        held.append(socket.create_connection((sys.argv[1], int(sys.argv[2]))))
    except OSError:
        time.sleep(0.01)
time.sleep(120)
"""


def launched(case: Case, folder: Path, timeout_s: float) -> list[subprocess.Popen[str]]:
    """The processes of a case: one `braces launch` on each host."""
    (folder / "job.py").write_text(JOB)
    sources = str(REPOSITORY / "src")
    environment = {**os.environ, "PYTHONPATH": sources, "BRACES_CACHE_DIR": ""}
    started = list[subprocess.Popen[str]]()
    for index in range(case.hosts):
        more = ["--hosts", "2", "--host-index", str(index), "--address", str(case.address)]
        command = [sys.executable, "-m", "braces", "launch", "-n", str(case.processes)]
        command += ["--devices", "2", "--timeout", f"{timeout_s:g}"]
        command += [*more * (case.hosts > 1), str(folder / "job.py")]
        started.append(
            subprocess.Popen(
                on_host(HOSTS[index], case, folder, command),
                env=environment,
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    return started


def told(case: Case, folder: Path, timeout_s: float) -> str:
    """The failure of a case; empty if it passes."""
    cable = "up" if case.connected else "down"
    run("ip", "-n", "braces-alpha", "link", "set", "braces-a", cable)
    if case.connected:
        run("ip", "-n", "braces-alpha", "addr", "replace", f"{ADDRESSES_6['alpha']}/64", "dev",
            "braces-a", "nodad")  # fmt: skip
    idle = [sys.executable, "-c", IDLE, ADDRESSES["alpha"], str(PORT), str(case.idle)]
    silent = subprocess.Popen(on_host("beta", case, folder, idle)) if case.idle else None
    processes = launched(case, folder, timeout_s)
    try:
        outputs = [process.communicate(timeout=6 * timeout_s)[0] for process in processes]
    except subprocess.TimeoutExpired:
        return "it does not end"
    finally:
        for process in [*processes, *([silent] if silent else [])]:
            process.kill()
            process.wait()
    for process, output in zip(processes, outputs, strict=True):
        good = bool(process.returncode) == case.fails and case.says in output
        if not good or (case.fails and "Traceback" in output.split(case.says)[-1]):
            return f"status {process.returncode}:\n{output}"
    return ""


def main() -> int:
    """Run all cases, and print the failures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--timeout", type=float, default=60.0, help="of each start, in seconds")
    parser.add_argument("--only", default="", help="cases with this in their names")
    options = parser.parse_args()
    if os.geteuid() or shutil.which("ip") is None:
        parser.error("this needs root, and ip: apt-get install iproute2")
    wrong = 0
    with network(), tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if options.only not in case.name:
                continue
            began = time.monotonic()
            limit_s = options.timeout if not case.fails else 5.0
            found = told(case, Path(folder), limit_s)
            wrong += bool(found)
            print(f"{case.name:30} {'FAILED' if found else 'ok':8} "
                  f"{time.monotonic() - began:6.1f} s {found}", flush=True)  # fmt: skip
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
