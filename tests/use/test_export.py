"""`protofed export`: the model as it is tested, for other programs."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import safetensors.torch
import torch
from refusals import Call

import protofed
from protofed.core.errors import RunError
from protofed.use.card import write_card
from protofed.use.model_files import export_model
from protofed.use.trained import Trained


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    settings = {
        "clients": 2,
        "rounds": 1,
        "epochs": 1,
        "models": "small_cnn",
        "partition": "nway:n=3,stdev=0,k=9",
    }
    protofed.run("fedproto", out=folder / "run", data="digits", engine="sequential", **settings)
    return folder / "run"


def inputs() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(5, 1, 8, 8)).astype(np.float32)


def test_onnx_runtime_and_torch_give_equal_outputs(digits: Path, call: Call) -> None:
    told = call("export", str(digits), "--client", "1", "--format", "onnx", "--out", "m.onnx")
    assert told.code == 0, told.err
    session = onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
    trained = protofed.load(digits)
    ours = trained.model(1)(torch.from_numpy(inputs()))
    for one, two in zip(
        session.run(None, {"x": inputs()}), ours, strict=True
    ):  # five samples, exported with two
        np.testing.assert_allclose(one, two.detach().numpy(), rtol=1e-4, atol=1e-5)
    told_of = session.get_modelmeta().custom_metadata_map
    assert json.loads(told_of["classes"]) == list(trained.classes)
    assert [out.name for out in session.get_outputs()] == json.loads(told_of["outputs"])
    prototypes = trained.prototypes()
    np.testing.assert_allclose(json.loads(told_of["prototypes"]), prototypes.rows, rtol=1e-6)
    assert json.loads(told_of["prototype_classes"]) == list(prototypes.names)
    onnx.checker.check_model("m.onnx")


def test_safetensors_and_torch_export(digits: Path, call: Call) -> None:
    model = protofed.load(digits).model(0)
    x = torch.from_numpy(inputs())
    assert call("export", str(digits), "--client", "0", "--format", "safetensors").code == 0
    file = Path("run-client-0.safetensors")
    weights = safetensors.torch.load_file(file)
    assert weights.keys() == model.state_dict().keys()
    assert all(torch.equal(weights[name], tensor) for name, tensor in model.state_dict().items())
    with safetensors.safe_open(file, "pt") as opened:
        assert json.loads(opened.metadata()["classes"]) == [str(digit) for digit in range(10)]
        assert len(json.loads(opened.metadata()["prototypes"])[0]) == model(x)[0].shape[1]
    assert (
        call("export", str(digits), "--client", "0", "--format", "torch-export", "--out", "m.pt2").code == 0
    )
    extra = {"metadata.json": ""}
    program = torch.export.load("m.pt2", extra_files=extra)
    torch.testing.assert_close(program.module()(x), model(x))
    assert json.loads(json.loads(extra["metadata.json"])["classes"])[9] == "9"


def test_the_card_tells_data_method_accuracy_and_privacy(digits: Path, call: Call) -> None:
    assert call("export", str(digits), "--client", "1", "--format", "safetensors", "--out", "m.st").code == 0
    card, trained = Path("m.md").read_text(), protofed.load(digits)
    for text in (
        "data: `digits`, divided by `nway:n=3,stdev=0,k=9`, 2 clients",
        "method: fedproto, preset default",
    ):
        assert text in card
    own = trained.outcome.clients("gp_local")[1]
    mean = trained.accuracy("gp_local")
    line = f"| gp_local (nearest global prototype among own classes) | {own:.2f} | {mean:.2f} |"
    assert line in card
    assert f"majority class {trained.outcome.majority:.1f} %" in card
    assert "no differential privacy is claimed" in card
    lines = [{**line, "epsilon": 2.5, "delta": 1e-5} for line in trained.outcome.lines]
    private = Trained(trained.path, trained.outcome.until(1), trained._opened)
    object.__setattr__(private.outcome, "lines", lines)
    assert "epsilon = 2.5, delta = 1e-05 spent after round 1" in write_card(private, 1, "onnx", "m.onnx")


class Odd(torch.nn.Module):
    """A network whose way depends on its values: no graph holds it."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.head = torch.nn.Flatten(), torch.nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = self.base(x)
        return z, self.head(z) if float(z.sum()) > 0 else self.head(-z)


@pytest.mark.parametrize("format", ["onnx", "torch-export"])
def test_a_model_that_a_format_cannot_express_is_one_line(
    digits: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    trained = protofed.load(digits)
    monkeypatch.setattr(trained, "model", lambda client: Odd())
    with pytest.raises(RunError, match=r"cannot express this model: .*--format safetensors") as caught:
        export_model(trained, format, tmp_path / "m.bin", 0)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 350
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""
