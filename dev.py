#!/usr/bin/env python3
"""Run the project from a fresh checkout.

    python3 dev.py demo [arguments of the demo]     train a recurrent network on handwritten digits
    python3 dev.py test [arguments of pytest]       run the tests
    python3 dev.py check                            check format, lint and types

The first run makes the virtual environment `.venv` beside this file, with any Python 3.12 or newer that it finds, and
installs the project there; later runs reuse it, and the programs that XLA compiled for the tests. Commands run in the
project's folder, so relative paths start there.
"""

# Whoever types `python3` may get an old interpreter, and it has to come as far as finding a newer one. Hence nothing
# here needs more than Python 3.6 and its standard library, and newer annotations are quoted where they are evaluated.
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
OLDEST = (3, 12)
COMPILED = 1 << 30  # bytes of compiled programs that are kept

# Each command: the extra it needs, and what it runs with the environment's Python.
COMMANDS = {
    "demo": ("examples", [["examples/02_rnn_digits.py"]]),
    "test": ("test", [["-m", "pytest", "-n", "auto", "--dist", "worksteal"]]),  # a file stays with one worker
    "check": (
        "test",
        [["-m", "ruff", "format", "--check"], ["-m", "ruff", "check"], ["-m", "pyright", "--pythonpath", str(PYTHON)]],
    ),
}


class NoInterpreter(Exception):
    """No interpreter will do; the message says which ones were tried and what to do."""


def fault(python: str, module: str = "ensurepip") -> str:
    """What is wrong with an interpreter, or "" if it runs, is new enough and has `module`.

    It is asked, not judged by its name: a pyenv shim called python3.12 may stand for no Python at all, and Debian's
    python3.12 cannot make a virtual environment until python3.12-venv adds ensurepip.
    """
    question = "import sys; print('%d.%d' % sys.version_info[:2]); import " + module
    try:
        answer = subprocess.run([python, "-c", question], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
        version = tuple(int(number) for number in answer.stdout.decode().split("."))
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return "does not run"
    if version < OLDEST:
        return "is Python {}.{}".format(*version)
    return "lacks the module " + module if answer.returncode else ""


def pyenv_versions() -> Path:
    """The folder in which pyenv keeps its interpreters, whether or not it exists."""
    return Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"


def candidates() -> "list[str]":
    """Interpreters worth asking: the running one, those on PATH, pyenv's.

    Older versions come first, since JAX's wheels for a new Python appear later than that Python. Every folder of PATH
    is searched for each name, because a shim that does not run may hide an interpreter that does.
    """
    names = ["python3.12", "python3.13", "python3.14", "python3", "python"]
    on_path = [shutil.which(name, path=folder) for name in names for folder in os.get_exec_path()]
    by_number = sorted(
        pyenv_versions().glob("*/bin/python"),
        key=lambda python: [int(number) for number in re.findall(r"\d+", python.parts[-3])],
    )
    found = [sys.executable, *on_path, *map(str, by_number)]
    # The environment cannot rebuild itself, so its own interpreter is left out, also when it is activated.
    return list(dict.fromkeys(python for python in found if python and VENV not in Path(python).parents))


def find_interpreter() -> str:
    """The first candidate without a fault. Raises NoInterpreter."""
    tried: list[str] = []
    for python in candidates():
        wrong = fault(python)
        if not wrong:
            return python
        tried.append(f"  {python} {wrong}")
    oldest = "{}.{}".format(*OLDEST)
    listing = "\n".join(tried)
    raise NoInterpreter(
        f"dev.py needs Python {oldest} or newer, and none of the interpreters it tried will do:\n"
        f"{listing}\n"
        f"It looked at the interpreter that runs it, on PATH, and in {pyenv_versions()}.\n"
        f"Install one (`pyenv install {oldest}`, your system's package manager, https://www.python.org/downloads/),\n"
        f"or run this file with one that lies elsewhere: /path/to/python{oldest} dev.py ..."
    )


def prepare(extra: str) -> None:
    """Make `.venv` hold the project, editable, with its extra; do only what is missing.

    Raises NoInterpreter, and subprocess.CalledProcessError if making or installing fails.
    """
    if fault(str(PYTHON), "pip"):
        python = find_interpreter()
        say(f"making {VENV} with {python}")
        subprocess.check_call([python, "-m", "venv", "--clear", str(VENV)])
    # An editable install holds the project's path, so a moved checkout counts as a change too.
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + str(ROOT).encode()).hexdigest()
    stamp = VENV / f"installed-{extra}"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    say(f"installing diffcurry[{extra}]; this takes a few minutes the first time")
    install = [str(PYTHON), "-m", "pip", "install", "--quiet", "--editable", f".[{extra}]"]
    subprocess.check_call(install, cwd=str(ROOT))
    stamp.write_text(wanted)


def keep_compiled() -> None:
    """Let the tests find what XLA compiled for earlier ones: in `.venv`, or in the folder that the user names to JAX.

    JAX's keys hold its version, its settings and the features of the processor. What grows too large is thrown away.
    """
    folder = VENV / "compiled"
    if sum(file.stat().st_size for file in folder.glob("*")) > COMPILED:
        shutil.rmtree(str(folder))
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder))


def command_lines(command: str, arguments: "list[str]") -> "list[list[str]]":
    """What a command runs, with the arguments passed on."""
    return [[str(PYTHON), *line, *arguments] for line in COMMANDS[command][1]]


def run(lines: "list[list[str]]") -> int:
    """Run every command line, even after one has failed, and return the first exit code that is not 0."""
    os.chdir(str(ROOT))
    if len(lines) == 1 and os.name == "posix":
        # A process that takes our place receives signals, Ctrl-C above all, and gives its exit code itself.
        os.execv(lines[0][0], lines[0])
    codes = [subprocess.call(line) for line in lines]
    return next((code for code in codes if code), 0)


def say(message: str) -> None:
    """Progress goes to stderr: stdout belongs to what we run."""
    print("dev.py: " + message, file=sys.stderr, flush=True)


def main(arguments: "list[str]") -> int:
    if arguments in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    if not arguments or arguments[0] not in COMMANDS or (arguments[0] == "check" and len(arguments) > 1):
        print(__doc__, file=sys.stderr)
        return 2
    command, rest = arguments[0], arguments[1:]
    try:
        prepare(COMMANDS[command][0])
    except NoInterpreter as error:
        print(error, file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        return error.returncode
    except KeyboardInterrupt:
        return 130
    if command == "test":
        keep_compiled()
    return run(command_lines(command, rest))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
