"""Loads what -r names: a Python file, a folder with __init__.py, or a module by its dotted name."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import format_exception_only, walk_tb
from typing import Final

from .._errors import ApplicationError, Invalid, UnknownSetting, UsageError

OWN_FILES: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def load(path: str) -> None:
    """
    Imports it under its own name, so that it is never loaded twice.

    Raises UsageError when there is nothing to load, ApplicationError where it has a syntax error, a name that is not defined
    or a setting that cannot be, and whatever else the application raises.
    """
    file = find_file(path)
    if file is None:
        load_module(path)
    else:
        load_file(path, file)


def find_file(path: str) -> str | None:
    """The file of a path; None: it may be a module's name."""
    full = os.path.abspath(path)
    for file in (os.path.join(full, "__init__.py"), full, f"{full}.py"):
        if os.path.isfile(file):
            if not file.endswith(".py"):
                raise UsageError(f"-r {path}: the name of a Python file must end in .py")
            return file
    if os.path.isdir(full):
        raise UsageError(f"-r {path}: the folder holds no __init__.py")
    return None


def module_name(file: str) -> tuple[str, str]:
    """The dotted name of the file's module, and the folder that must be importable for it."""
    folder, name = os.path.split(file[: -len(".py")])
    if name == "__init__":
        folder, name = os.path.split(folder)
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        name = f"{package}.{name}"
    return name, folder


def load_file(path: str, file: str) -> None:
    name, folder = module_name(file)
    if "." in os.path.basename(file)[: -len(".py")]:
        raise UsageError(f"-r {path}: a module's file must have no dot in its name but that of .py")
    put_in_front(folder)
    with errors_placed():
        loaded = getattr(importlib.import_module(name), "__file__", None)
    if loaded is None or not os.path.samefile(loaded, file):
        raise UsageError(f"-r {path}: its name {name} is already that of {loaded or 'a built-in module'}; rename it")


def load_module(name: str) -> None:
    missing = UsageError(f"-r {name}: no such file, no folder with __init__.py and no module")
    if not all(name.split(".")) or os.sep in name:
        raise missing
    put_in_front(os.getcwd())
    try:
        with errors_placed():
            importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise missing from None
        raise


@contextmanager
def errors_placed() -> Iterator[None]:
    """Raises the mistakes that the message alone explains again as ApplicationError, whose message begins with their place."""
    try:
        yield
    except SyntaxError as error:
        raise ApplicationError(f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}") from error
    except NameError as error:
        raise ApplicationError(f"{place_of(error)}{''.join(format_exception_only(type(error), error)).strip()}") from error
    except (Invalid, UnknownSetting) as error:
        raise ApplicationError(f"{place_of(error)}{error}") from error


def place_of(error: BaseException) -> str:
    """ "file:line: " of the innermost call that is neither ours nor the import system's; "" where there is none."""
    calls = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    theirs = [f"{file}:{line}: " for file, line in calls if not file.startswith((OWN_FILES, "<frozen ")) and file != importlib.__file__]
    return theirs[-1] if theirs else ""


def put_in_front(folder: str) -> None:
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
