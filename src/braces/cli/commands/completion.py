"""`braces completion SHELL`: completion scripts of shells."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence

from braces.cli.common.command import YES, Command

SHELLS = ("bash", "zsh", "fish")


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS)


def options_of(command: Command) -> list[str]:
    """Return the options of a command, such as `--json`."""
    parser = ArgumentParser(command.name)
    command.arguments(parser)
    return sorted(parser._option_string_actions)  # pyright: ignore[reportPrivateUsage]


def script(shell: str, words: Mapping[str, Sequence[str]], summaries: Mapping[str, str]) -> str:
    """Return the completion script of a shell: commands, their options, then files."""
    if shell == "fish":
        return _fish(words, summaries)
    cases = "\n".join(
        f"    {name}) words='{' '.join(options)}' ;;" for name, options in words.items()
    )
    bash = _BASH.format(commands=" ".join(words), cases=cases)
    return f"autoload -U +X bashcompinit && bashcompinit\n{bash}" if shell == "zsh" else bash


_BASH = """\
_braces() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" words=''
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{commands}' -- "$word"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  case "$word" in
    -*) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
  esac
}}
complete -o filenames -F _braces braces
"""


def _fish(words: Mapping[str, Sequence[str]], summaries: Mapping[str, str]) -> str:
    lines = list[str]()
    for name, options in words.items():
        summary = summaries[name].replace("'", "\\'")
        lines.append(f"complete -c braces -n __fish_use_subcommand -f -a {name} -d '{summary}'")
        condition = f"-n '__fish_seen_subcommand_from {name}'"
        lines += [
            f"complete -c braces {condition} "
            + (f"-l {o[2:]}" if o.startswith("--") else f"-s {o[1:]}")
            for o in options
        ]
    return "\n".join(lines) + "\n"


def make_completion_command(commands: Sequence[Command]) -> Command:
    """Return the `completion` command, which covers the given commands and itself."""

    def run(options: Namespace) -> int:
        every = (*commands, self_command)
        words = {command.name: options_of(command) for command in every}
        print(script(options.shell, words, {c.name: c.summary for c in every}), end="")
        return YES

    self_command = Command(
        "completion",
        "print a script that lets a shell complete command lines",
        "braces completion bash > ~/.local/share/bash-completion/completions/braces",
        _arguments,
        run,
    )
    return self_command
