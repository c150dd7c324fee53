"""The examples run to their end, where each asserts what it shows."""

import importlib.util
from pathlib import Path
from types import ModuleType

import jax
import optax
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str) -> ModuleType:
    """The example as a module; its main is not run."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def adam_promotes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adam raises a float to an integer power, which strict promotion refuses; only its own steps are exempt."""
    adam = optax.adam

    def lenient(*arguments: object) -> optax.GradientTransformation:
        optimizer = adam(*arguments)  # type: ignore[arg-type]

        def update(*trees: object) -> object:
            with jax.numpy_dtype_promotion("standard"):
                return optimizer.update(*trees)  # type: ignore[arg-type]

        return optax.GradientTransformation(optimizer.init, update)  # type: ignore[arg-type]

    monkeypatch.setattr(optax, "adam", lenient)


def test_curry_by_hand(capsys: pytest.CaptureFixture) -> None:
    example("01_curry_by_hand").main([])
    printed = capsys.readouterr().out
    for title in ("Partial application", "Forgetting results", "Summing results"):
        assert title in printed
    assert "[(0.5, 1), (0.5, 1)]" in printed and "[(0.5, 2)]" in printed


@pytest.mark.parametrize("functions", ["environment", "list"])
def test_rnn_digits(functions: str, tmp_path: Path, capsys: pytest.CaptureFixture, adam_promotes: None) -> None:
    picture = tmp_path / "new" / "rnn.png"
    settings = ["--steps", "30", "--functions", functions, "--out", str(picture), "--demand", "0.5"]
    example("02_rnn_digits").main(settings)
    printed = capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    for combinator in ("curry(", "eval", "fold"):
        assert combinator in printed
    assert printed.count("of central differences") == 2
    assert printed.splitlines()[-1].endswith(str(picture)) and "Accuracy" in printed.splitlines()[-1]


def test_rnn_digits_demands_an_accuracy(tmp_path: Path, adam_promotes: None) -> None:
    with pytest.raises(AssertionError, match="100"):
        example("02_rnn_digits").main(["--steps", "1", "--out", str(tmp_path / "rnn.png"), "--demand", "1"])


def test_train_a_function(capsys: pytest.CaptureFixture, adam_promotes: None) -> None:
    example("03_train_a_function").main([])
    assert "loss:" in capsys.readouterr().out


def test_gradient_boosting(capsys: pytest.CaptureFixture) -> None:
    example("04_gradient_boosting").main(["--rounds", "12", "--rate", "0.3", "--depth", "2"])
    assert "scikit-learn" in capsys.readouterr().out


def test_minimax(capsys: pytest.CaptureFixture) -> None:
    example("05_minimax").main([])
    assert "saddle points that algebra gives" in capsys.readouterr().out


def test_tree_lstm(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch, adam_promotes: None
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)  # as Python does where it runs the file
    picture = tmp_path / "new" / "trees.png"
    lesson = example("07_tree_lstm")
    files = [path for path in lesson.modules() if path.name in ("argparse.py", "inspect.py")]  # to test on, to train on
    monkeypatch.setattr(lesson, "modules", lambda: files)
    settings = ["--epochs", "2", "--hidden", "4", "--embedding", "3", "--demand", "0.5"]
    lesson.main([*settings, "--out", str(picture)])
    printed = capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert printed.count("of a central difference") == 2
    assert "Accuracy on held-out functions" in printed and "from the words alone" in printed


def test_minimax_needs_short_gradients() -> None:
    with pytest.raises(AssertionError, match="Not equal"):
        example("05_minimax").main(["--tolerance", "0.5"])


def test_adaptive_quadrature(capsys: pytest.CaptureFixture) -> None:
    example("08_adaptive_quadrature").main([])
    assert capsys.readouterr().out.count("by the closed form") == 3


def test_hessian_vector(capsys: pytest.CaptureFixture) -> None:
    example("06_hessian_vector").main([])
    assert capsys.readouterr().out.count("× [7, 8] = [52. 85.]") == 2
