"""Run every step of deploy/Dockerfile without a container engine, and then what the image runs.

A folder stands for the image's root: absolute paths of the Dockerfile are looked up below it, and
``python`` is that of this machine. So the packages are installed from the context that the ignore
file lets through, stages hand on only what is copied, the entry command starts the service as the
image's user, and the health check asks it.

Example: python tools/rehearse_image.py deploy/Dockerfile --work /tmp/image
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

from dockerfile_parse import DockerfileParser

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = "src|opt|model|data|run"
PORT = "8000"
PATIENCE = 120.0


@dataclass
class Image:
    """What a Dockerfile has made so far."""

    root: Path
    programs: Path
    work: str = "/"
    user: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    commands: dict[str, list[str]] = field(default_factory=dict)

    def path(self, text: str) -> Path:
        """Return where a path of the image lies."""
        return self.root / os.path.join(self.work, text).lstrip("/")

    def inside(self, text: str) -> str:
        """Return a text in which absolute paths of the image are those below its root."""
        return re.sub(rf"(?<![\w.-])/(?=(?:{FOLDERS})\b)", f"{self.root}/", text)

    def variables(self) -> dict[str, str]:
        """Return the environment of its processes: its own, and how pip finds packages here."""
        passed = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        base = {"PATH": f"{self.programs}:/usr/local/bin:/usr/bin:/bin", **passed}
        for name, value in self.environment.items():
            base[name] = Template(self.inside(value)).safe_substitute(base)
        return base


class Rehearsal:
    """Walks the instructions of a Dockerfile.

    Parameters
    ----------
    context : Path
        What the image is built from.
    work : Path
        An empty folder.
    arguments : dict
        Build arguments.
    python : Path
        The Python that stands for that of the base image.
    """

    def __init__(self, context: Path, work: Path, arguments: dict[str, str], python: Path) -> None:
        self.context, self.work, self.arguments = context, work, arguments
        programs = work / "bin"
        programs.mkdir()
        (programs / "python").symlink_to(python)
        self.image = Image(work / "image", programs)
        self.stages: dict[str, Path] = {}
        self.name = ""

    def run(self, dockerfile: Path) -> Image:
        """Run all instructions; return the image of the last stage."""
        for step in DockerfileParser(str(dockerfile)).structure:
            name, value = step["instruction"], step["value"]
            if name == "COMMENT":
                continue
            print(f"{name} {value}", flush=True)
            getattr(self, f"_{name.lower()}")(value)
        return self.image

    def _arg(self, value: str) -> None:
        name, said, default = value.partition("=")
        if said:
            self.arguments.setdefault(name, default)

    def _from(self, value: str) -> None:
        base, _, name = value.partition(" AS ")
        base = Template(base).substitute(self.arguments)
        assert re.fullmatch(r"python:3\.\d+-slim-bookworm", base), base
        if self.image.root.exists():  # programs know where they were installed: one place for all
            self.stages[self.name] = self.work / self.name
            self.image.root.rename(self.stages[self.name])
        self.image = Image(self.image.root, self.image.programs)
        self.image.root.mkdir(parents=True)
        self.name = name

    def _env(self, value: str) -> None:
        for name, said in re.findall(r"(\w+)=(\S+)", value):
            self.image.environment[name] = said

    def _workdir(self, value: str) -> None:
        self.image.work = value
        self.image.path(".").mkdir(parents=True, exist_ok=True)

    def _copy(self, value: str) -> None:
        options = dict(re.findall(r"--(\w+)=(\S+)", value))
        *sources, target = re.sub(r"--\w+=\S+\s*", "", value).split()
        place = self.image.path(target)
        for source in sources:
            if "from" in options:
                origin = self.stages[options["from"]] / source.lstrip("/")
            else:
                assert f"!{source}" in (self.context / ".dockerignore").read_text().splitlines()
                origin = self.context / source
            goal = place / origin.name if target.endswith("./") else place
            if origin.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(origin, goal, symlinks=True, ignore=ignored)
            else:
                shutil.copy2(origin, goal)
            if "chown" in options and os.geteuid() == 0:
                os.chown(goal, *map(int, options["chown"].split(":")))

    def _run(self, value: str) -> None:
        variables = {**self.arguments, **self.image.variables()}
        line = self.image.inside(value)
        subprocess.run(["sh", "-c", line], cwd=self.image.path("."), env=variables, check=True)

    def _user(self, value: str) -> None:
        self.image.user = value

    def _healthcheck(self, value: str) -> None:
        self.image.commands["healthcheck"] = json.loads(value[value.index("[") :])

    def _entrypoint(self, value: str) -> None:
        self.image.commands["entrypoint"] = json.loads(value)

    def _cmd(self, value: str) -> None:
        self.image.commands["cmd"] = json.loads(value)

    def _volume(self, value: str) -> None:
        for folder in json.loads(value):
            assert self.image.path(folder).is_dir(), folder

    def _expose(self, value: str) -> None:
        assert value == PORT


def everybody_may_run(program: Path) -> bool:
    """Return whether a program lies where other users than root get to."""
    resolved = program.resolve()
    return all(path.stat().st_mode & 0o001 for path in (resolved, *resolved.parents))


def start(image: Image, command: list[str], port: str, **options: Any) -> subprocess.Popen[str]:
    """Start a command of the image as its user, at another port than the image's."""
    line = [image.inside(word).replace(PORT, port) for word in command]
    variables = image.variables()
    line[0] = shutil.which(line[0], path=variables["PATH"]) or line[0]
    if os.geteuid() == 0 and everybody_may_run(image.programs / "python"):
        user, group = map(int, image.user.split(":"))
        options |= {"user": user, "group": group, "extra_groups": []}
    return subprocess.Popen(line, env=variables, cwd=image.path("."), text=True, **options)


def serve(image: Image) -> str:
    """Run the entry command until the health check is content, then stop it; return its log."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port = str(trial.getsockname()[1])
    command = image.commands["entrypoint"] + image.commands["cmd"]
    process = start(image, command, port, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + PATIENCE
        while start(image, image.commands["healthcheck"], port, stderr=subprocess.DEVNULL).wait():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the service did not become healthy: {process.communicate()[0]}")
            time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            process.kill()
    if process.returncode:
        raise SystemExit(f"the service ended with {process.returncode}: {output}")
    return output


def prepare(image: Image) -> None:
    """Put a model and a key where the image expects them."""
    code = "from hgkt.cli.main import run; run()"
    train = [str(image.root / "opt/hgkt/bin/python"), "-c", code, "train", "--data", "digits"]
    environment = image.variables()
    subprocess.run([*train, "--out", str(image.root / "model")], env=environment, check=True)
    secrets = image.root / "run/secrets"
    secrets.mkdir(parents=True)
    (secrets / "hgkt_api_keys").write_text("a key for the rehearsal\n")


def main() -> None:
    """Rehearse, and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dockerfile", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="an empty folder")
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--python", type=Path, default=Path(sys.executable).resolve())
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    given.work.chmod(0o755)  # the image's user must get in
    said = dict(argument.split("=", 1) for argument in given.build_arg)
    image = Rehearsal(ROOT, given.work.resolve(), said, given.python).run(given.dockerfile)
    prepare(image)
    print(serve(image))
    print("the image's service became healthy, and ended when it was told to")


if __name__ == "__main__":
    main()
