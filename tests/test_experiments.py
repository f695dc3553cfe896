"""Stored results belong to the present code; what changes numbers changes the hashes, and what doesn't doesn't."""

import inspect
import json
import math
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from unrolled import experiments, gates, tasks, train, vanilla_rnn

ROOT = Path(__file__).resolve().parents[1]
STORED = sorted(path.stem for path in (ROOT / "book/_results").iterdir())
CELLS = ["vanilla", "LSTM, forget bias 0", "LSTM, forget bias 1", "GRU"]


@pytest.fixture(scope="module")
def tiny():
    return experiments.gates_adding(T=4, H=3, B=5, steps=60, rate=1e-2, seeds=(7, 8))


# ---------------------------------------------------------------- what is stored


def test_each_experiment_is_stored_and_nothing_else():
    assert STORED == sorted(experiments.EXPERIMENTS)
    assert {path.suffix for path in (ROOT / "book/_results").iterdir()} == {".json"}


@pytest.mark.parametrize("name", STORED)
def test_code_of_a_stored_result_has_not_changed(name):
    was, now = experiments.stored(name)["code"], experiments.code(experiments.EXPERIMENTS[name])
    changed = sorted(part for part in was | now if was.get(part) != now.get(part))
    assert not changed, f"changed since the result was made: {', '.join(changed)}; make it anew: {experiments.command(name)}"


@pytest.mark.parametrize("name", STORED)
def test_stored_result_says_how_it_was_made(name):
    stored = experiments.stored(name)
    assert stored["command"] == f"python -m unrolled.experiments {name}"
    assert set(stored) == {"command", "seconds", "device", "cores", "versions", "settings", "results", "code"}
    assert set(stored["versions"]) == {"python", "jax", "flax", "optax", "numpy"}
    assert stored["seconds"] >= 1 and stored["cores"] >= 1 and stored["device"]
    parameters = inspect.signature(experiments.EXPERIMENTS[name]).parameters.values()
    assert stored["settings"] == json.loads(json.dumps({parameter.name: parameter.default for parameter in parameters}))
    assert len(set(stored["settings"]["seeds"])) >= 3


@pytest.mark.parametrize("name", STORED)
def test_stored_result_is_small_and_readable(name):
    text = (ROOT / f"book/_results/{name}.json").read_text(encoding="utf-8")
    assert len(text) < 100_000
    assert "NaN" not in text and str(ROOT) not in text
    assert json.loads(text) == experiments.stored(name)


def test_gates_at_a_hundred_steps():
    """Gates bridge a hundred steps, a vanilla network does not, and a forget bias of 0 comes later, for every seed."""
    results = experiments.stored("gates_adding")["results"]
    cells = results["cells"]
    assert list(cells) == CELLS and abs(results["baseline"] - 1 / 6) < 0.005
    for solved in ("LSTM, forget bias 1", "GRU"):
        assert max(cells[solved]["error"]) <= 0.01
    assert cells["vanilla"]["half"] == [None] * 3
    assert all(abs(error - 1 / 6) < 0.01 for error in cells["vanilla"]["error"])
    zero, one = (cells[f"LSTM, forget bias {bias}"]["half"] for bias in (0, 1))
    assert all(later > sooner for later, sooner in zip(zero, one, strict=True))


# ---------------------------------------------------------------- running


@pytest.mark.slow
def test_results_have_their_form(tiny):
    results, readers = tiny
    assert json.loads(json.dumps(results)) == results
    assert list(results["cells"]) == list(readers) == CELLS
    assert results["steps"] == [12, 37]
    for name, cell in results["cells"].items():
        assert set(cell) == {"error", "half", "solved", "losses"}
        assert np.shape(cell["losses"]) == (2, 2) and np.shape(cell["error"]) == (2,)
        assert all(isinstance(count, int | None) for count in cell["half"] + cell["solved"])
        assert readers[name].V.shape == (2, 3) and readers[name].cell.W.shape[0] == 2
    assert results["cells"]["GRU"]["losses"][0] != results["cells"]["GRU"]["losses"][1]


@pytest.mark.slow
def test_error_is_that_of_the_returned_weights(tiny):
    results, readers = tiny
    x, y = jax.vmap(lambda key: tasks.adding(key, 4))(jax.random.split(jax.random.key(2026), 4096))
    steps = dict(zip(CELLS, [vanilla_rnn.step, gates.lstm_step, gates.lstm_step, gates.gru_step]))
    for name, step in steps.items():
        for run in range(2):
            reader = jax.tree.map(lambda leaf: leaf[run], readers[name])
            error = np.mean((jax.vmap(lambda x: experiments.answer(step, reader, x))(x) - y) ** 2)
            assert math.isclose(error, results["cells"][name]["error"][run], rel_tol=6e-3)
    assert math.isclose(np.mean((np.asarray(y) - 1) ** 2), results["baseline"], rel_tol=6e-3)


def test_answer_reads_the_last_hidden_state():
    reader = experiments.init_reader(jax.random.key(0), gates.init_lstm, 2, 3)
    reader = reader._replace(c=reader.c + 0.5)
    x = jax.random.normal(jax.random.key(1), (4, 2))
    state = gates.zero_state(reader.cell)
    for x_t in x:
        state = gates.lstm_step(reader.cell, state, x_t)
    assert np.allclose(experiments.answer(gates.lstm_step, reader, x), reader.V @ state.h + 0.5, atol=1e-6)


def test_start_differs_in_the_forget_bias_alone_and_U_is_wide():
    key = jax.random.key(3)
    zero, one = (experiments.init_reader(key, lambda key, D, H, f=f: gates.init_lstm(key, D, H, f), 2, 200) for f in (0.0, 1.0))
    assert np.array_equal(one.cell.b - zero.cell.b, np.array([0, 1, 0, 0])[:, None] * np.ones(200))
    assert all(map(np.array_equal, jax.tree.leaves(one._replace(cell=one.cell._replace(b=zero.cell.b))), jax.tree.leaves(zero)))
    assert 0.98 * 2**-0.5 < np.abs(one.cell.U).max() <= 2**-0.5 * (1 + 1e-6)
    assert 0.98 * 200**-0.5 < np.abs(one.cell.W).max() <= 200**-0.5


def test_first_below():
    losses = np.array([4.0, 4, 1, 1, 1, 4, 0, 0])
    assert experiments.first_below(losses, 2.1, window=3) == 4
    assert experiments.first_below(losses, 2.0, window=3) == 5
    assert experiments.first_below(losses, 0.0, window=2) is None
    assert experiments.first_below(losses, 0.1, window=2) == 8
    assert experiments.first_below(losses, 9.0, window=50) is None


def test_digits():
    assert experiments.digits(np.array([[0.0012345, 16.06], [0.0, -2.0]])) == [[0.00123, 16.1], [0.0, -2.0]]
    assert experiments.digits(np.float32(1 / 6)) == 0.167 and experiments.digits(np.zeros((2, 0))) == [[], []]


def test_run_writes_what_stored_reads(monkeypatch, tmp_path):
    def small(steps=3, seeds=(5,)):
        return {"curve": [[0.5, 0.25]] * steps, "seeds": list(seeds)}, "weights are not stored"

    monkeypatch.setattr(experiments, "FOLDER", tmp_path / "results")
    monkeypatch.setitem(experiments.EXPERIMENTS, "small", small)
    monkeypatch.setattr(experiments, "code", lambda function: {"small": function.__name__})
    with pytest.raises(FileNotFoundError, match="stored: small has no result here.*python -m unrolled.experiments small"):
        experiments.stored("small")
    path = experiments.run("small")
    assert path == tmp_path / "results/small.json"
    stored = experiments.stored("small")
    assert stored["settings"] == {"steps": 3, "seeds": [5]} and stored["results"]["curve"] == [[0.5, 0.25]] * 3
    assert stored["code"] == {"small": "small"} and stored["versions"]["jax"] == jax.__version__
    assert "[0.5, 0.25]" in path.read_text()


@pytest.mark.parametrize("function", [experiments.stored, experiments.run])
def test_unknown_name_is_told_the_known_ones(function):
    with pytest.raises(ValueError, match=rf"{function.__name__}: name = 'gate' is unknown. Expected one of .*gates_adding"):
        function("gate")


@pytest.mark.slow
def test_command_line_tells_the_known_names():
    answer = subprocess.run([sys.executable, "-m", "unrolled.experiments", "gate"], capture_output=True, text=True)
    assert answer.returncode == 2 and "gate" in answer.stderr and "gates_adding" in answer.stderr
    assert "Traceback" not in answer.stderr


# ---------------------------------------------------------------- the hashes

MODULE = '''
import jax
from unrolled import tasks
from unrolled.shapes import checked, Size

FACTOR = 2.0
PAIR = (1, "one")
TABLE = {"a": 1}


class Weights(NamedTuple):
    """Holds."""

    W: float
    U: float = 0.0


def helper(x):
    """Helps."""
    if x < 0:
        raise ValueError("negative")
    return x * FACTOR


def other(x):
    return x


@checked
def experiment(steps: Size = 3) -> float:
    """Runs."""
    other = Weights(1.0)  # a local name, not the function
    return helper(steps) + other.W + PAIR[0] + len(TABLE) + tasks.adding(jax.random.key(0), 4)[1]
'''.replace("import jax\n", "from typing import NamedTuple\nimport jax\n", 1)


@pytest.fixture
def code_of(monkeypatch, tmp_path):
    """The hashes of `experiment` in a module of the package with the given text."""
    import importlib.util

    def load(text, count=[0]):
        count[0] += 1
        name = f"unrolled.invented{count[0]}"
        path = tmp_path / f"invented{count[0]}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return {part.replace(name, "m"): digest for part, digest in experiments.code(module.experiment).items()}

    return load


def test_hashes_name_what_is_used_and_no_more(code_of):
    assert set(code_of(MODULE)) == {"m.experiment", "m.helper", "m.FACTOR", "m.PAIR", "m.Weights", "unrolled.tasks.adding"}


@pytest.mark.parametrize("old, new, part", [
    ("FACTOR = 2.0", "FACTOR = 2.5", "m.FACTOR"),
    ("x * FACTOR", "x + FACTOR", "m.helper"),
    ("if x < 0:", "if x < 1:", "m.helper"),
    ('(1, "one")', '(1, "two")', "m.PAIR"),
    ("U: float = 0.0", "V: float = 0.0", "m.Weights"),
    ("W: float\n    U: float = 0.0", "U: float\n    W: float = 0.0", "m.Weights"),
    ("steps: Size = 3", "steps: Size = 4", "m.experiment"),
    ("+ PAIR[0]", "- PAIR[0]", "m.experiment"),
])  # fmt: skip
def test_a_change_changes_the_hash_of_its_part(code_of, old, new, part):
    assert old in MODULE
    before, after = code_of(MODULE), code_of(MODULE.replace(old, new))
    assert set(before) == set(after) and [name for name in before if before[name] != after[name]] == [part]


@pytest.mark.parametrize("old, new", [
    ('"""Helps."""', '"""Helps a lot.\n\n    Much.\n    """'),
    ('    """Helps."""\n', ""),
    ('    """Holds."""\n', ""),
    ("# a local name", "# the local name"),
    ("x * FACTOR", "(x  *\n            FACTOR)"),
    ('"negative"', 'f"{x} is negative"'),
    ("steps: Size = 3) -> float", "steps: int = 3)"),
    ("W: float\n", 'W: "float"\n'),
    ("def other(x):\n    return x", "def other(x):\n    return -x"),
])  # fmt: skip
def test_words_layout_and_what_is_not_used_change_no_hash(code_of, old, new):
    assert old in MODULE
    assert code_of(MODULE) == code_of(MODULE.replace(old, new))


def test_hashes_reach_the_modules_of_the_course():
    parts = set(experiments.code(experiments.gates_adding))
    for part in (gates.lstm_step, gates.lstm_gates, gates.gru_step, gates.init_gru, gates.unroll, train.fit, train.advance,
                 train.adam, train.update, tasks.adding, vanilla_rnn.step, vanilla_rnn.init, experiments.answer,
                 experiments.gates_adding):
        assert f"{part.__module__}.{part.__name__}" in parts
    assert "unrolled.train.CHUNK" in parts
    assert not [part for part in parts if "shapes" in part or "runtime" in part or part.endswith((".run", ".code", ".stored"))]
