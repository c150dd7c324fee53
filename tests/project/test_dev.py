"""dev.py finds an interpreter, keeps the environment up to date and passes arguments and exit codes on.

Interpreters are shell scripts here: nothing is installed and nothing is downloaded.
"""

import ast
import os
import shutil
import subprocess
import sys

import pytest

import dev

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the stand-ins for interpreters are shell scripts")


def script(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + body)
    path.chmod(0o755)
    return str(path)


def interpreter(path, version):
    """An interpreter that answers every question with its version."""
    return script(path, f"echo {version}\n")


def lying_shim(path):
    """What pyenv leaves on PATH for a version that is installed but not active."""
    return script(path, f"echo 'pyenv: {path.name}: command not found' >&2\nexit 127\n")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine that has Python 3.8 and nothing else: its folders bin, sbin (both on PATH) and pyenv are empty."""
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path / "old" / "python3", "3.8"))
    monkeypatch.setattr(dev, "ROOT", tmp_path / "the project")
    monkeypatch.setattr(dev, "VENV", dev.ROOT / ".venv")
    monkeypatch.setattr(dev, "PYTHON", dev.VENV / "bin" / "python")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{tmp_path / 'sbin'}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    dev.ROOT.mkdir()
    (dev.ROOT / "pyproject.toml").write_text("[project]\n")
    return tmp_path


@pytest.fixture
def calls(monkeypatch):
    """What dev.py would have run."""
    lines = []

    def record(line, cwd=None):
        lines.append(line)
        if "venv" in line:
            interpreter(dev.PYTHON, "3.12")

    monkeypatch.setattr(subprocess, "check_call", record)
    return lines


# Faults


def test_the_running_interpreter_has_no_fault():
    assert dev.fault(sys.executable) == ""


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("echo 3.12", ""),
        ("echo 4.0", ""),
        ("echo 3.8", "is Python 3.8"),
        ("echo 2.7; exit 1", "is Python 2.7"),
        ("echo 3.13; exit 1", "lacks the module ensurepip"),
        ("exit 127", "does not run"),
        ("echo Python was not found", "does not run"),
    ],
)
def test_an_interpreter_is_judged_by_its_answer(tmp_path, body, fault):
    assert dev.fault(script(tmp_path / "python3.12", body)) == fault


def test_a_file_that_is_missing_or_no_program_does_not_run(tmp_path):
    (tmp_path / "python3").write_text("")
    assert dev.fault(str(tmp_path / "python3")) == "does not run"
    assert dev.fault(str(tmp_path / "python4")) == "does not run"


# The search


def test_the_running_interpreter_comes_first(machine, monkeypatch):
    interpreter(machine / "bin" / "python3.12", "3.12")
    monkeypatch.setattr(sys, "executable", interpreter(machine / "new" / "python3", "3.14"))
    assert dev.find_interpreter() == sys.executable


def test_a_lying_shim_does_not_hide_an_honest_interpreter_behind_it(machine):
    lying_shim(machine / "bin" / "python3.12")
    honest = interpreter(machine / "sbin" / "python3.12", "3.12")
    assert dev.find_interpreter() == honest


def test_path_goes_before_pyenv_and_older_before_newer(machine):
    interpreter(machine / "pyenv/versions/3.12.1/bin/python", "3.12")
    newest = interpreter(machine / "bin" / "python3.14", "3.14")
    assert dev.find_interpreter() == newest
    newer = interpreter(machine / "sbin" / "python3.13", "3.13")
    assert dev.find_interpreter() == newer


def test_plain_python3_will_do(machine):
    plain = interpreter(machine / "bin" / "python3", "3.15")
    assert dev.find_interpreter() == plain


def test_pyenv_versions_are_ordered_as_numbers(machine):
    lying_shim(machine / "bin" / "python3.12")
    for version in ("3.9.18", "3.13.0", "3.12.10"):
        interpreter(machine / f"pyenv/versions/{version}/bin/python", version.rpartition(".")[0])
    assert dev.find_interpreter() == str(machine / "pyenv/versions/3.12.10/bin/python")


def test_pyenv_lies_in_the_home_folder_by_default(machine, monkeypatch):
    monkeypatch.delenv("PYENV_ROOT")
    monkeypatch.setenv("HOME", str(machine / "a home"))
    python = interpreter(machine / "a home/.pyenv/versions/3.12.1/bin/python", "3.12")
    assert dev.find_interpreter() == python


def test_the_environment_is_not_rebuilt_with_its_own_interpreter(machine, monkeypatch):
    monkeypatch.setattr(sys, "executable", interpreter(dev.PYTHON, "3.12"))
    monkeypatch.setenv("PATH", str(dev.PYTHON.parent))
    assert dev.candidates() == []


def test_without_interpreter_the_message_says_what_was_tried(machine, capsys, calls):
    shim = lying_shim(machine / "bin" / "python3.12")
    assert dev.main(["test"]) == 2
    message = capsys.readouterr().err
    assert f"{sys.executable} is Python 3.8" in message
    assert f"{shim} does not run" in message
    assert str(machine / "pyenv/versions") in message
    assert "pyenv install 3.12" in message
    assert calls == []


# The environment


def test_the_environment_is_made_once_and_filled_once(machine, calls):
    python = interpreter(machine / "bin" / "python3.12", "3.12")
    dev.prepare("test")
    assert calls == [
        [python, "-m", "venv", "--clear", str(dev.VENV)],
        [str(dev.PYTHON), "-m", "pip", "install", "--quiet", "--editable", ".[test]"],
    ]
    dev.prepare("test")
    assert len(calls) == 2


def test_another_extra_and_a_changed_project_are_installed(machine, calls):
    interpreter(dev.PYTHON, "3.12")
    dev.prepare("test")
    dev.prepare("examples")
    (dev.ROOT / "pyproject.toml").write_text("[project]\nname = 'changed'\n")
    dev.prepare("test")
    assert [line[-1] for line in calls] == [".[test]", ".[examples]", ".[test]"]


@pytest.mark.parametrize("body", ["echo 3.11", "exit 127", "echo 3.12; exit 1"])
def test_an_old_or_broken_environment_is_made_anew(machine, calls, body):
    script(dev.PYTHON, body)
    python = interpreter(machine / "bin" / "python3", "3.13")
    dev.prepare("test")
    assert calls[0] == [python, "-m", "venv", "--clear", str(dev.VENV)]


def test_an_install_that_failed_is_tried_again(machine, monkeypatch):
    interpreter(dev.PYTHON, "3.12")

    def fail(line, cwd):
        raise subprocess.CalledProcessError(3, line)

    monkeypatch.setattr(subprocess, "check_call", fail)
    assert dev.main(["test"]) == 3
    assert dev.main(["test"]) == 3


# What the tests compile


def test_what_was_compiled_is_found_again_until_it_is_too_much(machine, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "a folder of the user's")
    dev.keep_compiled()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "a folder of the user's"
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    dev.keep_compiled()
    folder = dev.VENV / "compiled"
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(folder)
    folder.mkdir(parents=True)
    (folder / "a program").write_bytes(b"12345678")
    monkeypatch.setattr(dev, "COMPILED", 8)
    dev.keep_compiled()
    assert (folder / "a program").exists()
    monkeypatch.setattr(dev, "COMPILED", 7)
    dev.keep_compiled()
    assert not folder.exists()


# The commands


def test_arguments_are_passed_on():
    assert dev.command_lines("test", ["-k", "curry or eval"]) == [
        [str(dev.PYTHON), "-m", "pytest", "-n", "auto", "--dist", "worksteal", "-k", "curry or eval"]
    ]
    assert dev.command_lines("demo", ["--epochs", "2"]) == [
        [str(dev.PYTHON), "examples/02_rnn_digits.py", "--epochs", "2"]
    ]


def test_check_formats_lints_and_type_checks():
    tools = [line[2] for line in dev.command_lines("check", [])]
    assert tools == ["ruff", "ruff", "pyright"]


@pytest.mark.parametrize("arguments", [[], ["tset"], ["check", "-v"]])
def test_a_wrong_call_shows_the_usage(arguments, capsys):
    assert dev.main(arguments) == 2
    assert "python3 dev.py test" in capsys.readouterr().err


def test_every_line_runs_and_the_first_bad_exit_code_counts(monkeypatch):
    monkeypatch.chdir(dev.ROOT)
    assert dev.run([["true"], ["sh", "-c", "exit 3"], ["sh", "-c", "exit 4"]]) == 3
    assert dev.run([["true"], ["true"]]) == 0


def test_the_whole_script_from_another_folder(tmp_path):
    project = tmp_path / "a folder with spaces"
    project.mkdir()
    for name in ("dev.py", "pyproject.toml"):
        shutil.copy(dev.ROOT / name, project)
    script(
        project / ".venv/bin/python",
        'case "$2" in pytest) pwd; echo "$@"; echo "$JAX_COMPILATION_CACHE_DIR"; exit 7;; *) echo 3.12;; esac',
    )
    done = subprocess.run(
        [sys.executable, project / "dev.py", "test", "-k", "a b"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 7
    lines = [str(project), "-m pytest -n auto --dist worksteal -k a b", str(project / ".venv/compiled")]
    assert done.stdout.splitlines()[-3:] == lines
    assert "installing diffcurry[test]" in done.stderr


def test_old_interpreters_can_read_the_script():
    # (3, 7) is the oldest syntax that `ast` knows.
    ast.parse((dev.ROOT / "dev.py").read_text(), feature_version=(3, 7))
