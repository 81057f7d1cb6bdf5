"""`protofed.federate` with what users bring: nothing changed, merged or cast in silence; every mistake is one
line in words of Python."""

from __future__ import annotations

import copy
import logging
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, Subset, TensorDataset

import protofed
from protofed import Client, Model, ProtofedError

QUICK: dict[str, Any] = {"rounds": 2, "lr": 0.05, "epochs": 2, "engine": "sequential"}


def data(n: int = 24, seed: int = 0, classes: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % classes
    return torch.randn(n, 5, generator=generator) + 4 * torch.eye(classes, 5)[y], y


X, Y = data()


def net(outputs: int = 3, size: int = 4) -> Model:
    return Model(nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, size)), nn.Linear(size, outputs))


class Own(nn.Module):
    """A model without halves, for variations of forward."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.scale = nn.Linear(5, 4), nn.Linear(4, 3), 1.0

    def forward(self, x: Tensor) -> Any:
        z = self.first(x).relu() * self.scale
        return z, self.last(z)


def refused(*clients: Client, **settings: Any) -> str:
    """The line with which federate refuses."""
    with pytest.raises(ProtofedError) as caught:
        protofed.federate(clients, **{**QUICK, **settings})
    line = str(caught.value)
    assert "\n" not in line
    assert "--" not in line
    return line


# nothing changed in silence


def test_modules_stay_as_they_were() -> None:
    model = net()
    before = copy.deepcopy(model.state_dict())
    protofed.federate([Client(model, (X, Y))], **QUICK)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_two_methods_compared_on_the_same_clients_start_alike() -> None:
    """Trained in place, the second method would have gone on from the first one's weights."""
    clients = [Client(net(), (X, Y), data(12, 1)), Client(net(), (X, Y), data(12, 1))]
    first = protofed.federate(clients, "local", **QUICK).metrics
    protofed.federate(clients, "fedproto", **QUICK)
    again = protofed.federate(clients, "local", **QUICK).metrics
    assert [r["train_loss"] for r in first] == [r["train_loss"] for r in again]


class Tokens(nn.Module):
    """Counts which of 300,000,001 words occur; as float32, the last two would be one."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.last = nn.Embedding(4, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.words(x % 4).mean(1)
        return z, self.last(z)


@pytest.mark.parametrize("engine", ["sequential", "workers"])
def test_tokens_stay_whole_numbers(engine: str) -> None:
    y = torch.arange(40) % 2
    x = (300_000_000 + y)[:, None].repeat(1, 7)
    clients = [Client(Tokens(), (x, y), (x, y)) for _ in range(2)]
    result = protofed.federate(clients, "local", **{**QUICK, "rounds": 10, "engine": engine, "workers": 2})
    assert result.accuracy("clf") == 100


def test_whole_numbers_for_layers_that_compute_are_explained() -> None:
    assert "give x.float()" in refused(Client(net(), (X.long(), Y)))


def test_frozen_layers_of_one_client_stay_frozen() -> None:
    """Modules that look alike, but one has a frozen layer: each trains as it was built."""
    models = [Own(), Own()]
    models[1].first.requires_grad_(False)
    trained = protofed.federate([Client(model, (X, Y)) for model in models], "local", **QUICK).models
    moved = [not torch.equal(a.first.weight, b.first.weight) for a, b in zip(models, trained)]  # type: ignore[union-attr, arg-type]
    assert moved == [True, False]


def test_modules_that_differ_in_an_attribute_are_different_models() -> None:
    """No layer shows the scale: client 1 was tested and trained with the first client's."""
    models = [Own(), Own()]
    models[1].scale = -1.0
    result = protofed.federate(
        [Client(model, (X, Y), data(12, 1)) for model in models], "local", **{**QUICK, "rounds": 5}
    )
    x, y = data(12, 1)
    right = [100 * float((m.eval()(x)[1].argmax(1) == y).double().mean()) for m in result.models]
    assert result.accuracy("clf") == pytest.approx(sum(right) / 2)


# refused


def test_shared_parameters() -> None:
    body = nn.Sequential(nn.Linear(5, 4), nn.ReLU())
    clients = [Client(Model(body, nn.Linear(4, 3)), (X, Y)) for _ in range(2)]
    assert "clients 0 and 1 share 'base.0.weight'" in refused(*clients)


def test_tied_layers_of_one_module_are_its_own() -> None:
    model = Model(nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 5)), nn.Linear(5, 3))
    model.base[1].weight = model.base[0].weight  # type: ignore[index]
    trained = protofed.federate([Client(model, (X, Y))], **QUICK).models[0]
    assert torch.equal(trained.base[0].weight, trained.base[1].weight)  # type: ignore[index, union-attr]


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (torch.eye(3)[Y], "labels have shape [24, 3], expected [N]: each sample has one class"),
        (torch.eye(3)[Y].long(), "for one-hot rows give y.argmax(1)"),
        (Y[:, None], "labels have shape [24, 1], expected [N]; give y.squeeze(1)"),
        (Y.float(), "labels must be whole numbers from 0 on, got torch.float32; give y.long()"),
        (Y - 1, "labels must be whole numbers from 0 on, got -1"),
        (Y + 10**9, "label 1000000002 found, but there are 3 classes (0 to 2)"),
        (Y[:, None, None, None], "labels have shape [24, 1, 1, 1]"),
    ],
)
def test_labels(y: Tensor, words: str) -> None:
    assert words in refused(Client(net(), (X, y)))


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (X[:, 0], "client 0: train: x has shape [24], one number per sample"),
        (X.to(torch.complex64), "complex numbers"),
        (np.array([["a"] * 5] * 24), "an array that torch cannot take"),
    ],
)
def test_inputs(x: Any, words: str) -> None:
    assert words in refused(Client(net(), (x, Y)))


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (2, "label 2 found, but there are 2 classes"),
        (5, "5 classes, but model Model of client 0 gives 3 logits"),
        (10**9, "1000000000 classes, but model Model of client 0 gives 3 logits"),
        (0, "classes: expected a number from 1 on or a list of names, got 0"),
        (2.5, "classes: expected a number from 1 on or a list of names, got 2.5"),
        ("abc", "got 'abc'"),
        (["cat", "dog", "cat"], "expected different names, got cat twice"),
    ],
)
def test_classes(classes: Any, words: str) -> None:
    assert words in refused(Client(net(), (X, Y)), classes=classes)


def test_a_number_of_classes_may_be_numpys() -> None:
    assert protofed.federate([Client(net(), (X, Y), (X, Y))], classes=np.int64(3), **QUICK).accuracy() >= 0


class Detached(Own):
    def forward(self, x: Tensor) -> Any:
        with torch.no_grad():
            return super().forward(x)


class DetachedEmbedding(Model):
    def forward(self, x: Tensor) -> Any:
        z, logits = super().forward(x)
        return z.detach(), logits


class Swapped(Own):
    def forward(self, x: Tensor) -> Any:
        return tuple(reversed(super().forward(x)))


class Fails(Own):
    def forward(self, x: Tensor) -> Any:
        if self.training:
            raise KeyError("no such word")
        return super().forward(x)


def lazy() -> nn.Module:
    return Model(nn.LazyLinear(4), nn.Linear(4, 3))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Detached(), "no gradient reaches any parameter: forward detaches its logits"),
        (DetachedEmbedding(nn.Linear(5, 4), nn.Linear(4, 3)), "no gradient reaches the base"),
        (Swapped(), "forward seems to return (logits, embedding)"),
        (lazy(), "client 0: the model's 'base.weight' has no shape yet (a lazy layer)"),
        (Own, "model: expected a torch.nn.Module, got a type"),
    ],
    ids=["detached", "detached embedding", "swapped", "lazy", "class"],
)
def test_models(model: Any, words: str) -> None:
    assert words in refused(Client(model, (X, Y)))


def test_swapped_outputs_with_more_columns_than_classes() -> None:
    """Four columns of an embedding would pass for four logits, with a class that nobody has."""
    line = refused(Client(Swapped(), (X, Y)))
    assert "the first output has 3 columns, as many as there are classes, the second 4" in line
    assert "say classes=4" in line
    assert "as many as there are classes" in refused(Client(Swapped(), (X, Y)), classes=3)


@pytest.mark.parametrize("engine", ["sequential", "workers"])
def test_an_error_in_the_users_forward_shows_their_line(engine: str) -> None:
    line = refused(Client(Fails(), (X, Y)), Client(Fails(), (X, Y)), engine=engine, workers=2)
    assert line.startswith("test_python.py, line ")
    assert "in forward: KeyError: 'no such word'" in line


@pytest.mark.parametrize("options", [["lam", 1], [("lam", 1)], "lam=1"])
def test_options_must_be_a_table(options: Any) -> None:
    assert "options: expected a table of the method's options" in refused(
        Client(net(), (X, Y)), options=options
    )
    with pytest.raises(ProtofedError, match="options: expected a table"):
        protofed.run("fedproto", options=options)


def test_clients_must_be_clients() -> None:
    with pytest.raises(ProtofedError, match=r"expected a list of protofed.Client"):
        protofed.federate(Client(net(), (X, Y)), **QUICK)  # type: ignore[arg-type]
    with pytest.raises(ProtofedError, match=r"expected a list of protofed.Client"):
        protofed.federate([(net(), (X, Y))], **QUICK)  # type: ignore[list-item]


def test_labels_of_one_kind() -> None:
    masks = torch.zeros(24, 5, 5, dtype=torch.int64)
    assert "client 1: train: labels of shape [24, 5, 5]" in refused(
        Client(net(), (X, Y)), Client(net(), (X, masks))
    )


def test_settings_are_named_without_dashes() -> None:
    assert "needs one architecture" in refused(Client(net(), (X, Y)), Client(Own(), (X, Y)), method="fedavg")
    assert "protofed.run with `public`" in refused(Client(net(), (X, Y)), method="fcclplus")
    assert "momentum to 0" in refused(Client(net(), (X, Y)), method="scaffold", momentum=0.9)


# data sets


class Squares(Dataset[tuple[Tensor, int]]):
    """Samples as a user's own data set gives them: a tensor and a plain number."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, item: int) -> tuple[Tensor, int]:
        return X[item], int(Y[item])


class Broken(Squares):
    def __getitem__(self, item: int) -> tuple[Tensor, int]:
        raise FileNotFoundError("picture.png")


def test_a_data_set_and_a_part_of_it_are_read() -> None:
    parts = [Squares(), Subset(Squares(), range(24)), TensorDataset(X, Y)]
    start = net()
    runs = [protofed.federate([Client(start, part)], **QUICK).metrics for part in [*parts, (X, Y)]]  # type: ignore[arg-type]
    assert len({run[-1]["train_loss"] for run in runs}) == 1


def test_a_data_set_that_cannot_be_read_is_named() -> None:
    line = refused(Client(net(), Broken()))
    assert (
        "client 0: train: the Dataset cannot be read: FileNotFoundError: picture.png (test_python.py" in line
    )


# said


def test_few_classes_that_occur_are_said(caplog: pytest.LogCaptureFixture) -> None:
    y = 1000 * Y
    protofed.federate([Client(net(2001), (X, y))], **QUICK)
    assert "only 3 of 2001 classes occur in training (0, 1000, 2000)" in caplog.text
    caplog.clear()
    protofed.federate([Client(net(2001), (X, y))], classes=2001, **QUICK)
    assert "classes occur" not in caplog.text


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (X * 1e6, "networks train badly on such numbers"),
        (torch.ones_like(X), "all inputs are equal"),
        (torch.cat([X[:, :4], torch.ones(24, 1)], 1), "1 of 5 features are constant (columns 4)"),
    ],
)
def test_odd_features_are_said(x: Tensor, words: str, caplog: pytest.LogCaptureFixture) -> None:
    protofed.federate([Client(net(), (x, Y))], **{**QUICK, "lr": 1e-9})
    assert words in caplog.text


def test_usual_features_need_no_word(caplog: pytest.LogCaptureFixture) -> None:
    protofed.federate([Client(net(), (X, Y))], **QUICK)
    assert caplog.records == []


def norm() -> nn.Module:
    return Model(nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4)), nn.Linear(4, 3))


def test_batchnorm_with_one_sample_is_said_or_refused(caplog: pytest.LogCaptureFixture) -> None:
    assert "no client would ever train" in refused(Client(norm(), (X, Y)), batch_size=1)
    assert "no client would ever train" in refused(Client(norm(), (X[:1], Y[:1])))
    protofed.federate([Client(norm(), (X, Y)), Client(norm(), (X[:1], Y[:1]))], **QUICK)
    assert "1 of 2 clients (1) never train: there is one training sample" in caplog.text


def test_the_engine_and_why_it_was_chosen(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "protofed")
    result = protofed.federate([Client(net(), (X, Y))], **{**QUICK, "engine": "auto"})
    assert result.engine in ("sequential", "cohort")
    assert result.engine_reason
    assert f"engine {result.engine} ({result.engine_reason})" in caplog.text


def sized(hidden: int, inputs: int = 6) -> protofed.Client:
    base = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU())
    x, y = torch.randn(12, inputs), torch.arange(12) % 3
    return protofed.Client(protofed.Model(base, nn.Linear(hidden, 3)), (x, y), (x, y))


@pytest.mark.parametrize(
    ("method", "clients", "words"),
    [
        (
            "fedproto",
            [(4, 6), (5, 6)],
            "Model of client 1: 5; give the first output of forward the same",
        ),
        ("fedavg", [(4, 6), (5, 6)], "got 2 (Model of client 0, Model of client 1)"),
        ("fedper", [(4, 6), (5, 6)], "differs among Model of client 0, Model of client 1"),
        ("fcclplus", [(4, 6), (4, 6)], "federate: fcclplus needs public samples, which cannot be given here"),
        ("fml", [(4, 6), (4, 7)], "their inputs must be of one shape; got [6], [7]"),
        ("fedkd", [(4, 6), (4, 7)], "their inputs must be of one shape; got [6], [7]"),
    ],
)
def test_needs_of_methods_are_told_in_terms_of_python(
    method: str, clients: list[tuple[int, int]], words: str
) -> None:
    """No forms of settings such as Model#1:dim=4, no flags."""
    with pytest.raises(ProtofedError) as caught:
        protofed.federate([sized(*one) for one in clients], method, rounds=1)
    assert words in str(caught.value)
    assert not re.search(r"--[a-z]|#\d|:dim", str(caught.value))
