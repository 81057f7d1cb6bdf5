"""Every recipe resolves, its numbers are the papers', and its costs are exact."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from protofed import experiment
from protofed.config import read_recipe, resolve
from protofed.core.errors import ConfigError
from protofed.data import divide, load
from protofed.studies import costs
from protofed.studies.cells import AGREES, DIFFERS, NO_NUMBER, NOT_RUN, cells
from protofed.studies.likeness import Training, different, training_by
from protofed.studies.recipe import load_recipe, read, recipe_folder, recipe_ids
from protofed.studies.reproduce import Selection, plan_reproduction

needs_mnist = pytest.mark.skipif(
    not (Path(os.environ.get("PROTOFED_DATA", "/nonexistent")) / "mnist.npz").exists(),
    reason="mnist.npz is not in the folder that PROTOFED_DATA names",
)
EXPECTED = {
    "fp-t2", "fp-t3", "fp-t4", "fp-f3", "fp-f4", "fp-params", "tgp-t1", "tgp-t5", "tgp-t6", "tgp-t7",
    "tgp-t8", "tgp-t9", "tgp-t10", "tgp-t12", "pm-t2", "pm-t3", "plcc-t2", "plcc-t5", "tgp-t2", "tgp-t3",
    "tgp-t4", "tgp-t11", "tgp-f1", "tgp-f4", "pm-t4", "pm-f2", "pm-f3", "pm-f4", "pm-f5", "plcc-t3",
    "plcc-t4", "plcc-f3", "plcc-f4", "plcc-f5", "plcc-f6", "plcc-phi", "tgp-time",
}  # fmt: skip


def test_all_are_there_in_order():
    assert set(recipe_ids()) == EXPECTED
    assert recipe_ids().index("tgp-t9") < recipe_ids().index("tgp-t10")


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_cell_resolves(name):
    recipe = load_recipe(name)
    plans = plan_reproduction(recipe, Selection())
    assert len(plans) == len(recipe.rows) * len(recipe.columns)
    assert recipe.about.paper
    assert recipe.about.title
    runs = {planned.key: planned for plan in plans for planned in plan.runs}
    if recipe.about.costs:
        assert not runs
        return
    assert recipe.about.hours > 0
    for planned in runs.values():
        assert resolve(planned.config.to_dict()) == planned.config  # methods and options exist


def test_a_column_whose_file_is_missing_is_printed_only(tmp_path, monkeypatch):
    monkeypatch.setenv("PROTOFED_DATA", str(tmp_path))
    choice, file = Selection(["FedAvg"], ["acc CelebA"], 1), tmp_path / "celeba" / "list_attr_celeba.txt"
    (plan,) = plan_reproduction(load_recipe("pm-t2"), choice)
    assert (plan.runs, plan.why) == ([], ("celeba/list_attr_celeba.txt is not in PROTOFED_DATA",))
    file.parent.mkdir()
    file.touch()
    (plan,) = plan_reproduction(load_recipe("pm-t2"), choice)
    assert [planned.config.models for planned in plan.runs] == ["margin_celeba"] * 3  # one a δ


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_protofed_run_takes_the_file(name):
    config = resolve(read_recipe(recipe_folder() / f"{name}.toml"))
    assert config.rounds.rounds >= 1


# As printed in the papers: recipe, row, column, mean, spread.
PRINTED = [
    ("fp-t2", "FedProto", "n=3, stdev 2", 97.13, 0.30),
    ("fp-t2", "FedAvg", "n=5, stdev 3", 92.19, 3.97),
    ("fp-t2", "FeSEM", "n=4, stdev 2", 97.06, 2.72),
    ("fp-t3", "Local", "n=3, stdev 1", 92.50, 10.42),
    ("fp-t3", "FedProto-mh", "n=5, stdev 2", 92.94, 2.34),
    ("fp-t4", "FedRep", "n=3, stdev 2", 76.70, 11.79),
    ("fp-t4", "FedProto", "n=4, stdev 1", 79.12, 2.03),
    ("fp-params", "FedPer", "CIFAR10", 225000, math.nan),
    ("tgp-t1", "FedTGP", "path:Cifar10", 90.02, 0.30),
    ("tgp-t1", "FedProto", "prac:Cifar10", 82.07, 1.64),
    ("tgp-t1", "FedGen", "prac:Tiny", 19.60, 0.08),
    ("tgp-t5", "FedKD", "params_M", 33.04, math.nan),
    ("tgp-t6", "w/o F", "Flowers102", 49.39, math.nan),
    ("tgp-t7", "S=1000", "Cifar100", 47.01, math.nan),
    ("tgp-t8", "ResNet152", "trained, 32×32", 5.330, math.nan),
    ("tgp-t10", "FML", "practical", 97.36, 0.03),
    ("tgp-t12", "FedGen", "10⁹ multiply-adds", 98.78, math.nan),
    ("pm-t2", "FedProto", "acc MNIST", 93.3, 0.2),
    ("pm-t2", "FedAvg", "loss FEMNIST", 0.83, 0.35),
    ("pm-t2", "Centralized", "acc Synthetic", 78.5, math.nan),
    ("pm-t3", "FedProto (d+ only)", "δ=80%", 92.1, math.nan),
    ("pm-t3", "FedAvg + toleration", "avg", 90.7, 1.8),
    ("plcc-t2", "FedPLCC", "Synth", 69.65, math.nan),
    ("plcc-t2", "MOON", "Avg", 51.822, math.nan),
    ("plcc-t5", "contra w/, corr φ=1", "Avg", 78.304, math.nan),
    ("plcc-t5", "contra w/o, corr w/", "Avg", 53.496, math.nan),
    ("tgp-t2", "FedProto", "HtFE8-HtC4", 25.57, 0.72),
    ("tgp-t2", "FedTGP", "100 clients", 41.57, 0.30),
    ("tgp-t2", "FedGen", "50 clients", 37.95, 0.25),
    ("tgp-t3", "FML", "E=20", 36.02, 0.22),
    ("tgp-t4", "FedProto", "K=64", 30.71, 0.65),
    ("tgp-t4", "LG-FedAvg", "K=1024", 40.46, 0.01),
    ("tgp-t11", "FedTGP", "ResNet18", 46.47, 0.96),
    ("pm-t4", "FedProto", "AMM FEMNIST", 1.51, math.nan),
    ("pm-t4", "Centralized", "AMM MNIST", 8.68, math.nan),
    ("pm-t4", "FedProx", "FFD Synthetic", 61.9, math.nan),
    ("plcc-t3", "FedPLCC", "DSLR", 80.00, math.nan),
    ("plcc-t3", "FPL", "Avg", 76.45, math.nan),
    ("plcc-t4", "FedPLVM", "Quickdraw", 55.50, math.nan),
    ("plcc-t4", "FedAvg", "Avg", 43.867, math.nan),
]


@pytest.mark.parametrize(("name", "row", "column", "mean", "std"), PRINTED)
def test_published_numbers(name, row, column, mean, std):
    recipe = load_recipe(name)
    assert recipe.printed("mean", row, column) == mean
    found = recipe.printed("std", row, column)
    assert found == std or (math.isnan(found) and math.isnan(std))


def test_fedavg_has_two_printed_values():
    recipe = load_recipe("fp-t2")
    assert recipe.printed("also", "FedAvg", "n=3, stdev 2") == 95.04
    assert math.isnan(recipe.printed("also", "FedAvg", "n=4, stdev 2"))
    assert math.isnan(recipe.printed("also", "Local", "n=3, stdev 2"))


def test_domain_averages_are_means_of_the_domains():
    """FedPLCC prints the plain mean over its domains; all rows of Tables 2 to 4."""
    for name, domains in (("plcc-t2", 5), ("plcc-t3", 4), ("plcc-t4", 6)):
        for row in load_recipe(name).published["mean"].values():
            assert sum(row[-domains - 1 : -1]) / domains == pytest.approx(row[-1], abs=0.001)


def test_all_methods_of_fedplcc_train_alike():
    """E = 10 epochs of 300 samples in batches of 32, none left out, whatever the rows' presets say."""
    for row in plan_reproduction(load_recipe("plcc-t2"), Selection(columns=["Avg"])):
        train = row.runs[0].config.train
        assert (train.epochs, train.batch_size, train.drop_last) == (10, 32, False), row.row.name


def test_fedplcc_has_thirty_images_a_class():
    (planned, *_) = plan_reproduction(load_recipe("plcc-t2"), Selection(rows=["FedPLCC"]))[0].runs
    assert planned.config.partition == "domain:m=30"
    (planned, *_) = plan_reproduction(load_recipe("plcc-t2"), Selection(rows=["FPL"]))[0].runs
    assert planned.config.make_method().pull == "mean"


def test_weights_of_fedplcc_depend_on_the_data():
    found = {
        name: plan_reproduction(load_recipe(name), Selection(rows=["FedPLCC"]))[0]
        .runs[0]
        .config.make_method()
        .lam1
        for name in ("plcc-t2", "plcc-t3", "plcc-t4")
    }
    assert found == {"plcc-t2": 100.0, "plcc-t3": 20.0, "plcc-t4": 1.0}


def test_settings_of_some_cells():
    """FedProto: batch 8 as all others, 4 in a row of its own; rounds as printed."""
    plans = {(p.row.name, p.column.name): p for p in plan_reproduction(load_recipe("fp-t2"), Selection())}
    proto = plans["FedProto", "n=4, stdev 3"].runs[0].config
    assert (proto.train.batch_size, proto.train.drop_last, proto.rounds.rounds) == (8, False, 100)
    released = plans["FedProto (released batch)", "n=4, stdev 3"].runs[0].config
    assert (released.train.batch_size, released.train.drop_last, released.rounds.rounds) == (4, True, 100)
    assert proto.partition == "nway:n=4,k=100,stdev=3,bounds=mnist"
    assert proto.make_method().distance == "mse"
    fedavg = plans["FedAvg", "n=3, stdev 2"].runs[0].config
    assert (fedavg.train.batch_size, fedavg.rounds.rounds) == (8, 150)
    assert plans["FedProto-mh", "n=3, stdev 2"].runs[0].config.models == "fedproto-mh"
    assert [planned.seed for planned in plans["Local", "n=3, stdev 2"].runs] == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "row", "sizes"),
    [
        *((name, "FedProto", {8}) for name in ("fp-t2", "fp-t3", "fp-t4", "fp-f3", "fp-f4")),
        *((name, "FedProto (released batch)", {4}) for name in ("fp-t2", "fp-t3", "fp-f3")),
        ("fp-t4", "FedProto (released batch)", {32}),
    ],
)
def test_batches_are_those_of_the_appendix_but_in_a_row_of_its_own(name, row, sizes):
    plans = plan_reproduction(load_recipe(name), Selection(rows=[row], seeds=1))
    assert {planned.config.train.batch_size for plan in plans for planned in plan.runs} == sizes


@pytest.mark.parametrize(
    ("name", "columns", "measure"),
    [
        ("pm-t2", "loss", "aggregate_loss"),
        ("pm-f2", "loss", "aggregate_loss"),
        ("tgp-f4", "", "train_error"),
        ("fp-t4", "before", "start"),
    ],
)
def test_what_columns_measure(name, columns, measure):
    """The loss of ProtoMargin's Table 2 is the aggregate model's (§5.1), FedTGP's Figure 4 is an error on
    training samples, and FedProto's CIFAR10 has an accuracy before training."""
    recipe = load_recipe(name)
    found = [column.measure or recipe.about.measure for column in recipe.columns if columns in column.name]
    assert set(found) == {measure}


def test_what_rows_show():
    """mIoU with and without the background; ± as released where the paper's authors printed it so."""
    assert {row.mode for row in load_recipe("pm-f5").rows} == {"miou_clf", "miou_objects_clf"}
    for name in ("fp-t2", "fp-t3", "fp-t4"):
        released = {row.name for row in load_recipe(name).rows if row.released_spread}
        assert released >= {"FedProto", "FedProto-mh"}
    before = load_recipe("fp-t4")
    assert before.printed("mean", "FedProto", before.columns[-1].name) == 27.55


@pytest.mark.parametrize(("name", "aux"), [("tgp-t10", "htcnn:1"), ("tgp-t11", "cnn4")])
def test_auxiliary_models_are_the_released_ones(name, aux):
    plans = plan_reproduction(load_recipe(name), Selection(rows=["FML", "FedKD"], seeds=1))
    assert {planned.config.options["aux"] for plan in plans for planned in plan.runs} == {aux}


@pytest.mark.parametrize("name", ["plcc-t2", "plcc-t5"])
def test_that_mnist_m_gives_its_neighbour_away_is_said(name):
    assert "MNIST-M's training rows made of MNIST's test digits" in load_recipe(name).about.stand_in


@needs_mnist
@pytest.mark.parametrize(("name", "column"), [("pm-t2", "acc MNIST"), ("pm-t3", "δ=0%")])
def test_the_size_of_the_power_law_is_that_of_the_first_seed(name, column):
    recipe = load_recipe(name)
    config = plan_reproduction(recipe, Selection(columns=[column], seeds=1))[0].runs[0].config
    split = divide(config.partition, load(config.data), config.clients, config.seed)
    dealt = sum(len(rows) for part in (split.train, split.test) for rows in part)
    assert any(f"{dealt:,}" in note for note in recipe.about.notes), dealt


@pytest.mark.parametrize("name", recipe_ids())
def test_claims_are_about_rows_that_train_alike(name):
    """What the settings decide of `likeness`: else no claim of the recipe could ever be judged."""
    recipe = load_recipe(name)
    plans = {(plan.row.name, plan.column.name): plan.runs for plan in plan_reproduction(recipe, Selection())}
    for order in recipe.orders:
        for column in recipe.columns:
            runs = [plans[row, column.name] for row in (order.above, order.below)]
            if all(runs):
                one, two = (training_by(found[0].config.to_dict()) for found in runs)
                assert different(Training(one), Training(two)) == [], (order, column.name)


def test_a_public_set_is_asked_of_rows_that_use_one():
    """So all rows of the table can be run, and published, with another one in one call or in several."""
    recipe, given = load_recipe("plcc-t2"), {"public": "pacs:size=32", "public_samples": 9}
    none, other = (
        {plan.row.name: plan for plan in plan_reproduction(recipe, Selection(settings=settings))}
        for settings in ({}, given)
    )
    assert other["FCCL+"].runs[0].config.public == "pacs:size=32"
    assert "public changed" in other["FCCL+"].why
    assert "public changed" not in other["FedAvg"].why
    assert other["FedAvg"].runs[0].key == none["FedAvg"].runs[0].key
    for wrong, message in {"pcas": "pacs", "pacs:sze=32": "size"}.items():
        with pytest.raises(ConfigError, match=message):
            plan_reproduction(recipe, Selection(rows=["FedAvg"], settings={"public": wrong}))


def test_mu_of_fedprox_depends_on_the_data():
    plans = {(p.row.name, p.column.name): p for p in plan_reproduction(load_recipe("pm-t2"), Selection())}
    mu = [plans["FedProx", f"acc {data}"].runs[0].config.options["mu"] for data in ("Synthetic", "MNIST")]
    assert mu == [0.1, 1.0]
    shares = [planned.config.rounds.stragglers for planned in plans["FedAvg", "acc MNIST"].runs[:3]]
    assert shares == [0.0, 0.5, 0.8]


@pytest.mark.parametrize("column", ["Res34-HtC4", "HtFE8-HtC4"])
def test_auxiliary_model_of_different_heads_is_the_small_cnn(column):
    """FedTGP's released code: 0.92 million parameters, not a ResNet34 of 21.3."""
    plans = {p.row.name: p for p in plan_reproduction(load_recipe("tgp-t2"), Selection(columns=(column,)))}
    assert [plans[row].runs[0].config.options["aux"] for row in ("FML", "FedKD")] == ["cnn4", "cnn4"]


def test_columns_share_runs():
    """The five domains and their average are one run a seed; accuracy and loss, too."""
    for name, runs in (("plcc-t2", 8 * 3), ("pm-t3", 11 * 3 * 3)):
        plans = plan_reproduction(load_recipe(name), Selection())
        assert len({planned.key for plan in plans for planned in plan.runs}) == runs


# costs


def computed(name):
    recipe = load_recipe(name)
    found = cells(recipe, plan_reproduction(recipe, Selection()), {})
    return {(cell.row, cell.column): cell for cell in found}


def test_communication_of_fedtgp_is_exact():
    """Table 5. Head 512·100 + 100 = 51,300; generator 132·512 + 512 + 2·512 + 512·512 + 512 = 331,776; CNN
    924,708. LG-FedAvg 20·2·51,300; FedGen 20·(2·51,300 + 331,776); FML 20·2·924,708; FedDistill
    100·(890 + 2000), FedProto 512·(890 + 2000)."""
    found = computed("tgp-t5")
    ours = {row: round(cell.ours * 1e6) for (row, _), cell in found.items() if not math.isnan(cell.ours)}
    assert ours == {
        "LG-FedAvg": 2_052_000, "FedGen": 8_687_520, "FML": 36_988_320, "FedDistill": 289_000,
        "FedProto": 1_479_680, "FedTGP": 1_479_680,
    }  # fmt: skip
    verdicts = {row: cell.verdict for (row, _), cell in found.items()}
    assert verdicts.pop("FedKD") == NOT_RUN  # its share of FML's numbers is known after training only
    assert set(verdicts.values()) == {AGREES}


def test_multiply_adds_of_all_clients_are_exact():
    """Table 12: 4·24.692 = 98.768; FML and FedKD add 4·20·0.013 = 1.04; FedGen 20·((132 + 512)·512 +
    4·51,200) = 0.01069 · 10⁹."""
    found = computed("tgp-t12")
    assert {cell.verdict for cell in found.values()} == {AGREES}
    assert len(found) == 7
    column = "10⁹ multiply-adds"
    assert found["FML", column].ours == pytest.approx(99.808)
    assert found["FedGen", column].ours == pytest.approx(98.77869, abs=1e-5)


def test_layers_of_htcnn_are_exact():
    """Layers are printed; parameters are not: worked out by hand, 32·(25+1) + 4608·512 + 512 and so on."""
    found = computed("tgp-t9")
    printed = {cell.verdict for (_, column), cell in found.items() if column != "base parameters"}
    assert printed == {AGREES}
    assert found["HtCNN8", "linear layers"].ours == 3
    counts = [2_360_640, 576_896, 2_623_296, 839_552, 5_245_248, 1_626_496, 5_507_904, 1_889_152]
    parameters = [found[f"HtCNN{i}", "base parameters"] for i in range(1, 9)]
    assert [cell.ours for cell in parameters] == counts
    assert {cell.verdict for cell in parameters} == {NO_NUMBER}


def test_parameters_of_fedproto():
    """MNIST 20·21,840, its convolutions 20·5,280; prototypes 20·4·50 and 20·4·512."""
    found = computed("fp-params")
    assert found["FedAvg", "MNIST"].ours == pytest.approx(436.8)
    assert found["FedPer", "MNIST"].ours == pytest.approx(105.6)
    assert found["FedAvg", "FEMNIST"].ours == pytest.approx(849_332 * 20 / 1000)
    assert found["FedProto", "CIFAR10"].ours == pytest.approx(40.96)
    agree = {key for key, cell in found.items() if cell.verdict == AGREES}
    assert {
        ("FedPer", "MNIST"),
        ("FedPer", "FEMNIST"),
        ("FedProto", "MNIST"),
        ("FedProto", "CIFAR10"),
    } <= agree
    assert found["FedAvg", "MNIST"].verdict == DIFFERS  # the paper quotes 21,500 for 21,840 parameters


def test_forward_costs_where_the_source_is_known(monkeypatch):
    monkeypatch.setattr(costs, "PRINTED_AS", {"4-layer CNN": "cnn4"})  # the others take long to build
    found = computed("tgp-t8")
    assert found["ResNet50", "as printed"].verdict == AGREES
    assert found["MobileNetV2", "as printed"].verdict == AGREES
    assert found["4-layer CNN", "trained, 32×32"].ours == pytest.approx(0.007872)
    assert found["4-layer CNN", "trained, 32×32"].verdict == DIFFERS
    assert found["ResNet18", "as printed"].verdict == NOT_RUN


# errors


def write(folder, text):
    path = folder / "own.toml"
    path.write_text(text)
    return path


ROW_AND_COLUMN = '[about]\n[[about.rows]]\nname = "a"\nmethod = "local"\n[[about.columns]]\nname = "x"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rounds = 1\n", r"the table \[about\] is missing"),
        ("[about]\n", "needs at least one row and one column"),
        ("[about]\nhour = 1\n", "unknown option 'hour'"),
        (ROW_AND_COLUMN + '[[about.columns]]\nname = "x"\n', "two columns have the same name"),
        (ROW_AND_COLUMN + '[[about.orders]]\nabove = "a"\nbelow = "b"\n', "unknown row 'b'"),
        (ROW_AND_COLUMN + '[[about.orders]]\nabove = "a"\nbelow = []\n', "order: below: the list has no row"),
        (ROW_AND_COLUMN + '[[about.orders]]\nabove = "a"\nbelow = 3\n', "below: expected text, got 3"),
        (ROW_AND_COLUMN + "[published.mean]\nb = [1]\n", "unknown row 'b'"),
        (ROW_AND_COLUMN + "[published.mean]\na = [1, 2]\n", "a has 2 numbers for 1 columns"),
        (ROW_AND_COLUMN + "[published.mean]\na = 90.0\n", "published.mean: a: expected a list of numbers"),
        (ROW_AND_COLUMN + '[published.mean]\na = ["n/a"]\n', "expected a list of numbers"),
        (ROW_AND_COLUMN + "[published]\nmean = [1]\n", "published.mean: expected a table"),
        (ROW_AND_COLUMN + "[published.means]\na = [1]\n", "unknown table 'means'; did you mean 'mean'"),
        ("published = 3\n" + ROW_AND_COLUMN, "published: expected a table"),
        ('[about]\nrows = ["a"]\n', r"expected tables, written \[\[about.rows\]\]"),
        (ROW_AND_COLUMN + "over = {stragglers = 0.5}\n", "stragglers: expected a list"),
        (ROW_AND_COLUMN + 'measure = "mmd"\n', "mmd needs about.reference"),
        (ROW_AND_COLUMN.replace("[about]", '[about]\ncosts = "nope"'), "unknown computation 'nope'"),
        ('rounds = "two"\n' + ROW_AND_COLUMN, "recipe own: settings: rounds: expected a whole number"),
        (ROW_AND_COLUMN.replace('"local"', '"lokal"'), "row a: unknown method 'lokal'"),
        (ROW_AND_COLUMN.replace('"local"', '"local"\nmode = "gp"'), "row a: unknown prediction mode 'gp'"),
    ],
)
def test_wrong_recipes(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        read(write(tmp_path, text))


def test_own_recipes_by_path(tmp_path):
    recipe = load_recipe(str(write(tmp_path, "rounds = 2\n" + ROW_AND_COLUMN)))
    assert (recipe.id, recipe.settings) == ("own", {"rounds": 2})


def test_an_unknown_recipe_names_the_nearest():
    with pytest.raises(ConfigError, match="fp-t2"):
        load_recipe("fp-t22")


# real data


@pytest.mark.parametrize("name", ["fp-t2", "fp-t3", "fp-f4", "pm-t2", "pm-t3", "tgp-t10"])
def test_the_first_cell_can_be_built(name, tmp_path, monkeypatch):
    """Data, split and model exist and fit together. The other recipes take too long to read or to build."""
    folder = os.environ.get("PROTOFED_DATA", "")
    recipe = load_recipe(name)
    missing = [file for file in recipe.about.data if not (folder and (Path(folder) / file).is_file())]
    if missing:
        pytest.skip(f"PROTOFED_DATA does not hold {missing[0]}")
    monkeypatch.setenv("PROTOFED_CACHE", str(tmp_path))
    (planned, *_) = plan_reproduction(recipe, Selection(settings={"engine": "sequential"}))[0].runs
    built = experiment.build(planned.config)
    assert built.task.clients == planned.config.clients
    built.federation.engine.close()
