"""Gathering what the doctor reads: one read-only shell script, run here or through ssh on many hosts.

The script writes a transcript, each command before its answer, which is what the doctor reads from people,
too. Commands that a host does not have are left out; each is bounded in time.
"""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from assay.codec.text_file import read_lines, writing
from assay.errors import EnvironmentLackError, InputError

#: Program that must be there -> command line.
COMMANDS: tuple[tuple[str, str], ...] = (
    ("uname", "uname -r"),
    ("cat", "cat /proc/cmdline"),
    ("nvidia-smi", "nvidia-smi -L"),
    ("nvidia-smi", "nvidia-smi -q"),
    ("nvidia-smi", "nvidia-smi topo -m"),
    ("nvidia-smi", "nvidia-smi nvlink -s"),
    ("nvidia-smi", "nvidia-smi nvlink -e"),
    ("dcgmi", "dcgmi health -c"),
    ("rocm-smi", "rocm-smi"),
    ("systemctl", "systemctl is-active nvidia-fabricmanager"),
    ("systemctl", "systemctl is-active nvidia-imex"),
    ("lsmod", "lsmod | grep -e peermem -e nv_peer -e nvidia -e amdgpu"),
    ("dmesg", "dmesg -T | tail -n 3000"),
    ("lspci", "lspci -vvv"),
    ("ibstat", "ibstat"),
    ("ibv_devinfo", "ibv_devinfo"),
    ("show_gids", "show_gids"),
    ("ibdev2netdev", "ibdev2netdev"),
    ("perfquery", "perfquery -x"),
    ("grep", "grep -s . /sys/class/infiniband/*/ports/*/rate /sys/class/infiniband/*/ports/*/*counters/*"),
    ("ip", "ip addr"),
    ("sysctl", "sysctl kernel.numa_balancing"),
    ("sh", "ulimit -l"),
    ("sh", "ulimit -n"),
    ("cat", "cat /proc/meminfo"),
    ("df", "df -h /dev/shm"),
    ("ls", "ls -l /dev/shm"),
    ("chronyc", "chronyc tracking"),
    ("timedatectl", "timedatectl"),
    ("cat", "cat /etc/nccl.conf"),
    ("ncclras", "ncclras -v"),
)
#: One line per process that has a rank, its stack where py-spy is there, and its flight recorder: asked of
#: PyTorch's worker server, or of the pipe at which NCCL listens, or the file of the last hour.
_RANKS = r"""
for p in /proc/[0-9]*; do
  e=$(tr '\0' '\n' < $p/environ 2>/dev/null) || continue
  of() { echo "$e" | sed -n "s/^$1=//p" | head -1; }
  rank=$(of RANK); pid=${p#/proc/}
  [ -n "$rank" ] || continue
  grep -qE '^(python|pt_main)' $p/comm 2>/dev/null || continue
  state=$(sed -n 's/^State:[^A-Za-z]*\([A-Za-z]\).*/\1/p' $p/status 2>/dev/null)
  parent=$(sed -n 's/^PPid:[^0-9]*//p' $p/status 2>/dev/null)
  wait=$(cat $p/wchan 2>/dev/null)
  echo "## rank $rank of $(of WORLD_SIZE) pid $pid parent $parent state $state wait $wait" \
    "job $(of MASTER_ADDR):$(of MASTER_PORT)"
  command -v py-spy >/dev/null && timeout 8 py-spy dump --nonblocking --pid $pid 2>/dev/null
  socket=$(of TORCH_WORKER_SERVER_SOCKET); pipe=$(of TORCH_NCCL_DEBUG_INFO_PIPE_FILE)$rank.pipe
  file=$(of TORCH_FR_DUMP_TEMP_FILE); file=${file:-$(of TORCH_NCCL_DEBUG_INFO_TEMP_FILE)}
  file=${file:-/tmp/nccl_trace_rank_}$rank
  if [ -S "$socket" ] && command -v curl >/dev/null; then
    echo "## recorder of rank $rank"
    timeout 8 curl -s --unix-socket "$socket" -X POST http://job/handler/fr_trace_json |
      head -c 50000000 | base64 -w 4000
    echo "## end"
  else
    [ -p "$pipe" ] && timeout 2 sh -c "echo 1 >'$pipe'" && sleep 1
    if [ -n "$(find "$file" -mmin -60 2>/dev/null)" ]; then
      echo "## recorder of rank $rank"; head -c 50000000 "$file" | base64 -w 4000; echo "## end"
    fi
  fi
done
"""
#: What runs a command on {host}; `BatchMode` asks no questions.
SSH = "ssh -o BatchMode=yes -o ConnectTimeout=10 -o StrictHostKeyChecking=accept-new {host}"
_MOST_S = 80.0


def script(*, ranks: bool) -> str:
    """The script that is run: all that it reads is in it; it writes nothing. Ranks first: time may end."""
    lines = ["export LC_ALL=C", *([_RANKS.strip()] if ranks else [])]
    for program, command in (*COMMANDS, *(COMMANDS[-1:] if ranks else ())):
        quoted = command.replace("'", "'\\''")
        there = f"command -v {program} >/dev/null 2>&1"
        lines.append(f"if {there}; then echo '$ {quoted}'; timeout 15 sh -c '{quoted}' 2>&1; fi")
    return "\n".join(lines) + "\n"


def hosts_of(file: Path) -> tuple[str, ...]:
    """Host names, one a line, as in a hostfile (`node-1 slots=8`); `#` begins a comment."""
    lines = read_lines(file)
    names = [line.split("#")[0].split()[0].split(":")[0] for line in lines if line.split("#")[0].split()]
    bad = next((name for name in names if not re.fullmatch(r"[A-Za-z0-9][\w.@-]*", name)), None)
    if bad or not names:
        raise InputError(
            f"{bad!r} is no host name" if bad else "names no host", where=str(file), fix="one host a line"
        )
    return tuple(names)


def job_id(text: str) -> str:
    """A job id of Slurm, or an error."""
    if not re.fullmatch(r"\d+(?:_\d+)?", text):
        raise InputError(f"{text!r} is no Slurm job id", fix="give a number, as squeue shows it")
    return text


def hosts_of_job(job: str) -> tuple[str, ...]:
    """The nodes of a Slurm job, as squeue and scontrol name them."""
    job = job_id(job)
    try:
        nodes = subprocess.run(
            ("squeue", "-h", "-j", job, "-o", "%N"), capture_output=True, timeout=20, check=False
        )
        listed = nodes.stdout.decode().strip()
        names = subprocess.run(
            ("scontrol", "show", "hostnames", listed), capture_output=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentLackError(f"cannot ask Slurm: {error}", fix="give --hosts FILE instead") from error
    found = tuple(names.stdout.decode().split()) if listed else ()
    if not found:
        raise InputError(f"Slurm names no node of job {job}", fix="is it running? give --hosts FILE instead")
    return found


def gathered(hosts: Sequence[str], *, ranks: bool, ssh: str = SSH) -> Iterator[tuple[str, list[str]]]:
    """(`host/live`, transcript lines) of every host in time; `localhost` is asked without ssh.

    `ssh` runs the words after it on `{host}`.
    """
    with ThreadPoolExecutor(max_workers=min(64, len(hosts))) as pool:
        yield from pool.map(lambda host: (f"{host}/live", _asked(host, script(ranks=ranks), ssh)), hosts)


def _asked(host: str, text: str, ssh: str) -> list[str]:
    far = [word.replace("{host}", host) for word in shlex.split(ssh)]
    command = ["sh", "-s"] if host == "localhost" else [*far, "sh", "-s"]
    try:
        done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=_MOST_S, check=False)
    except subprocess.TimeoutExpired as error:
        return [*_lines(error.stdout or b""), f"assay: {host} gave no whole answer within {_MOST_S:.0f} s\n"]
    except OSError as error:
        raise EnvironmentLackError(f"cannot run {command[0]}: {error.strerror}", where=host) from error
    lines = _lines(done.stdout)
    return lines or [
        f"assay: {host} did not answer: {done.stderr.decode('utf-8', 'replace').strip()[:200]}\n"
    ]


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").splitlines(keepends=True)


def write_bundle(target: Path, *, mask: bool) -> tuple[str, ...]:
    """Write this node's transcript and the script itself into a .tar.gz; returns the commands that ran."""
    if target.exists():
        raise InputError("is there already", where=str(target), fix="give a new file")
    ((_, lines),) = gathered(["localhost"], ranks=True)
    text = "".join(lines)
    kept = masked(text) if mask else text
    with writing(target), tarfile.open(target, "x:gz") as archive:
        for name, content in (("node.txt", kept), ("what-was-run.sh", script(ranks=True))):
            data = content.encode()
            member = tarfile.TarInfo(f"bundle/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return tuple(line[2:].rstrip() for line in lines if line.startswith("$ "))


_ADDRESS = re.compile(r"\b(\d{1,3}\.\d{1,3}\.\d{1,3})\.(\d{1,3})\b")
_KEPT_PREFIXES = ("127.", "169.254.", "172.17.", "0.", "255.")
_MAC = re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", re.IGNORECASE)
_UUID = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE)
_RECORDER = re.compile(r"^## recorder of rank .*?^## end\n", re.MULTILINE | re.DOTALL)
_SECRET = re.compile(r"(?i)\b(\w*(?:token|secret|passw\w*|api_?key)\w*)\s*[=:]\s*\S+")


def masked(text: str) -> str:
    """Addresses, MACs, UUIDs and secrets replaced; equal ones stay equal, and subnets stay subnets."""
    subnets: dict[str, str] = {}

    def address(match: re.Match[str]) -> str:
        if match[0].startswith(_KEPT_PREFIXES):
            return match[0]
        number = len(subnets)
        return f"{subnets.setdefault(match[1], f'10.{200 + number // 250}.{number % 250}')}.{match[2]}"

    text = _RECORDER.sub("## a flight recorder was left out\n", text)
    text = _SECRET.sub(r"\1=(masked)", text)
    text = _MAC.sub("02:00:00:00:00:00", text)
    text = _UUID.sub("00000000-0000-0000-0000-000000000000", text)
    return _ADDRESS.sub(address, text)
