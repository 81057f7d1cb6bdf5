"""Files that lie about their size, hold what could run, or unpack without end: one line, before anything is
allocated. The figures are those with which earlier versions fell."""

import io
import json
import pickle
import struct
import zipfile
import zlib

import numpy as np
import pytest
import torch

from protofed.core import bounded_files
from protofed.core.errors import ConfigError, DataError
from protofed.data.source.parquet import read_files
from protofed.data.specs import load
from protofed.models.weights import read_state

X, Y = np.zeros((8, 4), np.float32), np.arange(8) % 2


def npy(array=None, shape=None, descr="<f4", body=b""):
    """The bytes of a .npy file; or a header of this shape, whatever follows."""
    stream = io.BytesIO()
    if array is not None:
        np.lib.format.write_array(stream, np.asarray(array), allow_pickle=True)
        return stream.getvalue()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue() + body


def archive(path, **changed):
    """An .npz file; members may be given as bytes."""
    arrays = {"x_train": X, "y_train": Y, "x_test": X, "y_test": Y, **changed}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, value in arrays.items():
            out.writestr(f"{name}.npy", value if isinstance(value, bytes) else npy(value))
    return path


ARCHIVES = {
    "8 TiB declared": ({"x_train": npy(shape=(2**40, 2))}, "declares .1099511627776, 2. of float32"),
    "10^12 rows declared": ({"y_train": npy(shape=(10**12,), descr="<i8")}, "declares .1000000000000."),
    "a shape below zero": ({"x_train": npy(shape=(-8, 4), body=bytes(128))}, "'x_train' declares .-8, 4."),
    "fewer bytes than declared": ({"x_train": npy(shape=(8, 4), body=bytes(100))}, "is it damaged"),
    "more bytes than declared": ({"x_train": npy(shape=(8, 4), body=bytes(999))}, "is it damaged"),
    "a single value": ({"y_train": np.array(3)}, "y_train is a single value"),
    "single values": ({"x_train": np.array(1.0), "x_test": np.array(1.0)}, "x_train is a single value"),
    "ragged rows": ({"x_train": np.array([[1.0], [1.0, 2.0]], dtype=object)}, "holds Python objects"),
    "complex numbers": ({"x_train": X.astype(np.complex64)}, "has the type complex64"),
    "records": ({"x_train": np.zeros(8, dtype=[("a", "f4")])}, "has the type"),
    "times": ({"y_train": np.zeros(8, dtype="datetime64[s]")}, "has the type datetime64"),
    "labels without end": ({"y_train": Y * 10**12, "y_test": Y}, "labels go up to 1000000000000"),
    "owners in a table": ({"owner_train": X, "owner_test": X}, "owner_train has shape"),
    "names of classes in a table": ({"classes": X}, "classes has shape"),
    "names that are no text": ({"classes": np.array([b"\xff\xfe", b"b"])}, "cannot be read"),
    "no header": ({"x_train": b""}, "cannot be read as an .npz archive"),
    "a header of code": ({"x_train": b"\x93NUMPY\x01\x00\x10\x00__import__('os')"}, "cannot be read"),
}


@pytest.mark.parametrize("case", ARCHIVES)
def test_an_archive_that_lies_is_refused_in_one_line(case, tmp_path):
    changed, reason = ARCHIVES[case]
    assert len(load(f"npz:{archive(tmp_path / 'fine.npz')}").x) == 16
    with pytest.raises(DataError, match=reason) as caught:
        load(f"npz:{archive(tmp_path / 'bad.npz', **changed)}")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_owners_that_are_names_are_numbered(tmp_path):
    names = np.array(["north", "south"] * 4)
    made = load(f"npz:{archive(tmp_path / 'a.npz', owner_train=names, owner_test=names)}")
    assert made.owners == ("north", "south")
    assert made.owner.tolist() == [0, 1] * 8


def test_an_encrypted_archive_is_refused(tmp_path):
    data = bytearray(archive(tmp_path / "a.npz").read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the flag of every member
        start = data.find(mark)
        while start >= 0:
            data[start + place] |= 1
            start = data.find(mark, start + 4)
    (tmp_path / "a.npz").write_bytes(bytes(data))
    with pytest.raises(DataError, match=r"'x_train.npy' is encrypted"):
        load(f"npz:{tmp_path / 'a.npz'}")


def test_a_bomb_is_not_unpacked_and_what_nobody_asks_for_is_not_read(tmp_path, monkeypatch):
    """2 MiB of zeros stand for the gigabyte; the bounds are lowered to match."""
    monkeypatch.setattr(bounded_files, "BOMB_BYTES", 2**20)
    bomb = npy(shape=(2**19,), body=bytes(2**21))
    with pytest.raises(DataError, match=r"'x_train.npy' would unpack from 2 KiB to 2 MiB"):
        load(f"npz:{archive(tmp_path / 'bomb.npz', x_train=bomb)}")
    assert len(load(f"npz:{archive(tmp_path / 'beside.npz', unused=bomb)}").x) == 16


def test_more_than_the_machine_holds_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(bounded_files, "_memory", lambda: 300)
    with pytest.raises(DataError, match=r"needs .* of memory, this machine has 300 bytes"):
        load(f"npz:{archive(tmp_path / 'large.npz')}")


class Calls:
    """A pickle that would call something."""

    def __init__(self, what, *args):
        self.what = (what, args)

    def __reduce__(self):
        return self.what


def place(number):
    """A pickle that puts its value at this place of the reader's list, which is made as long."""
    return b"\x80\x02N" + b"r" + struct.pack("<I", number) + b"."


PICKLES = {
    "code": pickle.dumps(Calls(print, "ran")),
    "an array of 8 TiB": pickle.dumps(Calls(np.ndarray, (2**40,))),
    "an array that begins with 8 TiB": pickle.dumps(
        Calls(np.zeros(1).__reduce__()[0], np.ndarray, (2**43,), b"b")
    ),
    "a list of 68 GB": place(2**32 - 1),
    "text without end": b"\x80\x04\x8d" + struct.pack("<Q", 2**43) + b"x.",
    "nothing": b"",
    "objects in x": pickle.dumps({"x": np.array([[1], [1, 2]], dtype=object), "y": Y[:2]}),
    "complex numbers": pickle.dumps({"x": X.astype(complex), "y": Y}),
    "a single value": pickle.dumps({"x": np.array(1.0), "y": np.array(1)}),
}


@pytest.mark.parametrize("case", PICKLES)
def test_a_pickle_in_a_pfllib_file_runs_and_allocates_nothing(case, tmp_path, capsys):
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        with zipfile.ZipFile(tmp_path / part / "0.npz", "w") as out:
            out.writestr("data.npy", npy(shape=(), descr="|O", body=PICKLES[case]))
    with pytest.raises(DataError, match=r"0\.npz") as caught:
        load(f"pfllib:{tmp_path}")
    assert "\n" not in str(caught.value)
    assert "ran" not in capsys.readouterr().out


def test_a_pickled_type_that_ends_numpy_is_refused(tmp_path):
    """Whole numbers renamed to time spans without their unit: NumPy's own reader ends the process."""
    whole = npy(np.array({"x": X, "y": Y}, dtype=object))
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        with zipfile.ZipFile(tmp_path / part / "0.npz", "w") as out:
            out.writestr("data.npy", whole)
    assert len(load(f"pfllib:{tmp_path}").x) == 16
    with zipfile.ZipFile(tmp_path / "train" / "0.npz", "w") as out:
        out.writestr("data.npy", whole.replace(b"i8", b"m8"))
    with pytest.raises(DataError, match="an array of type 'm8'"):
        load(f"pfllib:{tmp_path}")


def test_a_pfllib_folder_with_endless_classes_is_refused(tmp_path):
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        np.savez(tmp_path / part / "0.npz", data=np.array({"x": X, "y": Y}, dtype=object))
    (tmp_path / "config.json").write_text(json.dumps({"num_classes": 10**12}))
    with pytest.raises(DataError, match="num_classes is 1000000000000"):
        load(f"pfllib:{tmp_path}")


def png(width, height):
    """A PNG of two kilobytes that declares so many pixels."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\0" * 999))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("size", [(8000, 8000), (100_000, 100_000), (2**31 - 1, 2**31 - 1)])
def test_an_image_that_unpacks_without_end_is_refused(size, tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "a.png").write_bytes(png(*size))
    with pytest.raises(DataError, match=r"a\.png: (declares 8,000×8,000 pixels|cannot be read as an image)"):
        load(f"folder:{tmp_path}")


def test_a_parquet_file_is_read_by_the_columns_that_are_needed(tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    images = [png_of(value) for value in range(4)]
    table = {"image": images, "label": [0, 1, 0, 1], "unused": [bytes(2**20)] * 4}
    pq.write_table(pa.table(table), tmp_path / "a.parquet", compression="none")
    columns, _ = read_files([tmp_path / "a.parquet"], "label", {"image", "label"})
    assert columns.keys() == {"file", "image", "label"}
    monkeypatch.setattr(bounded_files, "_memory", lambda: 100)
    with pytest.raises(DataError, match=r"needs .* of memory"):
        load(f"parquet:{tmp_path / 'a.parquet'}")


@pytest.mark.parametrize(
    ("column", "reason"), [("label", "labels are lists"), ("owner", "owner must be whole numbers or texts")]
)
def test_lists_in_a_column_are_refused(column, reason, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = {"image": [png_of(value) for value in range(2)], "label": [0, 1], column: [[1], [1, 2]]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=reason):
        load(f"parquet:{tmp_path / 'a.parquet'}")


def png_of(value):
    from PIL import Image

    stream = io.BytesIO()
    Image.new("L", (4, 4), value).save(stream, "PNG")
    return stream.getvalue()


def test_weights_that_are_a_bomb_or_a_pickle_are_refused(tmp_path, monkeypatch):
    torch.save({"w": torch.zeros(3)}, tmp_path / "fine.pt")
    assert read_state(str(tmp_path / "fine.pt"), "weights").keys() == {"w"}
    (tmp_path / "code.pt").write_bytes(pickle.dumps(Calls(print, "ran")))
    (tmp_path / "cut.pt").write_bytes((tmp_path / "fine.pt").read_bytes()[:-30])
    (tmp_path / "none.safetensors").write_bytes(struct.pack("<Q", 2**60) + b"{}")
    for name in ("code.pt", "cut.pt", "none.safetensors"):
        with pytest.raises(ConfigError, match="cannot be read as safetensors or a plain torch state dict"):
            read_state(str(tmp_path / name), "weights")
    torch.save({3: torch.zeros(3)}, tmp_path / "numbers.pt")
    with pytest.raises(ConfigError, match="expected a state dict"):
        read_state(str(tmp_path / "numbers.pt"), "weights")
    monkeypatch.setattr(bounded_files, "_memory", lambda: 10)
    with pytest.raises(ConfigError, match=r"needs .* of memory"):
        read_state(str(tmp_path / "fine.pt"), "weights")


def test_a_table_of_text_is_held_against_the_memory_while_it_is_read(tmp_path, monkeypatch):
    """A cell takes 64 bytes besides its text: 5 rows of 1 + 3 cells of 64 bytes, and 34 bytes of text."""
    (tmp_path / "t.csv").write_text("a,b,label\n" + "1,2,x\n3,4,y\n" * 2)
    needed = 5 * (1 + 3) * 64 + (tmp_path / "t.csv").stat().st_size
    for memory, told in (
        (needed, ""),
        (needed - 1, "up to row 5: needs 1 KiB"),
        (10, "t.csv: needs 34 bytes"),
    ):
        monkeypatch.setattr(bounded_files, "_memory", lambda memory=memory: memory)
        if not told:
            assert len(load(f"csv:{tmp_path}/t.csv").y) == 4
            continue
        with pytest.raises(DataError, match=told) as refused:
            load(f"csv:{tmp_path}/t.csv")
        assert "\n" not in str(refused.value)


def test_a_table_without_an_end_is_not_begun(tmp_path):
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    with pytest.raises(DataError, match="is no regular file"):
        load(f"csv:{tmp_path}/zero.csv")


def test_many_columns_of_which_two_are_alike_are_told_at_once(tmp_path):
    """Each name was once counted among all others: an hour for this line of 5 MB."""
    (tmp_path / "t.csv").write_text(",".join(f"c{n}" for n in range(500_000)) + ",c7\n1\n")
    with pytest.raises(DataError, match="two columns are named 'c7'"):
        load(f"csv:{tmp_path}/t.csv,label=c7")
