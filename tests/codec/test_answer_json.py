import json

from assay.codec.answer import answer
from assay.domain.criterion import Criterion, Op
from assay.domain.finding import Evidence, Finding, Severity
from assay.domain.message import Message
from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import Subject
from assay.domain.verdict import Assessment, Judgement, Verdict

RANK = Subject("rank", "0")
CRITERION = Criterion(
    id="gemm", quantity="gemm.bf16.rate", op=Op.AT_LEAST, unit="1", bound=0.9, of=Origin.CLAIMED, clause="3.1"
)


def reading(origin: Origin, value: float | None) -> Reading:
    """A reading of the rate, with an interval where there is a value."""
    return Reading(
        quantity="gemm.bf16.rate",
        subject=RANK,
        origin=origin,
        value=value,
        unit="FLOP/s",
        low=value,
        high=value,
        n=5,
        reason=None if value is not None else "4 ranks share 2 cores",
        source="f:1",
    )


def told(verdict: Verdict, measured: Reading) -> dict[str, object]:
    """The answer for one judgement, through JSON."""
    judgement = Judgement(
        criterion=CRITERION,
        subject=RANK,
        verdict=verdict,
        reason=Message.of("below_bound", value=1.0),
        recipe=Recipe.of(shape="8x8x8"),
        unit="FLOP/s",
        bound=9e11,
        claimed=reading(Origin.CLAIMED, 1e12),
        measured=measured,
        more_restarts=3,
    )
    finding = Finding(
        code="NODE_SLOW",
        severity=Severity.HIGH,
        subject=RANK,
        because=Message.of("because"),
        confidence_frac=0.9,
        evidence=(Evidence(file="f", line=1, text="t"),),
    )
    assessment = Assessment(profile="p", judgements=(judgement,), findings=(finding,), missing_ranks=(3,))
    data = answer(
        assessment,
        command="judge",
        assay_version="0.1",
        run="r",
        text=lambda message: f"<{message.code}>",
        finding_text=lambda code: (f"title of {code}", ("swap it",)),
    )
    read_back: dict[str, object] = json.loads(json.dumps(data, allow_nan=False))
    return read_back


def test_the_answer_holds_what_the_page_shows() -> None:
    data = told(Verdict.FAIL, reading(Origin.MEASURED, 8e11))
    assert data["verdict"] == "fail"
    assert (data["schema_version"], data["command"], data["profile"], data["run"]) == (1, "judge", "p", "r")
    assert data["missing_ranks"] == [3]
    assert data["criteria"] == [
        {
            "id": "gemm",
            "quantity": "gemm.bf16.rate",
            "subject": "rank:0",
            "recipe": {"shape": "8x8x8"},
            "bound": {
                "op": "at_least",
                "value": 9e11,
                "high": None,
                "unit": "FLOP/s",
                "over": "each",
                "rule": "simple",
                "of": "claimed",
            },
            "required": True,
            "verdict": "fail",
            "reason": "<below_bound>",
            "reason_code": "below_bound",
            "more_restarts": 3,
            "clause": "3.1",
            "source": "",
            "claimed": _object(1e12, "claimed"),
            "predicted": None,
            "measured": _object(8e11, "measured"),
        }
    ]
    assert data["findings"] == [
        {
            "code": "NODE_SLOW",
            "title": "title of NODE_SLOW",
            "severity": "high",
            "confidence": 0.9,
            "subject": "rank:0",
            "because": "<because>",
            "evidence": [{"file": "f", "line": 1, "text": "t"}],
            "fix": ["swap it"],
            "follows_from": None,
        }
    ]


def test_a_missing_value_is_null_beside_its_reason() -> None:
    data = told(Verdict.NOT_MEASURED, reading(Origin.MEASURED, None))
    assert data["verdict"] == "not_measured"
    criteria = data["criteria"]
    assert isinstance(criteria, list)
    assert criteria[0]["measured"]["value"] is None
    assert criteria[0]["measured"]["reason"] == "4 ranks share 2 cores"


def _object(value: float, origin: str) -> dict[str, object]:
    return {
        "value": value,
        "low": value,
        "high": value,
        "n": 5,
        "unit": "FLOP/s",
        "origin": origin,
        "source": "f:1",
    }
