"""Released code as a contender, from a path: small stand-ins for the two repositories, written here."""

from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.machine import cpu_seconds
from benchmarks.released import HTCNN8, RELEASED, _as_mnist, check, start_released
from benchmarks.workloads import workload_config
from protofed.core.errors import ConfigError, EngineError
from protofed.experiment import Experiment, build

FEDPROTO = {
    "exps/federated_main.py": """
        import sys
        from pathlib import Path
        sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))
        from options import args_parser
        from stand_in_models import CNNMnist
        from update import test_inference_new_het_lt
        from utils import get_dataset, proto_aggregation

        def FedProto_taskheter(args, train, test, rows, test_rows, models, classes):
            for round in range(args.rounds):
                print("something that is no answer")
                for client in rows:
                    images = [train[row] for row in rows[client]]
                    assert len(images) == len(rows[client])
                protos = proto_aggregation({client: round for client in rows})
                assert protos == args.num_users
    """,
    "lib/options.py": """
        import argparse

        def args_parser():
            parser = argparse.ArgumentParser()
            for name, kind in dict(num_users=int, num_classes=int, local_bs=int, train_ep=int, lr=float,
                                   rounds=int, data_dir=str).items():
                parser.add_argument(f"--{name}", type=kind)
            return parser.parse_args()
    """,
    "lib/update.py": """
        from pathlib import Path

        def test_inference_new_het_lt(args, models, test, classes, rows, protos):
            assert len(models) == len(rows) == len(classes) == args.num_users
            Path("tested").write_text(str(sum(len(own) for own in rows.values())))
    """,
    "lib/utils.py": """
        from pathlib import Path

        def mnist_noniid(*_):
            raise AssertionError("the clients are ours")

        mnist_noniid_lt = mnist_noniid

        def get_dataset(args, n_list, k_list):
            raw = Path(args.data_dir, "mnist", "MNIST", "raw")
            train = (raw / "train-images-idx3-ubyte").read_bytes()
            assert train[:4] == bytes([0, 0, 8, 3])
            count, size = int.from_bytes(train[4:8], "big"), 28 * 28
            assert len(train) == 16 + count * size
            images = [train[16 + size * row:16 + size * (row + 1)] for row in range(count)]
            rows, own = mnist_noniid(args, images, args.num_users, n_list, k_list)
            return images, [], rows, mnist_noniid_lt(args), own, own

        def proto_aggregation(uploads):
            return len(uploads)
    """,
    "lib/models/models.py": "",
    "lib/stand_in_models.py": """
        class CNNMnist:
            def __init__(self, args):
                assert args.out_channels == 20
    """,
}
HTFLLIB = {
    "system/flcore/servers/servertgp.py": """
        import numpy as np

        class Client:
            def __init__(self, number, dataset):
                with np.load(f"../dataset/{dataset}/train/{number}.npz", allow_pickle=True) as file:
                    data = file["data"].tolist()
                assert data["x"].dtype == np.float32
                self.train_samples = len(data["y"])

        class FedTGP:
            def __init__(self, args, times):
                assert len(args.models) == 8
                self.clients = [Client(number, args.dataset) for number in range(args.num_clients)]
                self.rounds, self.trained = args.global_rounds, 0

            def evaluate(self):
                open("tested", "w").write(str(self.trained))

            def train(self):
                for round in range(self.rounds + 1):
                    print("something that is no answer")
                    self.evaluate()
                    self.trained += 1
    """,
    "system/flcore/servers/serverproto.py": """
        from flcore.servers.servertgp import FedTGP

        class FedProto(FedTGP):
            pass
    """,
    "system/flcore/clients/clientbase.py": "",
    "system/utils/data_utils.py": "",
}


def checkout(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(dedent(text))
    return folder


def experiment(workload: str, folder: Path) -> Experiment:
    preset = {"preset": "official"} if workload == "w1" else {}
    return build(workload_config(workload, folder, small=True, engine="sequential", **preset)[0])


@pytest.mark.parametrize(
    ("name", "files", "workload", "tested"),
    [("fedproto", FEDPROTO, "w1", "40"), ("htfllib", HTFLLIB, "w2p", "2")],
)
def test_released_code_trains_and_tests_when_told(
    name: str, files: dict[str, str], workload: str, tested: str, tmp_path: Path
) -> None:
    """Incomplete batches are left out. FedProto's stand-in notes how many samples it tests, HtFLlib's how
    many rounds it has trained."""
    path = check(name, checkout(tmp_path / "clone", files))
    own = experiment(workload, tmp_path)
    child = start_released(name, path, own, tmp_path)
    try:
        batch = own.task.batch_size
        expected = sum(own.data.size(client) // batch * batch for client in range(4))
        assert [child.play(1), child.play(2)] == [expected, expected]
        assert 0 < expected < sum(own.data.size(client) for client in range(4))
        child.test(2)
        assert (tmp_path / f"{name}-{own.config.method}" / "here" / "tested").read_text() == tested
        assert cpu_seconds(child.pids()) > cpu_seconds()
    finally:
        child.close()
    assert child._process.returncode == 0


def test_images_come_as_they_were(tmp_path: Path) -> None:
    own = experiment("w1", tmp_path)
    _as_mnist(own, tmp_path / "raw")
    raw = tmp_path / "raw"
    labels = np.frombuffer((raw / "train-labels-idx1-ubyte").read_bytes()[8:], np.uint8)
    assert labels.tolist() == [int(y) for client in range(4) for y in own.data.train(client).y]
    images = np.frombuffer((raw / "train-images-idx3-ubyte").read_bytes()[16:], np.uint8)
    assert own.dataset is not None
    assert own.split is not None
    assert np.array_equal(images[: 28 * 28].reshape(28, 28), own.dataset.x[own.split.train[0][0]][0])


def test_a_folder_without_the_code_is_no_checkout(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no checkout of HtFLlib: it has no system/flcore/servers"):
        check("htfllib", tmp_path)


def test_what_is_not_installed_is_named(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    lacking = {**FEDPROTO, "lib/update.py": "import no_such_module_anywhere"}
    path = checkout(tmp_path, lacking)
    assert main(["w1", "--quick", "--fedproto", str(path)]) == 2
    err = capsys.readouterr().err
    assert f"--fedproto {path}: it needs no_such_module_anywhere, which is not installed: pip install" in err
    assert err.count("\n") == 1


def test_a_failure_of_released_code_is_shown(tmp_path: Path) -> None:
    broken = {**FEDPROTO, "lib/update.py": FEDPROTO["lib/update.py"].replace("assert len", "assert not len")}
    child = start_released("fedproto", checkout(tmp_path / "c", broken), experiment("w1", tmp_path), tmp_path)
    child.play(1)
    with pytest.raises(ConfigError, match="released code, 1 process: it failed with AssertionError"):
        child.test(1)
    child.close()
    with pytest.raises((EngineError, ValueError)):
        child.play(2)


def test_the_networks_are_those_of_ours(tmp_path: Path) -> None:
    """One or two convolutions, and the linear layers before the last of 512."""
    assert HTCNN8[0] == "CNN(num_cov=1, hidden_dims=[])"
    assert HTCNN8[7] == "CNN(num_cov=2, hidden_dims=[1024, 512])"
    widths: list[list[int]] = []

    def CNN(num_cov: int, hidden_dims: list[int]) -> None:
        widths.append([num_cov, *hidden_dims, 512])

    for model in HTCNN8:
        eval(model, {"CNN": CNN})
    own = experiment("w2", tmp_path).task
    for number, expected in enumerate(widths[: len(own.groups)]):
        layers = [*own.groups[number].build().base.modules()]
        found = [sum(type(layer).__name__ == "Conv2d" for layer in layers)]
        found += [layer.out_features for layer in layers if type(layer).__name__ == "Linear"]
        assert found == expected


def test_all_stand_ins_have_the_files_that_are_looked_for() -> None:
    assert set(RELEASED["fedproto"].files) <= FEDPROTO.keys()
    assert set(RELEASED["htfllib"].files) <= HTFLLIB.keys()
