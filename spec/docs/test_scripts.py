"""script/setup and script/demo on a machine of stand-ins: no package, service or file of this one is changed. script/check by names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from pages import ROOT
from processes import environment

# What the machine has lies in its folder: installed/PACKAGE, enabled/SERVICE.
STAND_INS = {
    "id": "echo 1000",
    "sudo": 'exec "$@"',
    "dpkg-query": 'for package; do [ ! -e "$MACHINE/installed/$package" ] || echo "ii $package"; done',
    "systemctl": """
        for service; do :; done
        case $* in
          *is-enabled*) [ -e "$MACHINE/enabled/$service" ] ;;
          *disable*) rm "$MACHINE/enabled/$service" ;;
        esac
    """,
    "apt-get": """
        case $* in *" install "*) ;; *) exit 0 ;; esac
        cp "$MACHINE/policy-rc.d" "$MACHINE/policy-while-installing"
        [ ! -e "$MACHINE/kill" ] || { rm "$MACHINE/kill"; kill -KILL "$PPID"; exit 1; }
        [ ! -e "$MACHINE/fail" ] || exit 100
        for package; do
          case $package in
            -* | install) continue ;;
            nginx | postgresql | redis-server) [ -e "$MACHINE/installed/$package" ] || touch "$MACHINE/enabled/$package" ;;
          esac
          touch "$MACHINE/installed/$package"
        done
        [ ! -e "$MACHINE/fail-late" ] || { rm "$MACHINE/fail-late"; exit 100; }
        [ ! -e "$MACHINE/interrupt" ] || { rm "$MACHINE/interrupt"; kill -TERM "$PPID"; sleep 1; }
    """,
    # The build of the gem's extension is the first thing behind the packages.
    "ruby": '[ "$*" != "-S rake --quiet compile" ] || ls "$MACHINE" >"$MACHINE/files-while-building"',
    "python": "exit 0",
}


class Machine:
    """A Debian with a checkout and none of the packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("bin", "installed", "enabled", "checkout/script", "checkout/examples/dpkg_status"):
            (folder / name).mkdir(parents=True)
        for name, text in STAND_INS.items():
            self.program(f"bin/{name}", text)
        self.program("checkout/script/build_lua", "exit 0")
        self.program("checkout/examples/dpkg_status/run", 'echo "the demo runs"')
        setup = (ROOT / "script/setup").read_text()
        assert "/usr/sbin/policy-rc.d" in setup
        self.script("setup", setup.replace("/usr/sbin/policy-rc.d", str(self.policy)))
        self.script("demo", (ROOT / "script/demo").read_text())

    @property
    def policy(self) -> Path:
        return self.folder / "policy-rc.d"

    def program(self, path: str, text: str) -> None:
        (self.folder / path).write_text(f"#!/bin/sh\n{text}\n")
        (self.folder / path).chmod(0o755)

    def script(self, name: str, text: str) -> None:
        (self.folder / "checkout/script" / name).write_text(text)
        (self.folder / "checkout/script" / name).chmod(0o755)

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def put(self, *names: str) -> None:
        for name in names:
            (self.folder / name).touch()

    def run(self, script: str) -> tuple[int, str]:
        env = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "MACHINE": str(self.folder), "PYTHON": "python"}
        ended = subprocess.run([self.folder / "checkout/script" / script], env=environment(env), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return ended.returncode, ended.stdout


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_setup_leaves_no_service_that_starts_at_boot(machine: Machine) -> None:
    code, text = machine.run("setup")
    assert code == 0 and machine.has("installed/nginx"), text
    assert os.listdir(machine.folder / "enabled") == [], text
    assert "setup: nginx is installed, but does not start at boot; systemctl enable nginx changes that\n" in text


@pytest.mark.parametrize("event, code", [("fail-late", 3), ("interrupt", -15)])
def test_an_installation_that_does_not_end_leaves_no_service_that_starts_at_boot(machine: Machine, event: str, code: int) -> None:
    machine.put("installed/nginx", "enabled/nginx", event)
    ended, text = machine.run("setup")
    assert ended == code and os.listdir(machine.folder / "enabled") == ["nginx"], text
    assert not machine.policy.exists(), text
    assert machine.run("setup")[0] == 0
    assert os.listdir(machine.folder / "enabled") == ["nginx"]


def test_setup_leaves_the_services_that_were_enabled_before(machine: Machine) -> None:
    machine.put("installed/nginx", "enabled/nginx", "enabled/postgresql")
    code, text = machine.run("setup")
    assert code == 0 and sorted(os.listdir(machine.folder / "enabled")) == ["nginx", "postgresql"], text


def test_setup_needs_no_systemctl(machine: Machine) -> None:
    machine.program("bin/systemctl", "exit 127")
    assert machine.run("setup")[0] == 0


def test_setup_forbids_the_start_of_services_only_while_it_installs(machine: Machine) -> None:
    code, text = machine.run("setup")
    assert code == 0, text
    assert (machine.folder / "policy-while-installing").read_text().endswith("\nexit 101\n")
    assert "policy-rc.d" not in (machine.folder / "files-while-building").read_text().split()
    assert not machine.policy.exists()


def test_setup_allows_the_start_of_services_again_if_apt_fails(machine: Machine) -> None:
    machine.put("fail")
    code, text = machine.run("setup")
    assert code == 3 and "apt-get could not install" in text
    assert machine.has("policy-while-installing") and not machine.policy.exists()


def test_the_next_setup_removes_the_policy_of_one_that_was_killed(machine: Machine) -> None:
    machine.put("kill")
    assert machine.run("setup")[0] == -9
    assert machine.policy.exists()
    code, text = machine.run("setup")
    assert code == 0 and not machine.policy.exists(), text


def test_setup_leaves_the_policy_of_another_program(machine: Machine) -> None:
    machine.policy.write_text("#!/bin/sh\nexit 101\n")
    assert machine.run("setup")[0] == 0
    assert machine.policy.read_text() == "#!/bin/sh\nexit 101\n"


def test_demo_shows_what_setup_says(machine: Machine) -> None:
    code, text = machine.run("demo")
    assert code == 0, text
    assert text.index("setup: installing ") < text.index("setup: ready\n") < text.index("the demo runs")


def test_demo_ends_if_setup_fails(machine: Machine) -> None:
    machine.put("fail")
    code, text = machine.run("demo")
    assert code != 0 and "the demo runs" not in text and text.count("apt-get could not install") == 1, text


def check(*names: str) -> tuple[int, str]:
    ended = subprocess.run([ROOT / "script/check", *names], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return ended.returncode, ended.stdout


def test_check_takes_names_as_it_prints_them() -> None:
    assert check("readme size", "one_version") == (0, "ok      readme size\nok      one version\n")


@pytest.mark.parametrize("names", [["readme_sizes"], ["readme_size", "readme_sizes"], ["run"], ["report"]])
def test_check_refuses_an_unknown_name(names: list[str]) -> None:
    code, text = check(*names)
    assert code == 1 and f"no check is named {names[-1]}; there are " in text and "one_version, package_layers" in text, text
