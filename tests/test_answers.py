"""Wrong answers to the labs, each with the diagnosis that its check gives, and right ones in other forms, which it accepts.

The answers were written by people who had read the exercises and not the checks. `tests/answers/*.json` says, mistake by mistake, what the
check answers; after a change of a check, `python tests/test_answers.py` writes it anew, to be read before it is committed.
"""

import importlib
import json
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from unrolled.checks import Wrong

FOLDER = Path(__file__).parent / "answers"
LABS = {"vanilla_rnn": ["vanilla_rnn_1_to_4", "vanilla_rnn_5_to_8", "vanilla_rnn_students"], "gates": ["gates", "gates_students"]}
FAST = {"step", "run", "push", "horizon", "clip", "bias", "port_lstm", "port_gru", "coupled_step", "gru_step", "agreeing", "mgu_step"}  # of these exercises one answer of each kind is in the fast suite; the others are slow


def answers(lab, kind):
    """The wrong or the right answers of a lab: (exercise, words, function)."""
    return [answer for name in LABS[lab] for answer in getattr(importlib.import_module(f"answers.{name}"), kind)]


def diagnosis(lab, exercise, function):
    """What the check says to an answer, without the note on the cases that passed; "" if it passes."""
    try:
        getattr(importlib.import_module(f"unrolled.checks.{lab}"), exercise)(function)
    except Wrong as wrong:
        return re.sub(r" \(\d+ of the cases passed; .*\)$", "", str(wrong))
    return ""


def marked(kind):
    """Parameters for all answers of a kind; most are slow."""
    parameters = []
    for lab in LABS:
        seen = Counter()
        for exercise, words, function in answers(lab, kind):
            seen[exercise] += 1
            marks = [] if seen[exercise] == 1 and exercise in FAST else [pytest.mark.slow]
            parameters.append(pytest.param(lab, exercise, words, function, id=f"{exercise}: {words}"[:90], marks=marks))
    return parameters


@pytest.mark.parametrize("lab, exercise, words, function", marked("wrong"))
def test_a_wrong_answer_gets_its_diagnosis(lab, exercise, words, function):
    expected = json.loads((FOLDER / f"{lab}.json").read_text(encoding="utf-8"))[exercise][words]
    assert expected and diagnosis(lab, exercise, function) == expected


@pytest.mark.filterwarnings("ignore:optax:DeprecationWarning")  # a student may use its old names
@pytest.mark.parametrize("lab, exercise, words, function", marked("right"))
def test_a_right_answer_in_another_form_is_accepted(lab, exercise, words, function, monkeypatch):
    monkeypatch.setenv("UNROLLED_SEED", words)
    check = getattr(importlib.import_module(f"unrolled.checks.{lab}"), exercise)
    check(function)
    check(function, hidden=True)


@pytest.mark.parametrize("lab", LABS)
def test_every_check_has_answers(lab):
    module = importlib.import_module(f"unrolled.checks.{lab}")
    checks = {name for name, thing in vars(module).items() if type(thing).__name__ == "Check"}
    wrong, right = (Counter(exercise for exercise, _, _ in answers(lab, kind)) for kind in ("wrong", "right"))
    assert set(wrong) == set(right) == checks
    assert min(wrong.values()) >= 8 and min(right.values()) >= 5
    stored = json.loads((FOLDER / f"{lab}.json").read_text(encoding="utf-8"))
    assert {exercise: len(found) for exercise, found in stored.items()} == wrong


def main():
    for lab in LABS:
        found = {}
        for exercise, words, function in answers(lab, "wrong"):
            found.setdefault(exercise, {})[words] = diagnosis(lab, exercise, function)
        text = json.dumps(found, indent=1, ensure_ascii=False)
        (FOLDER / f"{lab}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
