"""Training logs as the frameworks print them, followed as they grow, through rotation and half lines."""

from __future__ import annotations

import os

import pytest
from servers import until

from assay.errors import InputError
from assay.formats.time_stamp import stamp_s
from assay.watch.sources.kernel import KernelMessages
from assay.watch.sources.logs import LogReader, own_pattern
from assay.watch.sources.tail import Folder, Tail

#: One line of each, in the wording of its source, with what must be read from it.
LINES = {
    "Megatron-LM": (
        " [2024-05-01 10:20:30] iteration       12/     100 | consumed samples:         3072 | elapsed time "
        "per iteration (ms): 1523.4 | throughput per GPU (TFLOP/s/GPU): 410.2 | learning rate: 1.5E-04 | "
        "global batch size:   256 | lm loss: 7.261390E+00 | loss scale: 1.0 | grad norm: 1.250 |",
        {"step": 12, "step_s": 1.5234, "loss": 7.26139},
    ),
    "NeMo": (
        "Training epoch 0, iteration 5/99 | lr: 2.999e-07 | global_batch_size: 8 | global_step: 5 | "
        "reduced_train_loss: 11.03 | train_step_timing in s: 1.682 | consumed_samples: 48",
        {"step": 5, "step_s": 1.682, "loss": 11.03},
    ),
    "torchtitan": (
        "\x1b[32m[rank0]:2024-11-06 21:19:42,011 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  7.1234  "
        "\x1b[33mmemory: 29.66GiB(37.45%)  \x1b[34mtps: 3,456  \x1b[36mtflops: 200.10  \x1b[35mmfu: 20.2%",
        {"step": 10, "loss": 7.1234, "tokens_per_s": 3456.0},
    ),
    "DeepSpeed": (
        "[2024-03-05 08:12:44,123] [INFO] [timer.py:260:stop] epoch=0/micro_step=40/global_step=40, "
        "RunningAvgSamplesPerSec=12.3, CurrSamplesPerSec=12.4, MemAllocated=3.1GB, MaxMemAllocated=7.2GB",
        {"step": 40},
    ),
    "a script": (
        "step 17 loss 3.25 step_time 0.250 s compute_time: 0.110 s",
        {"step": 17, "step_s": 0.25, "busy_s": 0.11},
    ),
}


def read(text: str, file: str = "train.log", **reader):
    return list(LogReader(**reader).read(text, file=file, number=3, now_s=100.0))


@pytest.mark.parametrize("framework", LINES)
def test_a_step_of_each_framework(framework):
    line, expected = LINES[framework]
    (event,) = read(line)
    assert event.kind == "step"
    assert event.source == "train.log:3"
    for name, value in expected.items():
        assert event.details[name] == pytest.approx(value), name


def test_the_trainer_of_hugging_face_does_not_number_its_steps():
    reader = LogReader()
    line = "{'loss': 2.318, 'grad_norm': 1.9, 'learning_rate': 4.9e-05, 'epoch': 0.02}"
    events = [e for _ in range(3) for e in reader.read(line, file="l", number=1, now_s=0.0)]
    assert [e.details["step"] for e in events] == [1, 2, 3]
    assert events[0].details["loss"] == 2.318


@pytest.mark.parametrize(
    ("line", "kind", "subject"),
    [
        ("saving checkpoint at iteration 500 to /ckpt", "checkpoint_started", "cluster"),
        ("successfully saved checkpoint from iteration 500", "checkpoint_saved", "cluster"),
        (
            "[  5.1] NVRM: Xid (PCI:0000:9b:00): 79, pid=1234, GPU has fallen off the bus.",
            "xid",
            "gpu:n7/0000:9b:00",
        ),
        ("  rank      : 3 (local_rank: 3)  exitcode  : -9 (pid: 44)", "rank_exited", "rank:3"),
        (
            "[rank1]: RuntimeError: [gloo/transport/tcp/pair.cc] Connection closed by peer [10.77.0.12]:1731",
            "peer_closed",
            "rank:1",
        ),
    ],
)
def test_what_else_a_log_says(line, kind, subject):
    events = [e for e in read(line, host="n7", hosts={"10.77.0.12": "2"}) if e.kind == kind]
    assert [str(e.subject) for e in events] == [subject]
    if kind == "peer_closed":
        assert events[0].details["peer"] == "rank:2"


@pytest.mark.parametrize(
    ("line", "file", "rank"),
    [
        ("step 1 loss 2.0", "logs/rank_3.log", "rank:3"),
        ("step 1 loss 2.0", "run/attempt_0/5/stdout.log", "rank:5"),
        ("[rank2]: step 1 loss 2.0", "a.log", "rank:2"),
        ("7: step 1 loss 2.0", "slurm.out", "rank:7"),
        ("step 1 loss 2.0", "a.log", "cluster"),
    ],
)
def test_whose_line_it_is(line, file, rank):
    (event,) = read(line, file)
    assert str(event.subject) == rank


def test_an_own_pattern():
    pattern = own_pattern(r"it=(?P<step>\d+) t=(?P<step_ms>[\d.]+) L=(?P<loss>\S+)")
    (event,) = read("it=4 t=250 L=nan", pattern=pattern)
    assert event.details["step_s"] == 0.25
    assert str(event.details["loss"]) == "nan"
    assert read("it=x", pattern=pattern) == []
    for bad in ("(", r"(?P<loss>\d+)", r"(?P<step>\d+) (?P<los>\d+)"):
        with pytest.raises(InputError):
            own_pattern(bad)


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("[2024-05-01 10:20:30] x", 1714558830.0),
        ("2024-05-01T10:20:30.500Z x", 1714558830.5),
        ("2024-05-01T12:20:30+02:00 x", 1714558830.0),
        ("2024-05-01 10:20:30,250 x", 1714558830.25),
        ("x" * 80 + "2024-05-01 10:20:30", None),
        ("2024-13-01 10:20:30", None),
        ("nothing", None),
    ],
)
def test_time_stamps(line, seconds):
    assert stamp_s(line) == seconds


def texts(tail: Tail) -> list[str]:
    return [line.note or line.text for line in tail.lines()]


def test_half_a_line_waits_for_its_other_half(tmp_path):
    path = tmp_path / "log"
    tail = Tail(path)
    assert texts(tail) == []
    with path.open("a") as file:
        file.write("one\ntw")
        file.flush()
        assert texts(tail) == ["one"]
        file.write("o\r\n")
        file.flush()
        assert texts(tail) == ["two"]
    assert [line.number for line in tail.lines()] == []
    tail.close()


def test_a_log_that_is_rotated_loses_nothing(tmp_path):
    path = tmp_path / "log"
    path.write_text("a\n")
    tail = Tail(path)
    assert texts(tail) == ["a"]
    with path.open("a") as file:
        file.write("b\n")
    os.rename(path, tmp_path / "log.1")
    path.write_text("c\n")
    assert texts(tail) == ["b", "rotated", "c"]
    tail.close()


def test_a_log_that_is_truncated_is_read_anew_and_told(tmp_path):
    path = tmp_path / "log"
    path.write_text("a long first line\n")
    tail = Tail(path)
    assert texts(tail) == ["a long first line"]
    path.write_text("b\n")
    assert texts(tail) == ["truncated", "b"]
    tail.close()


def test_from_the_end_the_past_is_left_out_but_not_half_of_a_line(tmp_path):
    path = tmp_path / "log"
    path.write_text("old\nste")
    tail = Tail(path, from_end=True)
    assert texts(tail) == []
    with path.open("a") as file:
        file.write("p 1\n")
    assert texts(tail) == ["step 1"]
    tail.close()


def test_a_line_without_an_end_and_bytes_that_are_no_text_are_survived(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"x" * (3 << 20) + b"\n\xff\xfe step\n")
    tail = Tail(path)
    got = texts(tail)
    assert sum(map(len, got[:-1])) == 3 << 20
    assert got[-1] == "\ufffd\ufffd step"
    tail.close()


def test_kernel_messages_are_read_as_the_device_gives_them(tmp_path):
    """A pipe stands for /dev/kmsg: one message a read, in its form."""
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    messages = KernelMessages(str(path))
    writer = os.open(path, os.O_WRONLY)
    os.write(writer, b"4,1234,5678,-;NVRM: Xid (PCI:0000:9b:00): 48, pid=7\n SUBSYSTEM=pci\n")
    assert list(messages.lines()) == [(1234, "NVRM: Xid (PCI:0000:9b:00): 48, pid=7")]
    os.close(writer)
    messages.close()
    assert "No such file" in KernelMessages(str(tmp_path / "none")).obstacle


def test_new_files_of_a_folder_and_a_pattern_are_found(tmp_path):
    folder = Folder((str(tmp_path / "run"), str(tmp_path / "*.txt")))
    assert list(folder.lines()) == []
    (tmp_path / "run").mkdir()
    (tmp_path / "run/rank0.log").write_text("one\n")
    (tmp_path / "b.txt").write_text("two\n")
    found = until(lambda: [line.text for line in folder.lines()])
    assert sorted(found) == ["one", "two"]
    folder.close()
