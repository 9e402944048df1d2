"""The options of ``zett``, and the edge where every problem becomes one line and an exit status."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import zett_agent
from zett_agent.cli.faults import COMPLETED, FAILED, INTERRUPTED, USAGE, UsageFault, complain

#: The modules that do the work, loaded when their command runs.
_COMMANDS = {"demo": "zett_agent.cli.demo", "chat": "zett_agent.cli.chat", "run": "zett_agent.cli.run"}
_EXTRAS = frozenset({"rich", "openai"})
_STATUS = "exit status: 0 completed, 1 failed, 2 wrong use or set-up, 3 stopped by the model, 130 interrupted"


class _Parser(ArgumentParser):
    def __init__(self, **options: Any) -> None:  # Any: whatever argparse gives its own sub-parsers
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """One line instead of the whole usage."""
        raise UsageFault(f"{message}; see {self.prog} --help")


def run_command(arguments: Sequence[str] | None = None) -> int:
    """Run ``zett`` with ``arguments`` and return its exit status."""
    return guarded(lambda: _dispatch(_parser().parse_args(arguments)))


def guarded(work: Callable[[], int]) -> int:
    """Do ``work`` and return its exit status; what cannot work at all is one line on standard error."""
    _tolerate_narrow_encodings()
    try:
        if sys.flags.optimize > 1:
            raise UsageFault("python -OO removes the docstrings that tools are made of; use -O at most")
        return work()
    except UsageFault as fault:
        complain(fault)
        return USAGE
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRAS:
            raise
        complain(f"{missing} is missing; install the extra cli: pip install 'zett-runtime[cli]'")
        return USAGE
    except SystemExit as done:  # --help and --version
        return done.code if isinstance(done.code, int) else COMPLETED
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # else whoever read our output has left
            complain(error)
        _drop_output()
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _drop_output() -> None:
    """What could not be written stays unwritten; Python would complain once more while it closes the stream."""
    with suppress(AttributeError, OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(options: Namespace) -> int:
    if options.command is None:
        _parser().print_help()
        return COMPLETED
    status: int = import_module(_COMMANDS[options.command]).command(options)
    return status


def _parser() -> ArgumentParser:
    parser = _Parser(prog="zett", description="Run agents in the terminal.", epilog=_STATUS)
    parser.add_argument("--version", action="version", version=f"zett {zett_agent.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    commands.add_parser("demo", help="watch an agent work, offline", description="Watch an agent work, offline.")
    chat = commands.add_parser("chat", help="talk to a model", description="Talk to a model.")
    _add_endpoint(chat)
    chat.add_argument(
        "--ask-before",
        metavar="TOOL",
        action="append",
        default=[],
        help="ask for approval before each call of this tool; may be repeated, * means every tool",
    )
    run = commands.add_parser("run", help="print one answer", description="Print one answer.", epilog=_STATUS)
    run.add_argument("prompt", metavar="PROMPT", help="what to say; - reads it from standard input")
    run.add_argument("--json", action="store_true", help="print every event as one line of JSON instead")
    _add_endpoint(run)
    return parser


def _add_endpoint(parser: ArgumentParser) -> None:
    parser.add_argument("--base-url", metavar="URL", help="a server that speaks Chat Completions (default: OpenAI's)")
    parser.add_argument("--model", metavar="NAME", required=True, help="the model's name there")
    parser.add_argument(
        "--api-key-env",
        metavar="VAR",
        default="OPENAI_API_KEY",
        help="the environment variable with the key (default: %(default)s); a server on loopback needs none",
    )
    parser.add_argument("--system", metavar="TEXT", help="the system prompt")
    parser.add_argument("--max-tokens", metavar="N", type=_positive, help="the longest answer of one model call")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)


def _tolerate_narrow_encodings() -> None:
    """A terminal that cannot show a character shows another; that is no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
