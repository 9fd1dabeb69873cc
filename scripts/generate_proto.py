"""Generate the protobuf modules from the schemas, or check that they are up to date.

    python scripts/generate_proto.py            write *_pb2.py(i) beside each schema
    python scripts/generate_proto.py --check    exit with 1 if they would change

It requires grpcio-tools, in the version that `pyproject.toml` pins.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "src"
SCHEMAS = (  # their folders are part of their names, which are unique in a process
    "braces/ir/proto/program.proto",
    "braces/exchange/paddle/proto/paddle_program.proto",
)
GENERATED = tuple(
    f"{schema.removesuffix('.proto')}_pb2.{suffix}"
    for schema in SCHEMAS
    for suffix in ("py", "pyi")
)


def generate(folder: Path) -> None:
    """Write the generated modules below `folder`."""
    from grpc_tools import protoc  # not installed where it has no wheel

    options = [f"--proto_path={SOURCES}", f"--python_out={folder}", f"--pyi_out={folder}"]
    if protoc.main(["protoc", *options, *SCHEMAS]) != 0:
        raise SystemExit(2)


def stale(folder: Path) -> list[str]:
    """The committed modules that differ from freshly generated ones below `folder`."""
    return [
        name
        for name in GENERATED
        if not (SOURCES / name).exists()
        or (SOURCES / name).read_bytes() != (folder / name).read_bytes()
    ]


def check() -> int:
    """Compare, and print the required command; return 0 without differences."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        names = stale(Path(folder))
    for name in names:
        print(f"src/{name} is out of date: run `python scripts/generate_proto.py`.")
    return 1 if names else 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Generate the protobuf modules.")
    parser.add_argument("--check", action="store_true", help="exit with 1 if they would change")
    if parser.parse_args().check:
        return check()
    generate(SOURCES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
