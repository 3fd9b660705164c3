"""Clock tools: chronyc tracking and waitsync, ptp4l, pmc, timedatectl, and `date` run on several nodes."""

from __future__ import annotations

from assay.formats.sentences import Sentence

#: `date` as several nodes print it: `node-7: Wed Mar  6 10:00:00 UTC 2024`.
_DATE = (
    r"^(?P<host>[\w.-]+):\s+\w{3},? (?:\d{1,2} )?\w{3} +(?:\d{1,2} )?(?:\d{4} )?"
    r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d(?:\.\d+)?)\b"
)

SENTENCES = (
    *(Sentence("clock.date", day, _DATE) for day in ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")),
    Sentence("clock.local_reference", "refid", r"refid: (?P<refid>7F7F0101|7F000001|00000000)"),
    Sentence("clock.local_reference", "Reference", r"Reference ID\s*: (?P<refid>7F7F0101|00000000)"),
    Sentence("clock.not_synchronised", "Leap", r"Leap status\s*: Not synchronised"),
    Sentence("clock.not_synchronised", "Stratum", r"Stratum\s*: (?:0|16)\s*$"),
    Sentence("clock.not_synchronised", "synchronized", r"(?:System clock|NTP) synchronized: no"),
    Sentence(
        "clock.not_synchronised",
        "port",
        r"ptp4l.*port \d+.*(?:to|:) (?:FAULTY|LISTENING|UNCALIBRATED)\b.*timeout",
    ),
    Sentence("clock.not_synchronised", "FAULTY", r"(?:ptp4l|portState).*FAULTY"),
    Sentence("clock.offset", "System", r"System time\s*: (?P<seconds>\d+\.\d+) seconds (?P<way>slow|fast)"),
    Sentence("clock.offset", "offset", r"(?:master offset|offsetFromMaster)\s+(?P<ns>-?\d+(?:\.\d+)?)"),
    Sentence(
        "clock.offset",
        "offset",
        r"(?P<host>[\w.-]+):?.*\boffset[ =:]+(?P<seconds>-?\d+\.\d+) ?s(?:ec|econds)?\b",
    ),
    Sentence("clock.refid", "refid", r"refid: (?P<refid>[0-9A-F]{8})"),
    Sentence("clock.servo", "ptp4l", r"ptp4l\[[\d.]+\]: (?:\[[^\]]*\] )?(?:rms|port|master offset)"),
    Sentence("clock.servo", "rms", r"rms\s+\d+ max\s+\d+"),
)
