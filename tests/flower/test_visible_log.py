"""The logs of Flower's programs: text of clients cannot do anything in the terminal of whoever reads them."""

import json
import re
import time

import pytest

from protofed.core.errors import EngineError
from protofed.deploy.processes import Program, wait_for_port
from protofed.deploy.visible_log import harmless, last_lines

HOSTILE = (
    *("\x1b[2J\x1b[31mred", "\x1b]0;title\x07", "left\u202eright", "[bold]b[/wrong]", "a\rb", "\x9b31m"),
    *("<script>alert(1)</script>", '=HYPERLINK("http://x")', "\\input{secret}", "\ud800", "日本 ü"),
)
ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def started(folder, script, name="superlink.log"):
    return Program(["python", "-c", script], folder / name, folder / "home", folder)


def ended(program):
    program.process.wait(timeout=30)
    program.stop()
    return program.log.read_text(encoding="utf-8")


def test_what_a_program_prints_is_harmless_in_its_log(tmp_path):
    """Hostile text on both streams, by the program and by one that it started, and bytes that are no text."""
    script = (
        "import json, os, subprocess, sys\n"
        f"texts = json.loads({json.dumps(HOSTILE)!r})\n"
        "for text in texts:\n"
        "    os.write(1, (text + '\\n').encode('utf-8', 'surrogatepass'))\n"
        "    os.write(2, (text + '\\n').encode('utf-8', 'surrogatepass'))\n"
        "os.write(1, b'\\xff\\xfe\\x9b no text\\n')\n"
        "subprocess.run([sys.executable, '-c', 'print(chr(27) + \"]0;of a child\" + chr(7))'])\n"
        "print('\\x1b[92mINFO \\x1b[0m:  node \\x1b[2J', flush=True)\n"
        "os.write(1, b'x' * 200_000 + b'\\x1b[2J')\n"
    )
    text = ended(started(tmp_path, script))
    assert ACTS.search(text) is None
    for shown in (
        "\\x1b[2J\\x1b[31mred",
        "left\\u202eright",
        "日本 ü",
        "\\xff\\xfe",
        "\\x1b]0;of a child\\x07",
    ):
        assert shown in text
    assert text.count("[bold]b[/wrong]\n") == 2
    assert "\nINFO :  node \\x1b[2J\n" in text  # Flower's own colour is left out
    assert text.endswith("xxx\\x1b[2J")
    assert text.count("x" * 1000) >= 200  # nothing of a line without an end is lost


def test_starts_are_added_to_the_log(tmp_path):
    for number in (1, 2):
        text = ended(started(tmp_path, f"print('start {number}')"))
    assert text == "start 1\nstart 2\n"


def test_the_tail_of_a_log_is_one_harmless_line(tmp_path):
    """Of a log that an earlier version wrote too."""
    program = started(tmp_path, f"import sys; sys.stderr.write({HOSTILE[0]!r} + '\\nlast\\n'); sys.exit(3)")
    with pytest.raises(EngineError, match="ended at once") as told:
        wait_for_port("127.0.0.1", 9, program, 30)
    assert "\\x1b[2J\\x1b[31mred | last" in str(told.value)
    program.stop()
    (tmp_path / "old.log").write_bytes(b"a" * 100_000 + b"\nx\x1b[2J\nend\x07\n")
    assert last_lines(tmp_path / "old.log", 2) == "x\\x1b[2J | end\\x07"
    assert last_lines(tmp_path / "none.log", 2) == ""


def test_a_full_disk_does_not_stop_the_program(tmp_path):
    """/dev/full takes nothing; the program prints more than a pipe holds, and ends."""
    (tmp_path / "full.log").symlink_to("/dev/full")
    program = started(tmp_path, "for _ in range(9999): print('y' * 99)", "full.log")
    assert program.process.wait(timeout=30) == 0
    program.stop()


def test_a_program_with_children_that_outlive_it_is_not_waited_for(tmp_path):
    script = "import subprocess; subprocess.Popen(['sleep', '8'], start_new_session=True); print('there')"
    program, began = started(tmp_path, script), time.monotonic()
    assert ended(program) == "there\n"
    assert time.monotonic() - began < 7


@pytest.mark.parametrize("text", HOSTILE)
def test_lines(text):
    assert ACTS.search(harmless(text)) is None
