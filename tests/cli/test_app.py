from __future__ import annotations

import io
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import zett_agent
from tests.cli.terminal import environment, zett
from zett_agent.cli import app, main
from zett_agent.cli.faults import UsageFault, complain, describe

HERE = "http://127.0.0.1:9/v1"
AWAY = "https://models.example/v1"
WRONG = [
    (["dance"], "invalid choice: 'dance'"),
    (["--loud"], "unrecognized arguments: --loud"),
    (["demo", "extra"], "unrecognized arguments: extra"),
    (["chat", "--base-url", HERE], "--model"),
    (["run", "--model", "m"], "PROMPT"),
    (["run", "hi", "--mod", "m"], "--model"),
    (["run", "hi", "--model", "m", "--max-tokens", "many"], "at least 1, not 'many'"),
    (["run", "hi", "--model", "m", "--max-tokens", "0"], "at least 1, not '0'"),
    (["run", " ", "--model", "m", "--base-url", HERE], "the prompt is empty"),
    (["run", "-", "--model", "m", "--base-url", HERE], "the prompt is empty"),
    (["run", "hi", "--model", " ", "--base-url", HERE], "model must be"),
    (["run", "hi", "--model", "m", "--base-url", "ftp://127.0.0.1"], "base_url"),
    (["run", "hi", "--model", "m", "--base-url", "http://["], "base_url must be an http or https URL"),
    (["run", "hi", "--model", "m", "--base-url", "nonsense"], "base_url must be an http or https URL"),
    (["run", "hi", "--model", "m", "--base-url", AWAY], "no key: set OPENAI_API_KEY"),
    (["chat", "--model", "m", "--api-key-env", "MY_KEY"], "no key: set MY_KEY"),
]


@pytest.mark.parametrize(("arguments", "problem"), WRONG)
def test_wrong_use_is_one_line_and_status_2(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("zett: ") and err.count("\n") == 1
    assert problem in err


@pytest.mark.parametrize(("arguments", "problem"), [WRONG[0], WRONG[6], WRONG[9], WRONG[13]])
def test_the_real_command_says_the_same(arguments: list[str], problem: str) -> None:
    done = zett(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and problem in done.stderr


def test_a_key_that_no_header_can_hold_is_never_shown() -> None:
    done = zett("run", "hi", "--model", "m", "--base-url", AWAY, extra={"OPENAI_API_KEY": "sk-geheimÄ"})
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "geheim" not in done.stderr and "api_key" in done.stderr


@pytest.mark.parametrize("module", ["rich", "openai"])
def test_a_missing_extra_is_named(module: str) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; from zett_agent.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "chat", "--model", "m", "--base-url", HERE]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"zett: {module} is missing; install the extra cli: pip install 'zett-runtime[cli]'\n"


def test_run_needs_no_rich() -> None:
    code = "import sys; sys.modules['rich'] = None; from zett_agent.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "run", "-", "--model", "m", "--base-url", HERE]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    assert done.stderr == "zett: the prompt is empty\n"


def test_the_command_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("usage: zett")
    done = zett()
    assert (done.returncode, done.stderr) == (0, "")
    assert all(word in done.stdout for word in ("usage: zett", "demo", "chat", "run", "exit status"))


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"], ["chat", "--help"], ["run", "--help"]])
def test_help_is_status_0(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert "usage: zett" in capsys.readouterr().out


def test_the_version_is_printed() -> None:
    done = zett("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"zett {zett_agent.__version__}\n", "")


def test_it_runs_as_a_module(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["zett", "--version"])
    with pytest.raises(SystemExit) as done:
        runpy.run_module("zett_agent.cli", run_name="__main__")
    assert done.value.code == 0 and capsys.readouterr().out.startswith("zett ")


def test_importing_the_command_loads_nothing_heavy() -> None:
    code = "import sys; import zett_agent.cli; print({'rich', 'openai', 'pydantic'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def fail(error: BaseException) -> int:
    raise error


def test_the_edge_turns_what_it_knows_into_a_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.guarded(lambda: 7) == 7
    assert app.guarded(lambda: fail(UsageFault("no"))) == 2
    assert app.guarded(lambda: fail(ImportError("no", name="rich.text"))) == 2
    assert app.guarded(lambda: fail(SystemExit("done"))) == 0
    assert app.guarded(lambda: fail(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err.count("\n") == 2


def test_the_edge_hides_no_bug() -> None:
    with pytest.raises(ImportError, match="a module of ours"):
        app.guarded(lambda: fail(ImportError("a module of ours")))


def test_a_reader_that_has_left_is_status_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "out").open("w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        assert app.guarded(lambda: fail(BrokenPipeError())) == 1
        print("this goes nowhere", flush=True)
    assert (tmp_path / "out").read_text() == ""


def test_a_standard_output_that_is_no_file_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert main(["--version"]) == 0


def test_a_terminal_that_cannot_show_a_character_is_no_reason_to_fail() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "zett_agent.cli", "demo"],
        env=environment({"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_complaint_is_one_line_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    complain(ValueError("the key\nabc\x1b is wrong"), secrets=["abc", ""])
    complain(ValueError())
    assert capsys.readouterr().err == "zett: the key *** is wrong\nzett: ValueError\n".replace("***", "***␛")
    assert describe(ValueError(" ")) == "ValueError"
