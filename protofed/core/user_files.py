"""Python files of the user, named on the command line: "my_method.py:FedMedian" is a class in such a file.

A file runs as Python code, with all rights of the user, under a module name that follows from its path alone:
another process that loads it finds the same names when it reads pickled objects. It may import files beside
it, as if Python had been started with it. A file whose text has changed since is run again.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from .errors import ConfigError

FORM = re.compile(r"((?:[A-Za-z]:)?[^:]+\.py):([A-Za-z_]\w*)(?::(.*))?", re.DOTALL)
PREFIX = "protofed_user_"  # of the names of their modules
INSTALLED = {"site-packages", "dist-packages"}


@dataclass(frozen=True)
class UserFile:
    """A file that was run, its module, and the texts that it consists of: its own and those beside it that
    it imported."""

    path: Path
    module: ModuleType
    texts: Mapping[Path, bytes]

    @property
    def is_current(self) -> bool:
        """Whether the files still hold what was run."""
        return all(path.is_file() and path.read_bytes() == text for path, text in self.texts.items())


_loaded: dict[Path, UserFile] = {}  # what sys.modules is for modules


def is_form(text: str) -> bool:
    """Whether the text is FILE.py:NAME, with or without options behind it.

    >>> is_form("my_method.py:FedMedian"), is_form("fedproto:lam=1"), is_form("module:my.py:Net")
    (True, False, False)
    """
    return FORM.fullmatch(text) is not None


def split_form(text: str) -> tuple[str, str, str]:
    """File, name and options of FILE.py:NAME or FILE.py:NAME:OPTIONS.

    >>> split_form("lib/my.py:FedMedian:lam=2")
    ('lib/my.py', 'FedMedian', 'lam=2')
    """
    found = FORM.fullmatch(text)
    if found is None:
        raise ConfigError(f"expected FILE.py:NAME, got {text!r}")
    return found[1], found[2], found[3] or ""


def short_name(method: str) -> str:
    """The class alone of FILE.py:CLASS, for names of folders; any other name as it is."""
    return split_form(method)[1] if is_form(method) else method


def loaded() -> list[UserFile]:
    """All files that were run in this process, in their order."""
    return list(_loaded.values())


def absolute(written: str | Path) -> Path:
    """The full path; `~` is the user's home."""
    return Path(os.path.abspath(Path(written).expanduser()))


def load_file(written: str | Path, where: str) -> UserFile:
    """Run a file, or find it as it was run before. `where` stands in front of errors."""
    path = absolute(written)
    if path.suffix != ".py":
        raise ConfigError(f"{where}: expected a Python file (.py), got {str(written)!r}")
    if not path.is_file():
        raise ConfigError(f"{where}: no file {str(written)!r} in {Path.cwd()}")
    known = _loaded.pop(path, None)
    if known is None or not known.is_current:
        _forget(known)
        known = _run(path, where)
    _loaded[path] = known
    return known


def load_named(form: str, where: str, kinds: str, fits: Callable[[Any], bool]) -> Any:
    """The object that FILE.py:NAME names; if it is not there, the error lists those of the file that fit.
    `kinds` is the word for them, as "functions"."""
    written, name, _ = split_form(form)
    module = load_file(written, where).module
    if not hasattr(module, name):
        raise ConfigError(f"{where}: {written} has no {name!r}; {_listed(module, kinds, fits)}")
    found = getattr(module, name)
    if not fits(found):
        raise ConfigError(f"{where}: {name} cannot be used here; {_listed(module, kinds, fits)}")
    return found


def refuse_nameless(written: str, where: str, kinds: str, fits: Callable[[Any], bool]) -> NoReturn:
    """A file was given without the name of what is meant in it."""
    module = load_file(written, where).module
    raise ConfigError(f"{where}: write {written}:NAME; {_listed(module, kinds, fits)}")


def _listed(module: ModuleType, kinds: str, fits: Callable[[Any], bool]) -> str:
    own = {key: value for key, value in vars(module).items() if fits(value)}
    there = [key for key, value in own.items() if value.__module__ == module.__name__]
    return f"{kinds} in it: {', '.join(there) or 'none'}"


def user_line(error: BaseException, path: Path | None = None) -> str | None:
    """The last line of the user's own that an error went through: "my_method.py, line 12". Counted are the
    files that were run, and with `path` also what lies beside it."""
    own = {str(one) for file in loaded() for one in file.texts}
    if isinstance(error, SyntaxError) and error.filename and path is not None:
        return f"{Path(error.filename).name}, line {error.lineno}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        beside = path is not None and _is_beside(frame.filename, path.parent)
        if frame.filename in own or beside:
            inside = "" if frame.name == "<module>" else f", in {frame.name}"
            return f"{Path(frame.filename).name}, line {frame.lineno}{inside}"
    return None


def caller_line(error: BaseException) -> str | None:
    """The last line that an error went through of a script or a notebook that called us, say in its own
    `forward`: code that is neither protofed's nor Python's nor installed."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_callers(frame.filename):
            inside = "" if frame.name == "<module>" else f", in {frame.name}"
            return f"{Path(frame.filename).name}, line {frame.lineno}{inside}"
    return None


def _is_callers(file: str) -> bool:
    if file.startswith("<"):  # "<stdin>" and cells of notebooks, but not what torch or Python made up
        return file.startswith(("<stdin>", "<string>", "<ipython"))
    path = Path(file)
    return not (
        path.is_relative_to(Path(__file__).parents[1])
        or path.is_relative_to(sysconfig.get_paths()["stdlib"])
        or INSTALLED & set(path.parts)
    )


def reason(error: BaseException) -> str:
    """Kind and first line of an error."""
    first = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _run(path: Path, where: str) -> UserFile:
    name = f"{PREFIX}{path.stem}_{blake2b(str(path).encode(), digest_size=4).hexdigest()}"
    spec = spec_from_file_location(name, path)
    if spec is None:
        raise ConfigError(f"{where}: {path} is not a Python file")
    module = module_from_spec(spec)
    before = set(sys.modules)
    sys.modules[name] = module  # dataclasses and pickling look their module up here
    sys.path.insert(0, str(path.parent))
    try:
        text = path.read_bytes()
        exec(compile(text, str(path), "exec"), vars(module))
    except (Exception, SystemExit) as error:  # whatever the user's file raises
        del sys.modules[name]
        if isinstance(error, ConfigError):
            raise ConfigError(f"{where}: {error}") from error
        line = user_line(error, path) or path.name
        raise ConfigError(f"{where}: running {path} failed: {reason(error)} ({line})") from error
    finally:
        sys.path.remove(str(path.parent))
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # for imports inside functions
    helpers = {Path(file): Path(file).read_bytes() for file in _helpers(module, before)}
    return UserFile(path, module, {path: text, **helpers})


def _helpers(module: ModuleType, before: set[str]) -> Iterator[str]:
    """Files beside the user's that it imported, now or before."""
    folder = Path(str(module.__file__)).parent
    used = {getattr(value, "__module__", None) for value in vars(module).values()}
    used |= {value.__name__ for value in vars(module).values() if isinstance(value, ModuleType)}
    for name in (set(sys.modules) - before) | {name for name in used if isinstance(name, str)}:
        found = getattr(sys.modules.get(name), "__file__", None)
        if isinstance(found, str) and found.endswith(".py") and _is_beside(found, folder):
            yield found


def _is_beside(file: str, folder: Path) -> bool:
    """Within the folder, and neither installed there nor a part of protofed."""
    path = Path(file)
    ours = Path(__file__).parents[1]
    return path.is_relative_to(folder) and not path.is_relative_to(ours) and not INSTALLED & set(path.parts)


def _forget(file: UserFile | None) -> None:
    """Drop the modules of a file that has changed, so that it is run anew with all that it imports."""
    if file is not None:
        gone = [name for name, one in sys.modules.items() if _file_of(one) in file.texts]
        for name in gone:
            del sys.modules[name]


def _file_of(module: ModuleType) -> Path | None:
    found = getattr(module, "__file__", None)
    return Path(found) if isinstance(found, str) else None
