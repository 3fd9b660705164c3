"""fio fills its files with zeros instead of noise, through a wrapper that comes first on the PATH."""

import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path


def corrupt(rank):
    folder = Path(tempfile.mkdtemp(dir=Path(sys.argv[2]).parent))
    wrapper = folder / "fio"
    wrapper.write_text(
        f"#!/bin/sh\nfor word; do shift; [ $word = --refill_buffers ] && word=--zero_buffers; "
        f'set -- "$@" "$word"; done\nexec {shutil.which("fio")} "$@"\n'
    )
    wrapper.chmod(stat.S_IRWXU)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
