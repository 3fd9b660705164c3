"""Every metric of the watch: its name inside, in our exporter, and in the exporters that users already run.

Names of other exporters: dcgm-exporter 3, node_exporter 1.5 and later (infiniband and timex collectors).
The cardinality of ours is bounded: per node at most 14 series per GPU, 9 per port, 3 per rank, 4 per peer.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.domain.subject import Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """`name` inside has our unit ending; `exported` is the name for Prometheus, with `labels` of a subject.

    `others` are PromQL expressions over other exporters that tell the same.
    """

    name: str
    exported: str
    help: str
    labels: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def is_counter(self) -> bool:
        """Whether it only grows, but for resets."""
        return self.name.endswith("_total")


def _gpu(name: str, exported: str, help_: str, *others: str) -> Metric:
    return Metric(name=name, exported=f"assay_gpu_{exported}", help=help_, labels=("gpu",), others=others)


def _port(name: str, exported: str, help_: str, *others: str) -> Metric:
    labels = ("device", "port")
    return Metric(name=name, exported=f"assay_port_{exported}", help=help_, labels=labels, others=others)


def _node(name: str, exported: str, help_: str, *others: str) -> Metric:
    return Metric(name=name, exported=f"assay_{exported}", help=help_, others=others)


def _rank(name: str, exported: str, help_: str) -> Metric:
    return Metric(name=name, exported=f"assay_rank_{exported}", help=help_, labels=("rank",))


def _pair(name: str, exported: str, help_: str) -> Metric:
    return Metric(name=name, exported=f"assay_peer_{exported}", help=help_, labels=("peer",))


_IB = "node_infiniband"

METRICS = (
    _gpu("gpu_temperature_degC", "temperature_celsius", "Core temperature.", "DCGM_FI_DEV_GPU_TEMP"),
    _gpu("gpu_sm_clock_Hz", "sm_clock_hertz", "Clock of the SMs.", "DCGM_FI_DEV_SM_CLOCK * 1e6"),
    _gpu("gpu_power_W", "power_watts", "Power draw.", "DCGM_FI_DEV_POWER_USAGE"),
    _gpu("gpu_throttled_thermal", "throttled_thermal", "1 while slowed down by heat.",
         "rate(DCGM_FI_DEV_THERMAL_VIOLATION[1m]) > bool 0"),
    _gpu("gpu_throttled_power", "throttled_power_brake", "1 while slowed down by the power brake."),
    _gpu("gpu_lost", "lost", "1 when the driver has lost the GPU."),
    _gpu("gpu_ecc_uncorrected_total", "ecc_uncorrected_errors_total", "Since the driver was loaded.",
         "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"),
    _gpu("gpu_ecc_corrected_total", "ecc_corrected_errors_total", "Since the driver was loaded.",
         "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"),
    _gpu("gpu_remapped_rows", "remapped_rows", "Rows that were remapped for uncorrectable errors.",
         "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"),
    _gpu("gpu_remap_pending", "row_remap_pending", "1 while a row waits for a reset."),
    _gpu("gpu_remap_failed", "row_remap_failed", "1 when a row could not be remapped.",
         "DCGM_FI_DEV_ROW_REMAP_FAILURE"),
    _gpu("gpu_nvlinks_down", "nvlinks_down", "NVLinks that are not up."),
    _gpu("gpu_pcie_width_frac", "pcie_width_ratio", "PCIe lanes in use over lanes there are."),
    _gpu("gpu_pcie_replays_total", "pcie_replays_total", "PCIe packets sent again.",
         "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"),
    _gpu("gpu_last_xid", "last_xid", "The last Xid that the kernel told of it.", "DCGM_FI_DEV_XID_ERRORS"),
    _port("port_up", "up", "1 while the port is active.", f"{_IB}_state_id == bool 4"),
    _port("port_rate_Bps", "rate_bytes_per_second", "Rate of the link.", f"{_IB}_rate_bytes_per_second"),
    _port("port_symbol_errors_total", "symbol_errors_total", "Symbol errors.", f"{_IB}_symbol_error_total"),
    _port("port_link_errors_total", "link_errors_total", "Link error recoveries.",
          f"{_IB}_link_error_recovery_total"),
    _port("port_link_downed_total", "link_downed_total", "Times that the link went down.",
          f"{_IB}_link_downed_total"),
    _port("port_discards_total", "transmit_discards_total", "Packets that were discarded.",
          f"{_IB}_port_discards_transmitted_total"),
    _port("port_out_of_sequence_total", "out_of_sequence_total", "Packets out of sequence (hw_counters).",
          f"{_IB}_out_of_sequence_packets_received_total"),
    _port("port_xmit_wait_total", "transmit_wait_ticks_total", "Ticks with data but without credits.",
          f"{_IB}_port_transmit_wait_total"),
    _port("port_xmit_data_bytes_total", "transmit_bytes_total", "Bytes sent.",
          f"{_IB}_port_data_transmitted_bytes_total"),
    _node("node_tcp_retransmits_total", "tcp_retransmitted_segments_total", "TCP segments sent again.",
          "node_netstat_Tcp_RetransSegs"),
    _node("node_tcp_segments_total", "tcp_segments_total", "TCP segments sent.", "node_netstat_Tcp_OutSegs"),
    _node("clock_synchronized", "clock_synchronized", "1 while a service disciplines the clock.",
          "node_timex_sync_status"),
    _node("clock_offset_s", "clock_offset_seconds", "This clock minus true time, by chrony or PTP.",
          "node_timex_offset_seconds"),
    _node("storage_latency_s", "storage_write_seconds", "A write of 4 KiB with fsync."),
    _rank("rank_state", "state", "0 as it should be, 1 stopped, 2 a zombie."),
    _rank("rank_cpu_wait_s_total", "cpu_wait_seconds_total", "Ready to run, without a processor."),
    _rank("rank_cpu_throttled_s_total", "cpu_throttled_seconds_total", "Halted by its control group."),
    _pair("pair_round_trip_s", "round_trip_seconds", "The lowest round trip of a burst of UDP probes."),
    _pair("pair_lost_frac", "lost_ratio", "Share of the UDP probes that did not come back."),
    _pair("pair_clock_offset_s", "clock_offset_seconds", "The peer's clock minus this one, at least."),
    _pair("pair_rate_Bps", "rate_bytes_per_second", "The better of the last two rates of 256 KiB over TCP."),
)  # fmt: skip
BY_NAME = {metric.name: metric for metric in METRICS}


def labels_of(subject: Subject, metric: Metric) -> tuple[str, ...]:
    """The values of a metric's labels for a subject of this node."""
    own = subject.name.partition("/")[2]
    if metric.labels == ("gpu",):
        return (own,)
    if metric.labels == ("device", "port"):
        device, _, port = own.partition("[")
        return device, port.rstrip("]")
    if metric.labels == ("peer",):
        return (subject.ends[1],)
    return (subject.name,) if metric.labels == ("rank",) else ()


def subject_of(host: str, labels: dict[str, str]) -> Subject:
    """The subject of a series by its labels: a GPU, a port, a rank, a link to a peer, else the node."""
    if "peer" in labels:
        return Subject("link", f"{host}>{labels['peer']}")
    if "rank" in labels:
        return Subject("rank", labels["rank"])
    if "gpu" in labels:
        return Subject("gpu", f"{labels.get('Hostname') or host}/{labels['gpu']}")
    if "device" in labels and "port" in labels:
        return Subject("port", f"{host}/{labels['device']}[{labels['port']}]")
    return Subject("node", host)
