"""Prometheus alerting rules that say what the watch's simplest detectors say, for who has no watcher yet."""

from __future__ import annotations

from dataclasses import dataclass

from assay.catalog.findings import finding as kind_of
from assay.catalog.messages import Texts
from assay.domain.finding import Severity
from assay.watch.metrics import BY_NAME
from assay.watch.settings import Settings

_SEVERITY = {Severity.CRITICAL: "critical", Severity.HIGH: "critical", Severity.MEDIUM: "warning"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One alert: its finding code, an expression with `{m}` for the metric, and how long it holds."""

    code: str
    metric: str
    expression: str
    hold: str

    @property
    def name(self) -> str:
        """How the alert is called: IB_LINK_FLAP as AssayIbLinkFlap, with the metric where codes repeat."""
        return "Assay" + "".join(word.capitalize() for word in self.code.split("_"))


def rules(settings: Settings) -> tuple[Rule, ...]:
    """Every rule, with the bounds of the settings."""
    s = settings
    rows = (
        ("NODE_DOWN", "", "up == 0", "30s"),
        ("GPU_LOST", "gpu_lost", "{m} == 1", "0s"),
        ("GPU_THROTTLED_THERMAL", "gpu_throttled_thermal", "{m} == 1", "1m"),
        ("GPU_THROTTLED_POWER", "gpu_throttled_power", "{m} == 1", "1m"),
        ("GPU_ECC_UNCORRECTABLE", "gpu_ecc_uncorrected_total", "increase({m}[10m]) > 0", "0s"),
        ("GPU_ECC", "gpu_remapped_rows", f"{{m}} > {s.remapped_rows_most:g}", "0s"),
        ("GPU_ROW_REMAP_PENDING", "gpu_remap_pending", "{m} == 1", "0s"),
        ("GPU_ROW_REMAP_FAILURE", "gpu_remap_failed", "{m} == 1", "0s"),
        ("NVLINK_DOWN", "gpu_nvlinks_down", "{m} > 0", "30s"),
        ("PCIE_DEGRADED", "gpu_pcie_width_frac", "{m} < 0.99", "1m"),
        ("IB_PORT_DOWN", "port_up", "{m} == 0", "15s"),
        ("IB_LINK_FLAP", "port_link_downed_total", f"increase({{m}}[1h]) >= {s.flaps_most:g}", "0s"),
        ("IB_LINK_ERRORS", "port_symbol_errors_total", f"increase({{m}}[1h]) > {s.symbol_errors_per_h:g}",
         "0s"),
        ("IB_LINK_RATE_LOW", "port_rate_Bps", "{m} < 0.99 * max_over_time({m}[7d])", "1m"),
        ("LINK_LOSS", "pair_lost_frac", f"avg_over_time({{m}}[2m]) > {s.pair_loss_frac:g}", "1m"),
        ("LINK_SLOW", "pair_round_trip_s",
         f"{{m}} > {s.pair_ratio:g} * quantile_over_time(0.5, {{m}}[1h])", "1m"),
        ("CLOCK_OFFSET", "clock_offset_s", f"abs({{m}}) > {s.clock_offset_s:g}", "1m"),
        ("TIME_NOT_SYNCED", "clock_synchronized", "{m} == 0", "10m"),
        ("STORAGE_STALL", "storage_latency_s", f"{{m}} > {s.storage_s:g}", "15s"),
        ("RANK_STOPPED", "rank_state", "{m} == 1", "5s"),
        ("RANK_STARVED", "rank_cpu_throttled_s_total", f"rate({{m}}[1m]) > {s.cpu_throttled_frac:g}", "30s"),
    )  # fmt: skip
    return tuple(
        Rule(
            code=code,
            metric=metric,
            expression=expression.replace("{m}", BY_NAME[metric].exported) if metric else expression,
            hold=hold,
        )
        for code, metric, expression, hold in rows
    )


def rules_file(settings: Settings, texts: Texts) -> dict[str, object]:
    """The content of a rules file."""
    return {
        "groups": [
            {
                "name": "assay",
                "rules": [
                    {
                        "alert": rule.name,
                        "expr": rule.expression,
                        "for": rule.hold,
                        "labels": {
                            "severity": _SEVERITY.get(kind_of(rule.code).severity, "info"),
                            "code": rule.code,
                        },
                        "annotations": {
                            "summary": texts.finding(rule.code).title,
                            "description": texts.finding(rule.code).why,
                            "fix": " ".join(texts.finding(rule.code).fixes),
                        },
                    }
                    for rule in rules(settings)
                ],
            }
        ]
    }
