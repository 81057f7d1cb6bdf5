"""Divergences between predictions, and the auxiliary model."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protofed.core.errors import ConfigError
from protofed.models import count_parameters
from protofed.ops.distill import auxiliary_model, kl, non_target_kl, off_diagonal
from protofed.testing import Toy


def odds(*rows):
    return torch.tensor(rows, dtype=torch.float64).log().requires_grad_()


def test_kl_by_hand():
    """p = (1/2, 1/2), q = (1/4, 3/4): ½·log 2 + ½·log(2/3) = ½·log(4/3). A second row with p = q
    halves the batch mean; the mean over both classes halves it again."""
    whole = math.log(4 / 3) / 2
    one = kl(odds((1, 1)), odds((1, 3)))
    two = kl(odds((1, 1), (1, 4)), odds((1, 3), (1, 4)))
    element = kl(odds((1, 1), (1, 4)), odds((1, 3), (1, 4)), mean="element")
    assert one.item() == pytest.approx(whole, abs=1e-12)
    assert two.item() == pytest.approx(whole / 2, abs=1e-12)
    assert element.item() == pytest.approx(whole / 4, abs=1e-12)


def test_kl_counts_pixels_as_samples():
    """[1, 2, 1, 2]: two pixels, those of the rows above: mean ¼·log(4/3)."""
    teacher = odds((1, 1), (1, 4)).T.reshape(1, 2, 1, 2)
    student = odds((1, 3), (1, 4)).T.reshape(1, 2, 1, 2)
    assert kl(teacher, student).item() == pytest.approx(math.log(4 / 3) / 4, abs=1e-12)


def test_gradient_of_the_student_is_the_difference_and_the_teacher_is_constant():
    """d KL/d student logits = (q − p)/B = ((1/4, 3/4) − (1/2, 1/2))/1."""
    teacher, student = odds((1, 1)), odds((1, 3))
    kl(teacher, student).backward()
    assert torch.allclose(student.grad, torch.tensor([[-0.25, 0.25]], dtype=torch.float64))
    assert teacher.grad is None


def test_gradient_of_a_teacher_that_is_not_detached():
    """p_c·(log(p_c/q_c) − KL): with log ratios log 2 and log 2/3, KL = their mean, the gradient is
    ±½·½·(log 2 − log 2/3) = ±¼·log 3."""
    teacher = odds((1, 1))
    kl(teacher, odds((1, 3)), detach=False).backward()
    assert teacher.grad[0].tolist() == pytest.approx([math.log(3) / 4, -math.log(3) / 4])


@pytest.mark.parametrize("detach", [True, False])
def test_zero_probabilities_give_no_nan(detach):
    """exp(−2000) is 0 in floating point: the teacher's impossible class adds 0·(…) = 0, and KL from
    (1, 0) to (1/2, 1/2) is log 2. The same for a logit of −∞."""
    student = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)
    teacher = torch.tensor([[0.0, -2000.0], [0.0, -math.inf]], dtype=torch.float64, requires_grad=True)
    value = kl(teacher, student, detach=detach)
    value.backward()
    assert value.item() == pytest.approx(math.log(2))
    assert torch.isfinite(student.grad).all()


def test_a_student_that_excludes_the_teachers_class_has_a_finite_gradient():
    """KL of (1, 0) from a student with logits (−1000, 1000) is 2000, gradient (0 − 1, 1 − 0)."""
    student = torch.tensor([[-1000.0, 1000.0]], requires_grad=True)
    value = kl(torch.tensor([[1000.0, -1000.0]]), student)
    value.backward()
    assert value.item() == pytest.approx(2000)
    assert student.grad.tolist() == [[-1.0, 1.0]]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(2, 6))
def test_kl_is_not_negative_and_ignores_a_common_shift(seed, samples, classes):
    generator = torch.Generator().manual_seed(seed)
    teacher, student = torch.randn(2, samples, classes, generator=generator, dtype=torch.float64) * 5
    assert kl(teacher, student).item() >= 0
    assert kl(teacher, teacher + 7).item() == pytest.approx(0, abs=1e-12)


def test_non_target_kl_by_hand():
    """Teacher (2, 1, 1)/4, student (1, 1, 2)/4, label 0: ¼·log 1 + ¼·log(½) = −¼·log 2; not scaled
    to sum to 1. Logits twice as large at temperature 2 are the same distributions, times T² = 4."""
    teacher, student, y = odds((2, 1, 1)), odds((1, 1, 2)), torch.tensor([0])
    assert non_target_kl(teacher, student, y, 1.0).item() == pytest.approx(-math.log(2) / 4)
    assert non_target_kl(2 * teacher, 2 * student, y, 2.0).item() == pytest.approx(-math.log(2))


def test_non_target_kl_is_a_batch_mean_with_a_constant_teacher():
    """Label 1 of the same rows: ½·log 2 + ¼·log ½ = ¼·log 2. Mean with the row above: 0."""
    teacher, student = odds((2, 1, 1), (2, 1, 1)), odds((1, 1, 2), (1, 1, 2))
    value = non_target_kl(teacher, student, torch.tensor([0, 1]), 1.0)
    value.backward()
    assert value.item() == pytest.approx(0, abs=1e-12)
    assert teacher.grad is None
    assert student.grad.abs().sum() > 0


def test_non_target_kl_stays_finite_for_certain_models():
    student = torch.tensor([[1e4, 0.0, -1e4]], requires_grad=True)
    value = non_target_kl(torch.tensor([[-1e4, 1e4, 0.0]]), student, torch.tensor([0]), 3.0)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(student.grad).all()


def test_off_diagonal_by_hand():
    square = torch.arange(9).reshape(3, 3)
    assert off_diagonal(square).tolist() == [[1, 2], [3, 5], [6, 7]]
    assert off_diagonal(torch.ones(1, 1)).shape == (1, 0)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 9))
def test_off_diagonal_equals_a_mask(size):
    square = torch.arange(size * size).reshape(size, size)
    assert torch.equal(off_diagonal(square), square[~torch.eye(size, dtype=torch.bool)].reshape(size, -1))


def test_the_auxiliary_model_is_the_smallest_or_the_named_one():
    """The toy's groups have hidden layers of 16 and of 10 units; the second is smaller."""
    task = Toy("local", models="mixed").build().task
    assert count_parameters(auxiliary_model(task, "")) == task.parameter_count(1) < task.parameter_count(0)
    named = dataclasses.replace(task, make_model=lambda written: torch.nn.Linear(len(written), 1))
    assert auxiliary_model(named, "cnn4").in_features == 4
    nameless = dataclasses.replace(task, make_model=None)
    with pytest.raises(ConfigError, match="aux='cnn4'"):
        auxiliary_model(nameless, "cnn4")
