"""
Compiles bindings/python and the core, as its one unit all.c, into seriatim._native.

Environment: SANITIZE=1 for ASan and UBSan, WITHOUT_OPENSSL=1 for no rediss://.
"""

import os
import re
import shlex
import subprocess
import sys
from glob import glob
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

try:
    from setuptools.errors import CompileError
except ImportError:
    from distutils.errors import CompileError

SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]


def version():
    return re.search(r'SERIATIM_VERSION "([^"]+)"', Path("core/include/seriatim.h").read_text(encoding="utf-8")).group(1)


def pkg_config(*words):
    """The flags that pkg-config tells, or None where it or the package is missing."""
    try:
        answer = subprocess.run(["pkg-config", *words], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return shlex.split(answer.stdout)


def flags(package, libraries):
    """Of the compiler and of the linker."""
    found = pkg_config("--cflags", package), pkg_config("--libs", package)
    return found if None not in found else ([], libraries)


def openssl():
    if os.environ.get("WITHOUT_OPENSSL"):
        return [], []
    if pkg_config("--exists", "openssl") is None:
        print(
            "Seriatim is built without TLS, so rediss:// will be refused. "
            "To have it: apt-get install libssl-dev pkg-config, then install again",
            file=sys.stderr,
        )
        return [], []
    compiler, linker = flags("openssl", ["-lssl", "-lcrypto"])
    return [*compiler, "-DSERIATIM_WITH_OPENSSL"], linker


def native():
    compiler, linker = flags("hiredis", ["-lhiredis"])
    tls_compiler, tls_linker = openssl()
    sanitizers = SANITIZERS if os.environ.get("SANITIZE") else []
    exclude_libs = ["-Wl,--exclude-libs,ALL"] if sys.platform.startswith("linux") else []
    return Extension(
        "seriatim._native",
        sources=[*sorted(glob("bindings/python/*.c")), "core/src/all.c"],
        depends=sorted(glob("bindings/python/*.h") + glob("core/include/**/*.h", recursive=True) + glob("core/src/**/*.[chi]*", recursive=True)),
        include_dirs=["core/include", "core/src"],
        extra_compile_args=[*compiler, *tls_compiler, "-fvisibility=hidden", *sanitizers, *(["-O1"] if sanitizers else [])],
        extra_link_args=[*linker, *tls_linker, "-pthread", *exclude_libs, *sanitizers],
    )


class Build(build_ext):
    def finalize_options(self):
        """An installation compiles again: what lies in build/ may be of other flags, without TLS for one, and setuptools compares times only."""
        super().finalize_options()
        self.force = self.force or not self.inplace

    def build_extension(self, ext):
        try:
            super().build_extension(ext)
        except CompileError:
            print(
                "Seriatim needs a C compiler, Python's headers and hiredis; the compiler's error names what is missing: "
                "apt-get install gcc python3-dev libhiredis-dev | brew install hiredis | apk add gcc musl-dev python3-dev hiredis-dev",
                file=sys.stderr,
            )
            raise


setup(
    name="seriatim",
    version=version(),
    description="Background jobs in order, per id, folded, on Redis",
    long_description=Path("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author="Seriatim contributors",
    license="MIT",
    python_requires=">=3.10",
    package_dir={"": "python"},
    py_modules=["seriatim_command", "seriatim_pytest"],
    packages=find_packages("python", include=["seriatim", "seriatim.*"]),
    package_data={"seriatim": ["py.typed", "*.pyi"]},
    data_files=[
        ("share/man/man1", ["core/package/seriatim/seriatim.1"]),
        ("share/bash-completion/completions", ["core/package/seriatim/seriatim.bash"]),
        ("share/seriatim", ["core/package/seriatim/seriatim.zsh"]),
        ("share/fish/vendor_completions.d", ["core/package/seriatim/seriatim.fish"]),
    ],
    ext_modules=[native()],
    cmdclass={"build_ext": Build},
    extras_require={"yaml": ["PyYAML"]},
    entry_points={
        "console_scripts": ["seriatim = seriatim_command:main"],
        "pytest11": ["seriatim = seriatim_pytest"],
    },
    zip_safe=False,
)
