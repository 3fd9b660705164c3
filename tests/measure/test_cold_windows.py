"""Windows whose iterations find the caches cold."""

import pytest

from assay.measure import timing


def test_what_empties_the_caches_runs_before_every_iteration_and_does_not_count(monkeypatch):
    now_s, calls = [0.0], []

    def taking(name, seconds):
        def run():
            calls.append(name)
            now_s[0] += seconds

        return run

    monkeypatch.setattr(timing.time, "perf_counter", lambda: now_s[0])
    monkeypatch.setattr(timing.time, "process_time", lambda: now_s[0] / 2)
    result = timing.cold_windows(
        taking("work", 0.25), taking("evict", 1.0), window_s=5.0, count=3, warmup_s=2.0
    )
    # An iteration with its eviction takes 1.25 s, so four of them fill a window.
    assert result.iterations_per_window == 4
    assert result.median_s == pytest.approx(0.25)
    assert result.cpu_share_frac == pytest.approx(0.5)
    assert calls == ["evict", "work"] * (len(calls) // 2)
