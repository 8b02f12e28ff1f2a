"""Loads what -r names: a Python file, a folder with __init__.py, or a module by its dotted name."""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import format_exception_only, walk_tb
from typing import Final

from .._errors import ApplicationError, Error, Invalid, UnknownSetting, UsageError

OWN_FILES: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
STANDARD_FILES: Final = os.path.join(sysconfig.get_path("stdlib"), "")
PACKAGES: Final = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))  # folders of installed ones


def load(path: str) -> None:
    """
    Imports it under its own name, so that it is never loaded twice.

    Raises UsageError when there is nothing to load, ApplicationError where it has a syntax error or a setting that cannot be or
    raises an exception, and Error where Redis failed while the application used it.
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
    except ApplicationError as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and cause.name is not None and f"{name}.".startswith(f"{cause.name}."):
            raise missing from None
        raise


@contextmanager
def errors_placed() -> Iterator[None]:
    """Raises what the application raises again as ApplicationError, whose message begins with its place."""
    try:
        yield
    except SyntaxError as error:
        raise ApplicationError(f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}") from error
    except (UsageError, Error):  # of no Redis that may be started; of Redis
        raise
    except (Invalid, UnknownSetting) as error:
        raise ApplicationError(f"{place_of(error)}{error}") from error
    except Exception as error:
        raise ApplicationError(f"{place_of(error)}{''.join(format_exception_only(type(error), error)).strip()}") from error


def place_of(error: BaseException) -> str:
    """
    The file and the line of the innermost call in the application, as "app.py:7: "; in a library if no call is in the application.
    "" if all calls are in this package or in the import system.
    """
    calls = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    calls = [(file, line) for file, line in calls if not file.startswith((OWN_FILES, "<frozen ")) and file != importlib.__file__]
    calls = [call for call in calls if not is_of_library(call[0])] or calls
    return f"{calls[-1][0]}:{calls[-1][1]}: " if calls else ""


def is_of_library(file: str) -> bool:
    return file.startswith(STANDARD_FILES) or any(folder in file for folder in PACKAGES)


def put_in_front(folder: str) -> None:
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
